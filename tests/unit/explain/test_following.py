"""What follows each way in which an attempt may fail."""

import pytest
from rig.explanations import explain_as

from addon.explain.explanation import Explanation
from addon.explain.following import FAILURES

BODY = b'{"model": "%b", "messages": [{"role": "user", "content": "hello"}]}'
RETRIED = {"no connection", "429", "500", "503", "529"}
FAILED = {
    *("no connection", "no byte in time", "a broken connection", "an unreadable answer"),
    *("401", "403", "408", "429", "500", "502", "503", "504", "529"),
}
OF_OWN_KEYS = FAILED | {"402", "404"}
ALL = {one.name for one in FAILURES}


def explained(workspace: str, model: str) -> Explanation:
    return explain_as(workspace, BODY % model.encode())


def followed(found: Explanation, number: int) -> dict[tuple[str, str | None], set[str]]:
    """Return the failures by what follows them, and where."""
    by: dict[tuple[str, str | None], set[str]] = {}
    for one in found.attempts[number - 1].following:
        by.setdefault((one.then, one.place), set()).add(one.failure)
    return by


def test_a_place_alone_is_retried_where_the_vendor_does_not_charge() -> None:
    assert followed(explained("plain", "gpt"), 1) == {
        ("retry", "OPENAI/gpt-2026"): RETRIED,
        ("failure", None): ALL - RETRIED,
    }


def test_the_next_place_follows_each_failure_of_the_provider_and_after_the_last_nothing() -> None:
    found = explained("plain", "in-turn")
    assert followed(found, 1) == {
        ("attempt", "FOUNDRY/t"): FAILED,
        ("failure", None): ALL - FAILED,
    }
    assert followed(found, 2) == {("failure", None): ALL}


def test_a_fallback_model_follows_each_failure_of_the_provider() -> None:
    assert followed(explained("hop", "mistral"), 1)["attempt", "CLAUDE/vendor/model-2026"] == FAILED


def test_a_model_for_long_prompts_follows_only_a_prompt_that_is_too_long() -> None:
    assert followed(explained("long", "mistral"), 1) == {
        ("attempt", "CLAUDE/vendor/model-2026"): {"a prompt that is too long"},
        ("retry", "OPENAI/vendor/model-2026"): RETRIED,
        ("failure", None): ALL - RETRIED - {"a prompt that is too long"},
    }


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("own-broken", {"attempt": OF_OWN_KEYS}),
        ("own-only", {"retry": RETRIED, "refusal": OF_OWN_KEYS - RETRIED}),
    ],
)
def test_the_safety_net_follows_also_where_the_account_is_used_up(
    model: str, expected: dict[str, set[str]]
) -> None:
    by_then = {then: found for (then, _), found in followed(explained("net", model), 1).items()}
    assert by_then == {**expected, "failure": ALL - OF_OWN_KEYS}
