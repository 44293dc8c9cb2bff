
set -e
mkdir -p /tmp/tree/a/b/c /tmp/tree/empty
for size in 0 1 4095 4096 4097 1048576 5000001; do head -c $size /dev/urandom >/tmp/tree/a/b/$size; done
for i in $(seq 200); do echo $i >/tmp/tree/a/b/c/file-$i; done
cp -r /tmp/tree $MNT/tree
umount $MNT                            # what comes now comes from the volume, not from the client's cache
nfsmount $EXPORT $MNT
cp -r $MNT/tree /tmp/back
(cd /tmp/tree && find . | sort && find . -type f | sort | xargs sha256sum) >/tmp/expected
(cd /tmp/back && find . | sort && find . -type f | sort | xargs sha256sum) >/tmp/found
cmp /tmp/expected /tmp/found && wc -l </tmp/found
