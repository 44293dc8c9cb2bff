"""The command that predicts what a service level makes of a job."""

from __future__ import annotations

from iocurve.advice import predict as prediction
from iocurve.cli import shared
from iocurve.cli.common import Words, show_json
from iocurve.cli.quantities import AtLeast1, Flag, SizeText, TimeText
from iocurve.cli.size import machine_of
from iocurve.dialects.native.command import DIALECT as NATIVE
from iocurve.dialects.registry import REGISTRY, load
from iocurve.foundation.errors import Diagnostic, DialectError
from iocurve.model.forward import Service
from iocurve.volume.spec import spec_of


def predict(
    *command: Words,
    profile: str,
    quota: SizeText,
    vm: str | None = None,
    nconnect: AtLeast1 = 1,
    latency: TimeText | None = None,
    json: Flag = False,
) -> int:
    """Predict what a service level makes of a job, with its traps, without running it.

    Parameters
    ----------
    command
        A command line of another tool, or a job file (TOML).
    profile
        A service level (iocurve profile list), or a TOML file.
    quota
        Size of the volume.
    vm
        Size of the client machines, e.g. D32s_v5 (iocurve disk list).
    nconnect
        TCP connections of a mount. A target nfs://… says its own.
    latency
        Mean latency of an operation on the idle volume. Default: the profile's, if it states one.
    json
        Print a JSON document.
    """
    if not command:
        raise DialectError([Diagnostic("nothing to predict: give a command, as in iocurve predict fio job.fio")])
    dialect, words = (load(command[0]), command[1:]) if command[0] in REGISTRY else (NATIVE, command)
    said: dict[str, str | int] = {"profile": profile, "quota": quota}
    said |= {"latency": latency} if latency else {}
    spec = spec_of(said)
    service = Service(name=spec.profile_name, limits=spec.limits(), vm=machine_of(vm), nconnect=nconnect)
    runs = prediction.predicted(shared.prepared(dialect, words), service)
    if json:
        show_json([run.to_builtins() for run in runs])
    else:
        print(prediction.text_of(runs), end="")
    return 0
