/usr/bin/fio --name=verify --directory=$MNT --size=16m --bs=4k --rw=randwrite --direct=1 --ioengine=libaio --iodepth=16 --verify=crc32c --minimal >/tmp/fio && echo verified
