"""The embedded volume mounted by the Linux kernel's own NFS client."""

from __future__ import annotations

import pytest

from bench.servers import Server
from conftest import KernelNfs

OPTIONS = "vers=3,nconnect=4,rsize=262144,wsize=262144"

COPY_A_TREE = """
set -e
mkdir -p /tmp/tree/a/b/c /tmp/tree/empty
for size in 0 1 4095 4096 4097 1048576 5000001; do head -c $size /dev/urandom >/tmp/tree/a/b/$size; done
for i in $(seq 200); do echo $i >/tmp/tree/a/b/c/file-$i; done
cp -r /tmp/tree $MNT/tree
umount $MNT                            # what comes now comes from the volume, not from the client's cache
nfsmount $EXPORT $MNT
cp -r $MNT/tree /tmp/back
(cd /tmp/tree && find . | sort && find . -type f | sort | xargs sha256sum) >/tmp/expected
(cd /tmp/back && find . | sort && find . -type f | sort | xargs sha256sum) >/tmp/found
cmp /tmp/expected /tmp/found && wc -l </tmp/found
"""

CHANGE_A_TREE = """
set -e
cd $MNT
mkdir d; echo one >d/file; mv d/file d/other; cat d/other
echo two >>d/other; cat d/other
truncate -s 3 d/other; cat d/other; echo
chmod 640 d/other; stat -c %a d/other
rm d/other; rmdir d; ls | wc -l
"""

FIO_VERIFY = (
    "/usr/bin/fio --name=verify --directory=$MNT --size=16m --bs=4k --rw=randwrite --direct=1 "
    "--ioengine=libaio --iodepth=16 --verify=crc32c --minimal >/tmp/fio && echo verified"
)


def test_a_tree_survives_the_way_in_and_out(volume: Server, kernel_nfs: KernelNfs) -> None:
    done = kernel_nfs(volume, COPY_A_TREE, options=OPTIONS)
    # 5 directories and the root, 207 files listed; 207 checksums.
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{6 - 1 + 207 + 207}\n", "")


def test_files_and_directories_change(volume: Server, kernel_nfs: KernelNfs) -> None:
    done = kernel_nfs(volume, CHANGE_A_TREE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "one\none\ntwo\none\n640\n0\n", "")


def test_fio_finds_what_it_wrote(volume: Server, kernel_nfs: KernelNfs) -> None:
    done = kernel_nfs(volume, FIO_VERIFY, options=OPTIONS)
    assert (done.returncode, done.stdout) == (0, "verified\n"), done.stderr


@pytest.mark.parametrize("nconnect", [1, 8])
def test_the_client_opens_as_many_connections_as_asked(volume: Server, kernel_nfs: KernelNfs, nconnect: int) -> None:
    done = kernel_nfs(volume, "grep -c xprt: /proc/self/mountstats", options=f"vers=3,nconnect={nconnect}")
    assert (done.returncode, done.stdout) == (0, f"{nconnect}\n"), done.stderr


def test_an_unknown_export_cannot_be_mounted(volume: Server, kernel_nfs: KernelNfs) -> None:
    done = kernel_nfs(Server(volume.pid, volume.port, volume.mount_port, "/elsewhere"), "true")
    assert done.returncode == 126
