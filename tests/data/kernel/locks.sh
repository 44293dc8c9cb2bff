
set -e
mkdir /tmp/other
nfsmount $EXPORT /tmp/other vers=4.1,nosharecache
echo data >$MNT/f
exec 9<>$MNT/f
flock -x -n 9 && echo locked
flock -x -n /tmp/other/f true || echo refused
flock -u 9
flock -x -n /tmp/other/f true && echo free
umount /tmp/other
