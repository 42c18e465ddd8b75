"""Checks of a call with failing providers: its attempts, their keys, the answer, the row and the cost."""

import json
from collections.abc import Mapping
from typing import Any

from rig.error_answers import assert_error
from rig.evidence import Asked, Evidence
from rig.faults import RELAYED_CHARS
from rig.scripts import USAGE
from rig.situation import Place, Role, Situation
from rig.situations import SECRET
from rig.stream_events import events_of

type ExpectedError = tuple[int, tuple[str, str], str]
"""Status, (code, type) and a part of the message."""

CREDIT_NANOUSD = {None: 0, "0.01": 10**7, "1": 10**9}
# At 1 USD a million prompt tokens and 10 for the answer, or 3 and 50, for 9 tokens and 2; retail is 4 % more.
FIRST_NANOUSD = {"wholesale_nanousd": 9 * 1_000 + 2 * 10_000, "retail_nanousd": 9 * 1_040 + 2 * 10_400}
SECOND_NANOUSD = {"wholesale_nanousd": 9 * 3_000 + 2 * 50_000, "retail_nanousd": 9 * 3_120 + 2 * 52_000}
NOTHING_NANOUSD = {"wholesale_nanousd": 0, "retail_nanousd": 0}


def assert_row(one: Situation, left: Evidence, place: Place, mode: str, **columns: Any) -> None:
    """Check that the row is that of the attempt at ``place`` and has the values of ``columns``."""
    expected = {
        "workspace": one.workspace_id,
        "key_id": "ci",
        "requested_model": one.slug("first"),
        "model_slug": one.slug(place),
        "provider": one.provider(place),
        "upstream_model_id": f"vendor/{place}",
        "mode": mode,
        "stream": int(one.stream),
    } | columns
    assert [(name, left.row[name], of) for name, of in expected.items() if left.row[name] != of] == []
    assert not SECRET.search(json.dumps(left.row))


def assert_error_answer(left: Evidence, status: int, kind: tuple[str, str], message: str) -> None:
    error = assert_error(left.answer, status, *kind)
    assert message in error["message"]
    assert "x-gateway-fallback" not in left.answer.headers
    assert not SECRET.search(left.answer.text + str(left.answer.headers))


NO_USAGE = {
    **{f"{name}_tokens": None for name in ("prompt", "completion", "total", "cached", "reasoning")},
    "usage_source": "none",
    "finish_reason": None,
} | NOTHING_NANOUSD


# An estimate counts four characters as a token.
ESTIMATED = {"usage_source": "estimated", "completion_tokens": RELAYED_CHARS // 4, "finish_reason": None}


def assert_failed(one: Situation, left: Evidence, expected_error: ExpectedError, attempts: int) -> None:
    """Check that the client got this error, the row is that of the first attempt sent, and the call cost nothing."""
    assert_error_answer(left, *expected_error)
    is_first = not one.fault.has_no_token
    place: Place = "first" if is_first else second_attempt(one)[0]
    mode = "byok" if is_first and "first" in one.own_keys else "payg"
    ended = {
        "status": expected_error[0],
        "error_code": expected_error[1][0],
        "attempts": attempts,
        "fallback": 0,
    }
    assert_row(one, left, place, mode, **ended, **NO_USAGE)
    assert_paid(one, left, 0)


def assert_paid(one: Situation, left: Evidence, nanousd: int) -> None:
    """Check that wallet and counters have this cost, that the call counts once, and that no hold is left."""
    before = SECOND_NANOUSD["retail_nanousd"] if one.spends_before else 0
    credit = CREDIT_NANOUSD[one.wallet_usd]
    wallet = left.spent.pop(("wallet", "ever"), (0, 0))
    assert wallet == (before + nanousd - credit, 0)
    assert sorted(left.entries) == sorted(paid for paid in (before, nanousd) if paid)
    assert set(left.spent.values()) == {(before + nanousd, 1 + one.spends_before)}
    assert {scope for scope, _ in left.spent} == {"key", "workspace"}
    assert left.holds == []


def assert_served(one: Situation, left: Evidence, place: Place, mode: str, cost: Mapping[str, int]) -> None:
    """Check that answer, row and cost are those of the second attempt."""
    if one.stream:
        *chunks, done = events_of(left.answer)
        said = "".join(c["delta"].get("content") or "" for made in chunks for c in made["choices"])
        models, usage = {made["model"] for made in chunks}, chunks[-1]["usage"]
        assert done == "[DONE]"
    else:
        assert left.answer.status_code == 200, left.answer.text
        made = left.answer.json()
        said, models, usage = made["choices"][0]["message"]["content"], {made["model"]}, made["usage"]
    assert (said, models, usage) == ("hello", {one.slug(place)}, USAGE)
    assert left.answer.headers.get("x-gateway-fallback") == (None if one.stream else "true")
    counted = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11, "usage_source": "provider"}
    ended = {"status": 200, "error_code": None, "finish_reason": "stop", "fallback": 1}
    ended["attempts"] = 1 if one.fault.has_no_token else 2
    assert_row(one, left, place, mode, **ended, **counted, **cost)
    assert_paid(one, left, cost["retail_nanousd"])


def expected_attempts(one: Situation, *attempts: tuple[Place, Role]) -> list[Asked]:
    """Return the expected attempts: each provider with the only key that it may receive."""
    before: list[tuple[Place, Role]] = [("second", "fallback")] if one.spends_before else []
    return [(place, [(role, one.number)]) for place, role in (*before, *attempts)]


def first_attempt(one: Situation) -> tuple[Place, Role]:
    return ("first", one.first_role)


def second_attempt(one: Situation) -> tuple[Place, Role]:
    return ("first", "platform") if "first" in one.own_keys else ("second", "fallback")
