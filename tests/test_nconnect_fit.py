"""The limits of a connection in the profiles are those that the fit finds, and the fit finds what it was made of."""

from dataclasses import replace

import pytest

from bench.nconnect_fit import LARGE, SERVICES, Load, Published, Service, fitted, in_profiles, profile_figures
from iocurve.volume import profile


@pytest.mark.parametrize(("service", "published"), SERVICES)
def test_profiles_have_the_figures_of_the_fit_and_say_so(service: Service, published: tuple[Published, ...]) -> None:
    figures = profile_figures(in_profiles(service, published))
    for name in service.profiles:
        found = profile.load(name)
        assert {figure: getattr(found, figure).value for figure in figures} == figures
        assert set(figures) <= set(found.fitted())
        assert all(found.cite(getattr(found, figure).source).endswith("; not published") for figure in figures)


def test_the_fit_finds_the_limits_that_computed_results_have() -> None:
    truth = replace(
        LARGE,
        connection_iops={"read": 43_210.0, "write": 21_000.0},
        connection_mib_per_s={"read": 876.0, "write": 543.0},
    )
    loads = [Load(kind, block, 256, 1) for kind in ("read", "write") for block in (8, 256)]
    results = [Published(load, truth.result_iops(load), "IOPS", "computed") for load in loads]
    found = fitted(LARGE, results)
    assert found.connection_iops == pytest.approx(truth.connection_iops, rel=1e-3)
    assert found.connection_mib_per_s == pytest.approx(truth.connection_mib_per_s, rel=1e-3)
