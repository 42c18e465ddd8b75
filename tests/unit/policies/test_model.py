"""Until when a key and each of its secrets are let in."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from policies.model import Credential, Key, Workspace

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)
PLAIN = Key("ci", "a" * 64)
ROTATED = replace(PLAIN, previous_hash="b" * 64, previous_until=NOON)


@pytest.mark.parametrize(
    ("key", "now", "current", "previous"),
    [
        (PLAIN, NOON, None, "-"),
        (replace(PLAIN, active=False), NOON, "is not active", "-"),
        (replace(PLAIN, expires_at=NOON), NOON - TICK, None, "-"),
        (replace(PLAIN, expires_at=NOON), NOON, "expired at 2026-11-22T12:00:00.000+00:00", "-"),
        (replace(PLAIN, expires_at=NOON), NOON + TICK, "expired at 2026-11-22T12:00:00.000+00:00", "-"),
        (ROTATED, NOON - TICK, None, None),
        (ROTATED, NOON, None, "had this secret until 2026-11-22T12:00:00.000+00:00"),
        (replace(ROTATED, active=False), NOON - TICK, "is not active", "is not active"),
        (
            replace(ROTATED, expires_at=NOON - TICK),
            NOON - TICK,
            "expired at 2026-11-22T11:59:59.999+00:00",
            "expired at 2026-11-22T11:59:59.999+00:00",
        ),
    ],
)
def test_a_secret_is_refused_from_its_moment_on(
    key: Key, now: datetime, current: str | None, previous: str | None
) -> None:
    secrets = {one.is_previous: one for one in Workspace("acme", "Acme", "pro", (key,)).credentials}
    assert secrets[False].why_refused(now) == key.why_refused(now) == current
    assert (secrets[True].why_refused(now) if True in secrets else "-") == previous


@pytest.mark.parametrize(
    ("key", "is_previous", "needs_check"),
    [
        (PLAIN, False, False),
        (replace(PLAIN, active=False), False, True),
        (replace(PLAIN, expires_at=NOON), False, True),
        (ROTATED, False, False),
        (ROTATED, True, True),
    ],
)
def test_only_a_secret_that_may_end_is_checked(key: Key, is_previous: bool, needs_check: bool) -> None:
    workspace = Workspace("acme", "Acme", "pro", (key,))
    assert Credential(workspace, key, key.hash, is_previous=is_previous).needs_check is needs_check
