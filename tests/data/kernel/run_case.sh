
umount $MNT || umount -l $MNT
nfsmount $EXPORT $MNT {options} && rm -rf $MNT/* /tmp/*
cat >/case <<'END-OF-CASE'
{script}
END-OF-CASE
sh /case >/case.out 2>/case.err
printf '{name}\036%s\036' $?; cat /case.out; printf '\036'; cat /case.err; printf '\036'
