nfsmount /elsewhere /tmp/elsewhere
