"""How the checks of several workers become those of one gateway."""

import pytest

from addon.serve.worker_status import CHECKS, merged_checks
from addon.telemetry.admin import Readiness


def _report(**checks: str) -> Readiness:
    return Readiness(True, {"settings": "ok", "store": "ok"} | checks)


@pytest.mark.parametrize(
    ("reports", "store"),
    [
        ([_report()], "ok"),
        ([_report(), _report()], "ok"),
        ([_report(), _report(store="locked")], "worker 2: locked"),
        ([_report(store="locked"), _report(store="locked")], "locked"),
        ([_report(store="locked"), _report(store="full")], "worker 1: locked; worker 2: full"),
        ([], "no worker is there to ask"),
    ],
)
def test_a_shared_result_is_shown_once_and_others_with_the_workers_number(
    reports: list[Readiness], store: str
) -> None:
    assert merged_checks(dict(enumerate(reports, 1)))["store"] == store


def test_each_worker_reports_its_own_keys() -> None:
    reports = {4: _report(platform_keys="A: key 1 of 2 rests 3 s after 429"), 5: _report(platform_keys="ok")}
    assert merged_checks(reports)["platform_keys"] == "worker 4: A: key 1 of 2 rests 3 s after 429"
    assert merged_checks({}).keys() == set(CHECKS)
