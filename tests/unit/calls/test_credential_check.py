"""Calls with a key or a secret that has ended, or will: what is refused, counted and logged."""

import logging
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from addon.calls import credential_check
from addon.calls.credential_check import LOG_INTERVAL_S, CredentialChecker
from addon.telemetry.metrics import Metrics
from policies.exchange import Exchange
from policies.model import Credential, Key, Workspace
from policies.refusal import Refusal

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
KEY = Key("ci", "a" * 64, previous_hash="b" * 64, previous_until=NOON)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("test")


@pytest.fixture
def uses(metrics: Metrics) -> CredentialChecker:
    return CredentialChecker(metrics)


def use(
    uses: CredentialChecker,
    before_noon_s: float,
    key: Key = KEY,
    *,
    at_s: float = 0,
    is_previous: bool = True,
) -> None:
    workspace = Workspace("acme", "Acme", "pro", (key,))
    now = NOON - timedelta(seconds=before_noon_s)
    exchange = Exchange("req", now, at_s).identify(workspace, key)
    uses.check(exchange, Credential(workspace, key, key.hash, is_previous=is_previous))


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str]]:
    return [(one.event, one.workspace, one.key_id) for one in caplog.records]  # type: ignore[attr-defined]


def test_a_previous_secret_is_let_in_counted_and_logged_once_a_minute(
    uses: CredentialChecker, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tollgate")
    for at_s in (0, 1, LOG_INTERVAL_S - 1, LOG_INTERVAL_S, LOG_INTERVAL_S + 1):
        use(uses, 10, at_s=at_s)
    assert lines(caplog) == [("previous secret used", "acme", "ci")] * 2
    assert caplog.records[0].until == "2026-11-22T12:00:00.000+00:00"  # type: ignore[attr-defined]
    page = metrics.render()[1].decode()
    assert "tollgate_previous_secret_calls_total 5.0\n" in page
    [last] = re.findall(r"^tollgate_previous_secret_last_use_time_seconds (.+)$", page, re.MULTILINE)
    assert float(last) == NOON.timestamp() - 10


@pytest.mark.parametrize(
    ("key", "is_previous", "reason"),
    [
        (KEY, True, "had this secret until 2026-11-22T12:00:00.000+00:00"),
        (replace(KEY, expires_at=NOON), False, "expired at 2026-11-22T12:00:00.000+00:00"),
        (replace(KEY, active=False), False, "is not active"),
    ],
)
def test_an_ended_key_is_refused_as_an_unknown_one_and_operators_see_why(
    uses: CredentialChecker,
    metrics: Metrics,
    caplog: pytest.LogCaptureFixture,
    key: Key,
    is_previous: bool,
    reason: str,
) -> None:
    caplog.set_level(logging.INFO, "tollgate")
    for _ in range(3):
        with pytest.raises(Refusal, match="Incorrect API key") as caught:
            use(uses, 0, key, is_previous=is_previous)
    assert caught.value.code == "invalid_api_key"
    assert lines(caplog) == [("key refused", "acme", "ci")]
    assert caplog.records[0].reason == reason  # type: ignore[attr-defined]
    assert "tollgate_previous_secret_calls_total 0.0\n" in metrics.render()[1].decode()


def test_the_memory_of_lines_is_bounded(
    uses: CredentialChecker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(credential_check, "MAX_KEYS", 2)
    for name in ("a", "b", "c", "c", "a"):
        use(uses, 10, replace(KEY, id=name))
    assert [key for _, _, key in lines(caplog)] == ["a", "b", "c", "a"]
