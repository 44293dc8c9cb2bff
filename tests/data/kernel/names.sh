
mkdir $MNT/build && cp /engine-tests $MNT/build/tests
$MNT/build/tests --quiet engines::metadata:: | grep "test result"
