umount $MNT; nfsmount /read-only $MNT && touch $MNT/f 2>&1; ls $MNT | wc -l
