
set -e
umask 022
echo user:x:1000:100::/:/bin/sh >>/etc/passwd
cd $MNT
mkdir closed open; chmod 700 closed; chmod 1777 open; echo mine >closed/f; echo mine >open/f
as_user() { su -s /bin/sh user -c "$1"; }
as_user 'cat closed/f' 2>/dev/null || echo refused
as_user 'echo more >>open/f' 2>/dev/null || echo refused
as_user 'rm -f open/f' 2>/dev/null || echo refused
as_user 'chmod 777 open/f' 2>/dev/null || echo refused
as_user 'cat open/f; echo own >open/g; rm open/g' && echo allowed
