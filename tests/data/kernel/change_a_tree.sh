
set -e
cd $MNT
mkdir d; echo one >d/file; mv d/file d/other; cat d/other
echo two >>d/other; cat d/other
truncate -s 3 d/other; cat d/other; echo
chmod 640 d/other; stat -c %a d/other
rm d/other; rmdir d; ls | wc -l
