"""A section becomes a worker: every field that a dialect can set reaches the plan."""

from pathlib import Path
from typing import Any

import pytest

from fio_machine import HeldMachine
from goldens import Golden, cases, matches
from iocurve.dialects.diskspd import job as diskspd
from iocurve.dialects.fio import job as fio
from iocurve.dialects.fio.read.draft import DEFAULTS
from iocurve.dialects.native import kinds as native
from iocurve.dialects.vdbench import job as vdbench
from iocurve.engine import plan
from iocurve.foundation.errors import PlanError
from iocurve.foundation.units import KIB, MIB, SECOND_NS
from iocurve.job.model import Job, Percent, PerKind, Said, ZoneShare, ZonesSaid
from iocurve.job.resolve import PathFacts, Resolution, resolve

WORDS = {"fio": fio.WORDS, "vdbench": vdbench.WORDS, "diskspd": diskspd.WORDS, "iocurve": native.WORDS}
MACHINE = HeldMachine(directories=frozenset({"/d"}))


def resolved(*sections: Said, dialect: str = "iocurve") -> Resolution:
    job = Job.of("job", WORDS[dialect], sections, Said.of(size=MIB).over(DEFAULTS))
    return resolve(job, MACHINE, Path("/d"))


def worker(**fields: Any) -> plan.Worker:
    return resolved(Said.of(name="a", **fields)).plan.groups[0].workers[0]


def errors(*sections: Said, dialect: str = "iocurve") -> list[str]:
    with pytest.raises(PlanError) as refusal:
        resolved(*sections, dialect=dialect)
    return [str(error) for error in refusal.value.errors]


@cases("job/fields")
def test_a_field_reaches_the_worker(said: dict[str, Any], part: str, golden: Golden) -> None:
    golden.check(getattr(worker(**said), part))


@pytest.mark.parametrize(
    ("part", "said"),
    [("verify", plan.Verify(method="crc32c")), ("log", plan.LogPlan(window_ns=None, histograms=False, records=9))],
)
def test_a_part_of_the_plan_reaches_the_worker(part: str, said: object) -> None:
    assert getattr(worker(**{part: said}), part) == said


@cases("job/layout")
def test_layout(said: dict[str, Any], layout: str) -> None:
    assert worker(**said).files[0].layout == layout


def test_each_path_may_have_its_own_size() -> None:
    paths = ("x", "y")
    sizes = [file.bytes for file in worker(paths=paths, path_bytes=(64 * KIB, MIB), size=0).files]
    assert sizes == [64 * KIB, MIB]


NAMES = ("a", "a b", "a/b", "a//b", "./a", "a/.", ".", "..", "...", "../a", ".a", "/a", "//a", "a/")


@pytest.mark.parametrize("base", ["/", "/d", ".", "d"])
def test_names_are_joined_with_their_directory_as_paths_are(base: str) -> None:
    job = Job.of("job", native.WORDS, [Said.of(paths=NAMES, size=MIB)], DEFAULTS)
    (group,) = resolve(job, HeldMachine(), Path(base)).plan.groups
    assert [file.path for file in group.workers[0].files] == [str(Path(base) / name) for name in NAMES]
    said = Said.of(paths=NAMES, size=MIB)
    below = Job.of("job", native.WORDS, [said], Said.of(directories=("sub",)).over(DEFAULTS))
    resolution = resolve(below, HeldMachine(), Path(base))
    paths = [Path(base, "sub", name.lstrip("/")) for name in NAMES]
    assert [file.path for file in resolution.plan.groups[0].workers[0].files] == list(map(str, paths))
    assert resolution.directories == tuple(dict.fromkeys(str(path.parent) for path in paths))


def test_each_file_and_each_directory_is_examined_once() -> None:
    looks: list[str] = []

    class Watched(HeldMachine):
        def stat(self, path: str) -> PathFacts:
            looks.append(path)
            return super().stat(path)

    files = Said.of(name="a", file_count=3, numjobs=2, size=MIB, writes=True, directories=("/d/x",))
    job = Job.of("job", native.WORDS, [files, files], DEFAULTS)
    resolution = resolve(job, Watched(directories=frozenset({"/d/x"})), Path("/d"))
    assert (resolution.obstacles, resolution.directories) == ((), ())
    assert sorted(looks) == ["/d/x", *(f"/d/x/a.{jobnum}.{file}" for jobnum in range(2) for file in range(3))]


