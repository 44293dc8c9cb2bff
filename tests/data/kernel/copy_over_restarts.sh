
set -e
mkdir /tmp/t; for i in $(seq 60); do head -c 300000 /dev/urandom >/tmp/t/$i; done
for i in $(seq 400); do echo $i >/tmp/t/s$i; done
cp -r /tmp/t $MNT/t
umount $MNT; nfsmount $EXPORT $MNT
(cd /tmp/t && ls | sort | xargs sha256sum) >/tmp/expected
(cd $MNT/t && ls | sort | xargs sha256sum) >/tmp/found
cmp /tmp/expected /tmp/found && wc -l </tmp/found
