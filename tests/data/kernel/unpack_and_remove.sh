
set -e
mkdir -p /tmp/src/a/b /tmp/src/c
for i in $(seq 500); do echo $i >/tmp/src/a/b/$i; done
ln -s ../a/b /tmp/src/c/link; ln /tmp/src/a/b/1 /tmp/src/c/hard; chmod 600 /tmp/src/a/b/2
tar -C /tmp/src -cf /tmp/src.tar .
mkdir $MNT/out; tar -C $MNT/out -xf /tmp/src.tar
umount $MNT; nfsmount $EXPORT $MNT
diff -r /tmp/src $MNT/out && readlink $MNT/out/c/link && stat -c %h $MNT/out/c/hard && stat -c %a $MNT/out/a/b/2
ls $MNT/out/a/b | wc -l
rm -rf $MNT/out; ls $MNT | wc -l
