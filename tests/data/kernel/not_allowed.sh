nfsmount /secure /tmp/secure
