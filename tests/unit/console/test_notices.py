"""The notices above pages: whether calls are served, and how far the sums are made."""

from rig.ledger import make_row
from rig.rollups import NOW, build_all, open_ledger

from addon.console.notices import find_refusal, find_sums_begin
from addon.telemetry.admin import Readiness


def test_an_older_ledger_says_how_far_its_sums_are_made() -> None:
    with open_ledger([make_row("a", created_at="2026-01-31T12:34:56.000+00:00")]) as ledger:
        assert find_sums_begin(ledger, NOW) == "2026-01-31 12:34"
        build_all(ledger)
        assert find_sums_begin(ledger, NOW) is None


def test_a_gateway_that_refuses_calls_says_why() -> None:
    checks = {"settings": "a.toml: broken", "store": "database is locked", "workers": "1 of 2 running"}
    assert find_refusal(Readiness(True, checks)) is None
    expected = "The gateway serves no calls now: store: database is locked; workers: 1 of 2 running"
    assert find_refusal(Readiness(False, checks)) == expected
