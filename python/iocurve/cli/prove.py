"""The command that proves what was bought."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from iocurve.advice import proof_page, slos
from iocurve.advice import prove as proofs
from iocurve.advice.slos import Agreement, Slo
from iocurve.cli import common
from iocurve.cli.checks import STATUS
from iocurve.cli.exits import status
from iocurve.cli.measure import FILES, FileOptions
from iocurve.cli.size import machine_of
from iocurve.foundation.errors import Diagnostic, DialectError
from iocurve.foundation.units import MIB, SECOND_NS
from iocurve.report.table import Table
from iocurve.result.caps import Kind
from iocurve.targets import disk as disks
from iocurve.targets import target as targets


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SloOptions:
    """The SLOs: a service level at a quota, a contract, or both."""

    profile: str | None = None
    """A service level (iocurve profile list), or a profile file that ends in .toml: your contract as formulas
    (docs/volume.md). Its published limits are the SLOs."""
    quota: common.SizeBytes | None = None
    """Size that was bought: 2TiB."""
    throughput: common.BandwidthBytes | None = None
    """Throughput SLO: 128MiB/s."""
    iops: common.Count | None = None
    """SLO of operations per second, in blocks of 4 KiB."""
    p99: common.TimeNs | None = None
    """SLO of the 99th percentile of the latency of 4 KiB operations."""
    mean: common.TimeNs | None = None
    """SLO of the mean latency of 4 KiB operations."""
    latency_depth: common.AtLeast1 = 1
    """Queue depth at which the latency SLOs hold."""
    kinds: Annotated[tuple[Kind, ...], common.Many] = ("any",)
    """Operations of the SLOs of --throughput, --iops and latencies; any: reads and writes, each."""
    source: str = "contract"
    """The document that states --throughput, --iops and latencies, for the page."""
    burst_time: common.TimeNs = 120 * SECOND_NS
    """Longest time for which a burst is measured; a longer one is inconclusive."""
    sustained: common.TimeNs | None = None
    """Measure each rate that is kept again for this long, and judge its last third: 60m outlasts a burst. Default: 1.75
    times a stated burst; without one, a rate only "holds for at least" the time in which it was seen. 0s: never."""

    def stated(self) -> Agreement:
        """All SLOs. Raises ``DialectError``."""
        found: list[Slo] = slos.of_contract(
            bytes_per_s=self.throughput,
            iops=self.iops,
            p99_ns=self.p99,
            mean_ns=self.mean,
            depth=self.latency_depth,
            kinds=self.kinds,
            source=self.source,
        )
        if not found:
            reason = "no SLO of a contract is given: add --throughput, --iops, --p99 or --mean"
            given = replace(self, burst_time=SLOS.burst_time, sustained=SLOS.sustained)
            common.refuse(reason, replace(given, profile=None, quota=None))
        elif self.p99 is None and self.mean is None:
            depth = None if self.latency_depth == 1 else self.latency_depth
            common.refuse("no latency SLO is given: add --p99 or --mean", latency_depth=depth)
        if self.profile is None:
            common.refuse("this is the size of a service level; add --profile", quota=self.quota)
        else:
            if self.quota is None:
                raise DialectError([Diagnostic("--profile: add --quota, the size that was bought")])
            level = slos.of_profile(self.profile, self.quota)
            return level.replace(slos=(*level.slos, *found))
        if not found:
            example = "iocurve prove TARGET --profile anf-premium --quota 2TiB"
            raise DialectError([Diagnostic(f"no SLO: give --profile, --throughput or --iops, as in {example}")])
        return Agreement(title=self.source, slos=tuple(found))


SLOS = SloOptions()
EXIT_NOT_DELIVERED = 6


def prove(
    target: common.TargetText,
    /,
    *,
    agreement: SloOptions = SLOS,
    size: common.SizeBytes = 256 * MIB,
    tolerance: common.Ratio = 0.02,
    vm: str | None = None,
    search_time: common.TimeNs | None = None,
    out: Path = Path("iocurve-proof"),
    files: FileOptions = FILES,
    json: common.JsonFlag = False,
    quiet: common.QuietFlag = False,
) -> int:
    """Verify whether a volume meets its SLOs: pass, fail, or inconclusive; exit status 0, 4 or 5.

    An SLO that is missed where the client may be why is "not delivered to this client", exit status 6.

    Parameters
    ----------
    target
        A directory, a file, a device, nfs://host/export?nconnect=8 or volume:PROFILE?quota=4TiB.
    size
        Data set, all files together.
    tolerance
        An SLO is met if the value misses it by no more than this.
    vm
        Size of this machine, e.g. D32s_v5: an SLO beyond its network is inconclusive.
    search_time
        Judge no further SLO after this time; those left out are inconclusive: 10m. Default: judge all.
    out
        Directory for proof.html (the page for the supplier), result.json and report.html.
    """
    machine = machine_of(vm)
    network = disks.vms()[machine][1].network_bytes_per_s if machine else None
    request = proofs.ProofRequest(
        target=targets.parse(str(target), create=files.create),
        agreement=agreement.stated(),
        size_bytes=size,
        tolerance=tolerance,
        burst_s=agreement.burst_time / SECOND_NS,
        sustained_s=None if agreement.sustained is None else agreement.sustained / SECOND_NS,
        network_bytes_per_s=network,
        overwrite=files.overwrite,
        patience_ns=search_time,
    )
    result, proof = proofs.prove(request, out, quiet=quiet or json)
    page = proof_page.write(proof, result, size, out)
    if json:
        common.show_json(proof_page.document(proof))
    elif not quiet:
        common.show(Table(proof_page.COLUMNS, proof_page.rows(proof), sentences=proof_page.COLUMNS))
        for text in proof.agreement.not_judged:
            print(f"not judged: {text}")
        whose = "page for the supplier" if proof.verdict in ("failed", "passed") else "page"
        print(f"\n{proof_page.sentence(proof)}\n{whose}: {page}")
    return status(result) or (EXIT_NOT_DELIVERED if proof.verdict == "not_delivered" else STATUS[proof.verdict])
