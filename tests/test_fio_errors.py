"""All errors of a fio job come at once, each with its position and a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from fio_machine import HeldMachine
from iocurve.dialects.fio.command import DIALECT, parsed, read_command
from iocurve.dialects.fio.invocation import FioCommand
from iocurve.dialects.fio.read.options import OPTIONS
from iocurve.engine.plan import AioEngine, NfsEngine
from iocurve.foundation.errors import DialectError, PlanError, TargetError
from iocurve.measure import jobs

HERE = Path("/d")
MACHINE = HeldMachine(
    paths={
        "/dev/sdx": ("block", 1 << 30),
        "/dev/tty": ("other", 0),
        "/dev/null": ("null", 0),
        "/d/old": ("file", 1 << 20),
        "/d/directory": ("directory", 0),
    },
    mounted=frozenset({"/dev/sdx"}),
    directories=frozenset({"/d"}),
)


def fio(*arguments: str, cwd: Path = HERE) -> FioCommand:
    return read_command(arguments, cwd=cwd, environment={}, machine=MACHINE)


def null(*arguments: str) -> FioCommand:
    return fio("--name=a", "--size=1m", "--ioengine=null", *arguments)


def errors(*arguments: str) -> list[str]:
    with pytest.raises((DialectError, PlanError)) as refusal:
        fio(*arguments)
    return [str(error) for error in refusal.value.errors]


def file_errors(directory: Path, text: str, *more: str) -> list[str]:
    (directory / "job.fio").write_text(text, encoding="utf-8")
    with pytest.raises(DialectError) as refusal:
        fio("job.fio", *more, cwd=directory)
    assert str(refusal.value) == "\n".join(map(str, refusal.value.errors))
    return [str(error) for error in refusal.value.errors]


def codes(result: FioCommand) -> list[str]:
    return [note.code for note in result.notes]


def test_all_errors_of_a_file_at_once(tmp_path: Path) -> None:
    text = "[global]\nsize=abc\n  iodpeth=4\n[a]\nrw=raed\nverify=crc33 ; why\nBS=4k\nnumjobs\n[b\nx=1\n[c]\nfoo\n"
    assert file_errors(tmp_path, text) == [
        "job.fio:2:6: 'abc' is not a size such as 64k or 30g",
        "job.fio:3:3: unknown option 'iodpeth' (Did you mean iodepth?)",
        "job.fio:5:4: rw takes read, write, trim, rw, readwrite, trimwrite, randread, randwrite, randtrim, randrw or "
        "randtrimwrite, not 'raed'; did you mean read?",
        "job.fio:6:8: verify takes 0, none, md5, crc7, crc16, crc32, crc32c, crc32c-intel, crc64, xxhash, sha1, "
        "sha256, sha512, sha3-224, sha3-256, sha3-384, sha3-512, meta, pattern, pattern_hdr or null, not 'crc33'; did "
        "you mean crc32?",
        "job.fio:7:1: unknown option 'BS' (Did you mean bs? Option names are lower case)",
        "job.fio:8:1: numjobs needs a value (write numjobs=…)",
        "job.fio:9:1: '[b' opens a section but has no ']' (write [b])",
        "job.fio:12:1: unknown option 'foo'",
    ]


def test_all_errors_of_a_command_line_at_once() -> None:
    assert errors(
        "--name=a", "--idepth", "--ioengine=libaoi", "--output-format=xml", "--latency-log=x", "--direct", "--rw=read"
    ) == [
        "command line, argument 2 (--idepth): unknown option '--idepth' (Did you mean iodepth?)",
        "command line, argument 3 (--ioengine=libaoi): unknown ioengine 'libaoi'; did you mean libaio? "
        "Supported: psync, sync, vsync, "
        "pvsync, pvsync2, libaio, posixaio, io_uring, mmap, null, nfs, filecreate, filestat, filedelete, dircreate, "
        "dirstat, dirdelete, falloc or ftruncate",
        "command line, argument 4 (--output-format=xml): unknown output format 'xml'; "
        "--output-format takes normal, terse, json and json+",
        "command line, argument 5 (--latency-log=x): --latency-log is not supported "
        "(fio itself refuses it; write_lat_log= in a job "
        "writes a latency log)",
        "command line, argument 6 (--direct): --direct needs a value (write --direct=1)",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "size=1m\n",
            "job.fio:1:1: 'size=1m' comes before the first [section] (put it into [global] or a job section)",
        ),
        ("[]\n", "job.fio:1:1: this section has no name (name it, such as [job1])"),
        ("[a]\ninclude none.inc\n", "job.fio:2:1: job file 'none.inc' cannot be read: No such file or directory"),
        ("[a]\ninclude job.fio\n", "job.fio:2:1: 'job.fio' includes itself"),
        ("[a]\nsize=$ncpus*(2\n", "job.fio:2:1: '4*(2' cannot be calculated (use whole numbers, + - * / and ( ))"),
        ("[a]\nnfs_url=\udcff\n", "job.fio:2:9: '�' is not UTF-8 text"),
    ],
)
def test_grammar(tmp_path: Path, text: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    (tmp_path / "job.fio").write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(DialectError) as refusal:
        fio("job.fio", cwd=tmp_path)
    assert expected in [str(error) for error in refusal.value.errors]


def test_an_included_file_cannot_begin_a_section(tmp_path: Path) -> None:
    (tmp_path / "more.inc").write_text("[b]\n", encoding="utf-8")
    text = "[a]\nsize=1m\nioengine=null\ninclude more.inc\n"
    assert file_errors(tmp_path, text) == ["more.inc:1:1: '[b]': an included file cannot begin a section"]


def test_a_job_file_is_shown_as_a_command_line(tmp_path: Path) -> None:
    text = (
        "[global]\nblocksize=4k\n[a]\nioengine=null\nsize=${SIZE}\nnr_files=2\ndescription=a b ; c\n"
        "[b]\nfilename=x\nsize=2*$pagesize\nunit_base=8\nstonewall\n"
    )
    (tmp_path / "job.fio").write_text(text, encoding="utf-8")
    shown = read_command(
        ["--showcmd", "--runtime=3", "job.fio"], cwd=tmp_path, environment={"SIZE": "1m"}, machine=MACHINE
    )
    assert shown.check_only
    assert shown.command_lines == (
        'fio --runtime=3 --bs=4k --name=a --ioengine=null --size=1m --nrfiles=2 --description="a b" '
        "--name=b --unit_base=8 --size=8192 --stonewall --filename=x ",
    )


def test_a_variable_that_is_not_set_is_named_in_the_error(tmp_path: Path) -> None:
    assert file_errors(tmp_path, "[a]\nsize=${OFFSET2}m\n")[0] == (
        "job.fio:2:6: 'm' is not a size such as 64k or 30g (${OFFSET2} is not set: set OFFSET2=…)"
    )


def test_a_byte_order_mark_is_ignored_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "job.fio").write_text("\ufeff[a]\nioengine=null\nsize=1m\n", encoding="utf-8")
    result = fio("job.fio", cwd=tmp_path)
    assert [note.code for note in result.notes if note.level == "warning"] == ["byte_order_mark"]


def test_parse_only_needs_neither_files_nor_sizes() -> None:
    assert fio("--name=a", "--filename=/dev/none", "--parse-only").check_only


def test_aio_is_libaio() -> None:
    for name in ("aio", "linuxaio"):
        (worker,) = fio("--name=a", "--size=1m", f"--ioengine={name}").plan.groups[0].workers
        assert isinstance(worker.engine, AioEngine)


def test_globals_alone_are_no_job(tmp_path: Path) -> None:
    expected = "job.fio:1:1: [global] alone defines no job (add a job section such as [job1] below it)"
    assert file_errors(tmp_path, "[global]\nsize=1m\n") == [expected]


def test_options_of_an_engine_that_cannot_run_are_not_named_one_by_one(tmp_path: Path) -> None:
    text = "[a]\npool=x\nioengine=rbd\nrbdname=y\npi_act=1\nsize=abc\n"
    assert file_errors(tmp_path, text) == [
        "job.fio:3:10: ioengine=rbd is not supported: iocurve measures files, devices and NFS",
        "job.fio:6:6: 'abc' is not a size such as 64k or 30g",
    ]


def test_options_of_a_command_line_may_be_cut_short() -> None:
    assert null("--runti=5").plan.groups[0].workers[0].end.runtime_ns == 5_000_000_000
    [error] = errors("--name=a", "--size=1m", "--iodep=4")
    assert error == "command line, argument 3 (--iodep=4): unknown option '--iodep=4' (Did you mean iodepth?)"


def test_only_workers_that_run_together_can_be_too_many() -> None:
    more = ["--name=b", "--stonewall", "--size=1m", "--numjobs=4000", "--ioengine=null"]
    assert len(null("--numjobs=4000", *more).plan.groups) == 2


def test_a_file_that_includes_itself(tmp_path: Path) -> None:
    (tmp_path / "loop.inc").write_text("include loop.inc\n", encoding="utf-8")
    text = "[a]\nsize=1m\nioengine=null\ninclude loop.inc\n"
    assert file_errors(tmp_path, text) == ["loop.inc:1:1: 'loop.inc' includes itself"]


ONE_ERROR = [
    ("none.fio", "job file 'none.fio' cannot be read: No such file or directory"),
    ("", "there is no job to run (give a job file, or options such as --name=test --rw=randread --size=1g)"),
    ("--name=a --section=b", "--section=b: no job file has a section [b]"),
    ("--name=a --section=global", "--section needs the name of a job; [global] applies to every job anyway"),
    ("--name=a", "a: no size is given for /d/a.0.0 (add a size, such as size=1g)"),
    ("--name=a --filename=/dev/none", "a: there is no device /dev/none"),
    ("--name=a --size=1k", "a: size (1024 bytes) is smaller than one block (4096 bytes)"),
    (
        "--name=a --size=8k --nrfiles=4",
        "/d/a.0.0: the region from byte 0 has 2048 bytes, less than one block (4096 bytes)",
    ),
    ("--name=a --filename=old --offset=2m", "/d/old: the region from byte 2097152 has 0 bytes, less than one block"),
    (
        "--size=1m --offset=8589934591g --offset_increment=1g --numjobs=2",
        "/d/fio.1.0: no file can be larger than 9223372036854775807 bytes",
    ),
    ("--size=1m --rate=1m --rate_iops=5", "rate and rate_iops exclude one another (keep one)"),
    ("--size=1m --cpus_allowed=9", "processor 9 does not exist, or this process may not use it (available: 0-3)"),
    ("--size=1m --numjobs=5000", "5000 workers are too many; 4096 can run at once"),
    ("--size=1m --numjobs=4000 --nrfiles=1000", "4000000 files are too many; 1000000 can be open at once"),
    ("--size=1m --ioengine=nfs", "ioengine=nfs needs a server (add nfs_url=nfs://host/export)"),
    ("--size=1m --ioengine=nfs --nfs_url=http://h/x", "'http://h/x' is not an NFS URL; write nfs://host/export"),
    ("--size=1m --ioengine=nfs --nfs_url=nfs://h/x?nconnect=99", "nconnect must be from 1 to 16, not '99'"),
    (
        "--size=1m --ioengine=nfs --nfs_url=nfs://h/x?sec=krb5",
        "'sec=krb5' is not supported; there are vers=3, vers=4.1, nconnect",
    ),
    ("--size=1m --ioengine=nfs --nfs_url=nfs://h", "'nfs://h' names no export; write nfs://h/export"),
    ("--size=1m --ioengine=nfs --nfs_url=nfs://h/x --filename=../y", "'../y' leads out of the export"),
    ("--size=1m --readonly --rw=write", "this job writes, which --readonly forbids"),
    (
        "\u2013\u2013size=1m",
        "this begins with the dash '\u2013'; options begin with '--' (write --size=1m)",
    ),
    ("\u2014rw=read --size=1m", "write --rw=read"),
    ("--size=1m --ioengine=rbd", "ioengine=rbd is not supported: iocurve measures files, devices and NFS"),
    ("--size=1m --ioengine=io_uring_cmd", "use ioengine=io_uring on the block device"),
    ("--size=1m --num_range=8", "num_range=8 is not supported: a trim has one range"),
    ("--size=1m --rw=randread:0", "rw must be from 1 to 4294967295, not 0"),
    (
        "--size=1m --mem=mmep",
        "mem takes malloc, shm, shmhuge, mmap, mmapshared, mmaphuge or cudamalloc, not 'mmep'; did",
    ),
    ("--size=1m --random_generator=lfsr2", "takes tausworthe, lfsr or tausworthe64, not 'lfsr2'; did you mean lfsr?"),
    ("--size=1m --clocksource=gettime", "clocksource takes gettimeofday, clock_gettime or cpu, not 'gettime'; did"),
    ("--size=1m --verify_policy=complet", "takes issued, completed or fsynced, not 'complet'; did you mean completed?"),
    (
        "--size=1m --dedupe_mode=workingset",
        "dedupe_mode takes repeat or working_set, not 'workingset'; did you mean wo",
    ),
    ("--size=1m --zonemode=stride", "zonemode takes none, strided or zbd, not 'stride'; did you mean strided?"),
    ("--size=1m --prioclass=4", "prioclass must be from 0 to 3, not 4"),
    ("--size=1m --ioengine=libaio --cmdprio_class=4", "cmdprio_class must be from 0 to 3, not 4"),
    ("--size=1m --ioengine=mmap --create_on_open=1", "create_on_open: a mapped file cannot grow"),
    ("--size=1m --rw=trimwrite --verify=crc32c", "verify is not supported in a job that trims"),
    ("--size=1m --nice=-30", "nice must be from -20 to 19, not -30"),
    ("--size=1m --rate_min=1m,x", "'x' is not a size such as 64k or 30g"),
    ("--size=1m --zone_reset_threshold=2", "zone_reset_threshold takes a number from 0 to 1, not '2'"),
    ("--size=1m --flow=-2", "flow=-2: weights are positive"),
    (
        "--size=1m --zonemode=zbd",
        "zonemode=zbd is not supported: iocurve neither reports nor resets the zones of a zoned device",
    ),
    ("--size=1m --zonemode=strided", "zonemode=strided needs zonesize (add one, such as zonesize=1m)"),
    ("--size=1m --zonesize=64k", "zonesize needs a zonemode (add zonemode=strided)"),
    (
        "--size=1m --rw=randtrimwrite:2 --rw_sequencer=identical",
        "rw_sequencer=identical is not supported yet with rw=randtrimwrite:N",
    ),
    ("--size=1m --fill_device=1", "fill_device is not supported in a job that reads"),
    ("--ioengine=psync --rw=randwrite --fill_device=1", "fill_device with random offsets needs size"),
    (
        "--size=1m --rw=write --ioengine=null --fill_device=1",
        "fill_device: the null engine does no I/O and never fills a device",
    ),
    ("--size=1m --ioengine=nfs --nfs_url=nfs://h/x --file_append=1", "file_append is not supported over NFS"),
    (
        "--size=1m --rw=write --verify=md5 --trim_percentage=9 --trim_backlog=2",
        "trim_percentage is not supported: iocurve does not trim verified blocks",
    ),
    ("--size=1m --pre_read=1", "iocurve does not read files into the page cache before the run"),
    ("--size=1m --verify=pattern", "verify=pattern needs verify_pattern (add one, such as verify_pattern=0xdeadbeef)"),
    ("--size=1m --verify=md5 --verify_offset=4090", "verify_offset moves the header past the end of the block"),
    ("--size=1m --ss=iops", "ss=iops has no limit; write ss=iops:0.3%"),
    ("--size=1m --ss_dur=1", "steadystate_duration has one sample, which is always steady"),
    ("--size=1m --ss_dur=1500ms", "steadystate_duration must be a multiple of steadystate_check_interval"),
    ("--size=1m --bssplit=4k/60:8k/60:16k", "the shares of the blocks add up to 120 %"),
    ("--size=1m --random_distribution=zoned:50/50:40/50", "the shares of random_distribution must add up to 100 %"),
    ("--size=1m --random_distribution=zipf:1", "zipf takes a theta above 0 other than 1, not 1"),
    ("--size=1m --random_distribution=zoned_abs:100/2m --rw=randread", "the zones are larger than the region"),
    ("--size=1m --wait_for=x", "wait_for: there is no job 'x'"),
    ("--size=1m --unlink_each_loop=1 --loops=2", "unlink_each_loop=1 is not supported yet with several loops"),
    ("--size=1m --buffer_pattern=%o", "buffer_pattern does not take %o; only verify_pattern does"),
    ("--size=1m --buffer_pattern=abc", "buffer_pattern: 'abc' is not a pattern"),
    ("--size=1m --buffer_pattern='none'", "buffer_pattern: 'none' cannot be read: No such file or directory"),
    ("--size=1m --server", "--server is not supported (iocurve cluster commands prints how to start load clients)"),
    (
        "--size=1m --bandwidth-log",
        "--bandwidth-log is not supported (write_bw_log= in a job writes a log for each job)",
    ),
    ("--size=1m --latency-log=x", "--latency-log is not supported (fio itself refuses it; write_lat_log= in a job"),
    ("--size=1m --terse-version=1", "unknown terse version '1'; --terse-version takes 2, 3, 4 or 5"),
    ("--size=1m --parse-only=1", "--parse-only takes no value (write --parse-only)"),
    ("--size", "--size needs a value (write --size=…)"),
    ("--size=1k --warnings-fatal --bs=1k --ioengine=null", "the command line has no --name=…"),
]


@pytest.mark.parametrize(("arguments", "expected"), ONE_ERROR)
def test_one_error(arguments: str, expected: str) -> None:
    [error] = errors(*arguments.split())
    assert expected in error


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--filename=/dev/sdx", "--rw=write"], "/dev/sdx is mounted and would be overwritten (unmount it first)"),
        (
            ["--filename=/dev/none"],
            "there is no device /dev/none, and a regular file in /dev would be kept in memory",
        ),
        (["--filename=directory"], "/d/directory is a directory (name a file with filename)"),
        (["--filename=/dev/null"], "/dev/null has no data to read (read /dev/zero instead)"),
        (["--filename=/dev/tty"], "/dev/tty is neither a file nor a block device (name a file with filename)"),
        (["--directory=/mnt/none"], "directory /mnt/none does not exist (create it: mkdir -p /mnt/none)"),
        (["--verify=md5", "--verify_only"], "/d/a.0.0 does not exist: there are no written data to verify"),
        (["--allow_file_create=0"], "/d/a.0.0 does not exist, and allow_file_create=0 forbids creating it"),
    ],
)
def test_obstacles_stop_a_run_but_not_an_explanation(arguments: list[str], expected: str) -> None:
    result = fio("--name=a", "--size=1m", *arguments)
    with pytest.raises(PlanError) as refusal:
        parsed(result).require_runnable()
    assert expected in str(refusal.value)


def test_a_mounted_device_may_be_read() -> None:
    assert fio("--name=a", "--filename=/dev/sdx").obstacles == ()


def test_directories_that_names_lead_into_are_made(tmp_path: Path) -> None:
    result = read_command(["--name=a", "--size=4k", "--filename=n/m/file"], cwd=tmp_path, environment={})
    parsed(result).require_runnable()
    parsed(result).needs.make_directories()
    assert result.directories == (str(tmp_path / "n" / "m"),)
    assert (tmp_path / "n" / "m").is_dir()


def test_words_of_the_dialect_allow_overwriting_and_that_is_said() -> None:
    result = fio("--name=a", "--filename=old", "--rw=write")
    assert result.obstacles == ()
    assert "/d/old exists already and will be overwritten" in [note.text for note in result.notes]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--iodepth=4", "--ioengine=psync"], "depth_capped"),
        (["--ioengine=libaio", "--iodepth=8"], "page_cache"),
        (["--rw=randread", "--ioengine=libaio", "--direct=1"], "offsets_repeat"),
        (["--runtime=5"], "runtime_caps"),
        (["--time_based"], "time_based_without_runtime"),
        (["--ramp_time=1"], "ramp_added"),
        (["--rw=rw", "--rate_iops=10"], "mix_lost"),
        (["--rate_iops=10", "--numjobs=4"], "rate_per_job"),
        (["--numjobs=4"], "size_per_job"),
        (["--numjobs=4", "--filename=x"], "file_shared"),
        (["--rw=randread", "--norandommap"], "offsets_independent"),
        (["--rw=write", "--ioengine=psync"], "payload_repeats"),
        (["--rw=write", "--ioengine=psync", "--zero_buffers"], "payload_zero"),
        (["--cpus_allowed=0-1"], "cpus_not_bound"),
        (["--bs=3k"], "block_misfit"),
        (["--size=4kib", "--bs=1k"], "unit_inverted"),
        (["--size=10m*2"], "odd_value"),
        (["--thinktime_blocks=2"], "no_effect"),
        (["--nconnect=4"], "no_effect"),
        (["--eta-newline=5"], "no_effect"),
    ],
)
def test_traps_are_named(arguments: list[str], code: str) -> None:
    assert code in codes(null(*arguments))


def test_notes_are_not_given_where_they_do_not_apply() -> None:
    result = null("--rw=randread", "--randrepeat=0", "--time_based", "--runtime=5", "--thread=1", "--verify=0")
    assert codes(result) == ["engine", "offsets_once"]


def test_unset_variables_and_bare_booleans_are_said(tmp_path: Path) -> None:
    (tmp_path / "job.fio").write_text("[a]\nsize=1m${NONE}\nioengine=null\ndirect\n", encoding="utf-8")
    result = fio("job.fio", cwd=tmp_path)
    assert [str(note) for note in result.notes if note.level == "warning"] == [
        "job.fio:2:1: ${NONE} is not set; fio puts nothing in its place, and so does iocurve",
        "job.fio:4:1: 'direct' without a value is read as direct=1; fio itself requires the value",
    ]


def test_notes_name_their_place() -> None:
    result = null("--thread=0")
    text = "command line, argument 4: thread=0 has no effect: every job runs as a thread"
    assert text in [str(note) for note in result.notes]


def test_fresh_seeds_come_from_the_machine() -> None:
    plan = null("--rw=randread", "--randrepeat=0", "--numjobs=2").plan
    assert [worker.seed for worker in plan.groups[0].workers] == [7, 7]


def test_repeatable_seeds_differ_between_jobs_and_sections() -> None:
    plan = null("--numjobs=2", "--name=b", "--size=1m", "--ioengine=null").plan
    assert len({worker.seed for worker in plan.groups[0].workers}) == 3


def test_every_option_is_named_once() -> None:
    names = [name for option in OPTIONS for name in (option.name, *option.aliases)]
    assert len(names) == len(set(names))


def test_options_of_an_engine_that_cannot_run_are_not_named_on_a_command_line_either() -> None:
    assert errors("--name=a", "--ioengine=rbd", "--pool=rbd", "--rbdname=disk") == [
        "command line, argument 2 (--ioengine=rbd): "
        "ioengine=rbd is not supported: iocurve measures files, devices and NFS"
    ]


def test_a_mounted_device_is_not_written_to_whatever_the_job_allows() -> None:
    writes = fio("--name=a", "--size=1m", "--rw=write", "--filename=/dev/sdx", "--allow_mounted_write=1")
    assert any("/dev/sdx" in obstacle.text and "mounted" in obstacle.text for obstacle in writes.obstacles)
    assert "no_effect" in codes(null("--allow_mounted_write=1"))


def test_what_cannot_be_written_after_a_run_is_said_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for option, file in (("--output=no/o.json", "no/o.json"), ("--write_bw_log=no/l", "no/l_bw.1.log")):
        with pytest.raises(TargetError, match=f"^{file} cannot be written: there is no directory no$"):
            jobs.run(DIALECT, ["--name=a", "--size=64k", "--rw=write", option])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("engine", "kind", "runs"),
    [("windowsaio", "aio", "Linux native AIO"), ("splice", "sync", "pread and pwrite, one at a time")],
)
def test_engines_of_other_systems_run_as_the_nearest_with_a_note(engine: str, kind: str, runs: str) -> None:
    made = fio("--name=a", "--size=1m", f"--ioengine={engine}", "--iodepth=2")
    assert {worker.engine.kind for group in made.plan.groups for worker in group.workers} == {kind}
    assert f"ioengine={engine} runs as {runs}" in [note.text for note in made.notes]


def test_headers_of_verified_blocks_divide_their_alignment() -> None:
    made = fio("--name=a", "--size=1m", "--rw=randwrite", "--bsrange=8k-16k", "--blockalign=4k", "--verify=crc32c")
    (worker,) = made.plan.groups[0].workers
    assert worker.verify
    assert worker.verify.interval_bytes == 4096


def test_jobs_take_the_addresses_of_a_server_in_turn() -> None:
    def hosts(url: str, jobs: int) -> tuple[list[str], list[str]]:
        made = fio("--name=a", "--size=1m", "--ioengine=nfs", f"--nfs_url={url}", f"--numjobs={jobs}")
        engines = [worker.engine for worker in made.plan.groups[0].workers]
        notes = [note.text for note in made.notes if note.code == "addresses_in_turn"]
        return [engine.mount.host for engine in engines if isinstance(engine, NfsEngine)], notes

    found, notes = hosts("nfs://10.0.0.[1-2,9]:2049/vol?vers=4.1", 4)
    assert found == ["10.0.0.1", "10.0.0.2", "10.0.0.9", "10.0.0.1"]
    assert notes == ["jobs use 3 addresses of the server in turn, 10.0.0.1 first"]
    assert hosts("nfs://10.0.0.[1-8]/vol", 1) == (
        ["10.0.0.1"],
        ["one job uses one address, 10.0.0.1: numjobs spreads the load"],
    )
    assert hosts("nfs://[fe80::1]/vol", 2) == (["fe80::1", "fe80::1"], [])
    assert (
        "has 0 addresses; 1 to 64 are possible"
        in errors("--name=a", "--size=1m", "--ioengine=nfs", "--nfs_url=nfs://10.0.0.[8-1]/vol")[0]
    )
