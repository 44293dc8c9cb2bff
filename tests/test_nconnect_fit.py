"""The limits of a connection in the profiles are those that the fit finds, and the fit finds what it was made of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.nconnect_fit import LARGE, SERVICES, Load, Published, fitted, profile_figures
from iocurve.volume import profile


@pytest.mark.parametrize("name", [name for service, _ in SERVICES for name in service.profiles])
def test_profiles_have_the_figures_of_the_fit_and_say_so(name: str) -> None:
    found = profile.load(name)
    assert found.iops_per_connection is not None
    assert found.bandwidth_mib_per_s_per_connection is not None
    assert (found.iops_per_connection.value, found.bandwidth_mib_per_s_per_connection.value) == profile_figures()[name]
    assert {"iops_per_connection", "bandwidth_mib_per_s_per_connection"} <= set(found.fitted())
    assert found.cite(found.iops_per_connection.source).endswith("; not published")


def test_the_fit_finds_the_limits_that_computed_results_have() -> None:
    truth = replace(LARGE, connection_iops=43_210, connection_mib_per_s=876)
    loads = (Load("read", 8, 256, 1), Load("read", 256, 256, 1), Load("write", 8, 256, 8))
    results = [Published(load, truth.result_iops(load), "IOPS", "computed") for load in loads]
    found = fitted(LARGE, results)
    assert found.connection_iops == pytest.approx(43_210, rel=1e-3)
    assert found.connection_mib_per_s == pytest.approx(876, rel=1e-3)