def test_workers_start_one_after_another() -> None:
    workers = resolved(Said.of(numjobs=3, start_bytes=8192, start_increment_bytes=4096)).plan.groups[0].workers
    assert [worker.files[0].start_bytes for worker in workers] == [8192, 12288, 16384]


@cases("job/errors")
def test_impossible_sections_are_refused(sections: list[dict[str, Any]], dialect: str, golden: Golden) -> None:
    said = [Said.of(**{name: _read(value) for name, value in section.items()}) for section in sections]
    golden.check(errors(*said, dialect=dialect))


def _read(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def test_operations_of_each_kind() -> None:
    operations = worker(
        writes=True,
        random=True,
        read_percent=70,
        random_percent=PerKind(read=100, write=30, trim=0),
        align_bytes=PerKind(read=0, write=512, trim=0),
        blocks=PerKind[plan.Blocks](
            read=plan.BlockRange(low=4096, high=8192, step=4096),
            write=plan.FixedBlocks(bytes=8192),
            trim=plan.FixedBlocks(bytes=8192),
        ),
        distribution=PerKind[Any].same(plan.Zipf(theta=1.2)),
    ).operations
    matches("resolve/operations_of_each_kind", operations)


def zoned(*zones: ZoneShare) -> dict[str, Any]:
    return {"random": True, "distribution": PerKind[Any].same(ZonesSaid(zones=zones))}


def test_zones_are_parts_of_the_region() -> None:
    zones = [ZoneShare(access_percent=share, size=Percent(percent=of)) for share, of in ((80, 25), (20, 75))]
    said = zoned(*zones)
    matches("job#zones parts region", worker(**said).operations[0].distribution)


def test_zones_must_fit() -> None:
    said = zoned(ZoneShare(access_percent=100, size=2 * MIB))
    matches("job#zones must fit", errors(Said.of(name="a", **said), dialect="fio"))


def test_samples_of_a_steady_state_are_whole_milliseconds() -> None:
    steady = plan.SteadyState(
        figure="iops", criterion="slope", limit=1, limit_is_percent=True, duration_ns=10, ramp_ns=0, check_ns=1
    )
    matches("job#samples steady", errors(Said.of(name="a", steady_state=steady)))


def test_waiting_jobs() -> None:
    sections = [Said.of(name="a"), Said.of(name="b", wait_for=("a",)), Said.of(name="c", barrier=True, wait_for=("b",))]
    groups = resolved(*sections).plan.groups
    assert [[worker.wait_for for worker in group.workers] for group in groups] == [[(), ("a",)], [()]]


@cases("job/notes_use_the_words")
def test_notes_use_the_words_of_the_dialect(dialect: str, text: str) -> None:
    notes = resolved(Said.of(name="a"), dialect=dialect).notes
    assert text in [note.text for note in notes]


@cases("job/shared_connections")
def test_jobs_of_a_line_share_the_connections_of_a_mount(dialect: str, jobs: int, said: str, each: list[int]) -> None:
    load = Said.of(name="a", engine="nfs", nfs_url=f"nfs://h/x?{said}", numjobs=jobs, size=MIB)
    found = resolved(load, load.but(name="b", numjobs=1, barrier=True), dialect=dialect)
    groups = [[one.engine.mount.nconnect for one in group.workers] for group in found.plan.groups]  # type: ignore[union-attr]
    assert groups == [each, [int(said.partition("&")[0][9:])]]
    (note,) = [one.text for one in found.notes if one.code in ("mount_shared", "connections_per_job")] or [""]
    assert ("shared_mount=0" in note) == (jobs > 1 and sum(each) < jobs * groups[1][0])


def test_a_given_timeout_overrides_that_of_the_url() -> None:
    said = Said.of(name="a", engine="nfs", nfs_url="nfs://h/x?timeo=100", nfs_timeout_ns=3 * SECOND_NS)
    own = Said.of(name="b", engine="nfs", nfs_url="nfs://h/x?timeo=100")
    engines = [resolved(section).plan.groups[0].workers[0].engine for section in (said, own)]
    assert [engine.to_builtins()["mount"]["timeout_ns"] // SECOND_NS for engine in engines] == [3, 10]
