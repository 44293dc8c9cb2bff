
umount $MNT; nfsmount /squashed $MNT
cd $MNT
echo mine >f; stat -c %u:%g f; chmod 4755 f; stat -c %a f
chown 0 f 2>/dev/null || echo refused
mknod null c 1 3 2>/dev/null || echo refused
mkdir d; echo x >d/g; mv d/g h; rm h; rmdir d; cat f
