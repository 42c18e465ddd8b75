"""Why places are where they are in the list of a call, and why others are not in it."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

import pytest
from rig.explanations import UNUSED, call_of, explain_as, loaded

from addon.explain.explaining import explain
from addon.explain.explanation import Explanation
from addon.explain.places import KnownCircuits, KnownStates, read_circuits
from addon.store.money.sqlite.migrations import migrate
from policies.circuit_breaker import FAILURES, Circuit

BODY = b'{"model": "%b", "messages": [{"role": "user", "content": "hello"}]}'
NOW_US = 90_000_000
OPEN = Circuit(FAILURES, NOW_US - 1, NOW_US + 1)


def explained(
    workspace: str,
    model: str,
    circuits: KnownCircuits | None = None,
    checks: Mapping[str, str] | None = None,
) -> Explanation:
    call = call_of(loaded().workspaces[workspace])
    return explain(call, BODY % model.encode(), lambda *_: UNUSED, {}, KnownStates(circuits, checks))


def reasons(found: Explanation) -> dict[str, tuple[str, ...]]:
    return {one.target.model.place: one.reasons for one in found.attempts}


def test_sticky_places_have_their_share_and_the_last_the_weight_0() -> None:
    found = reasons(explained("plain", "many"))
    assert len(found) == 3
    first, second, last = found.values()
    assert first[0].startswith("order sticky: the place of this conversation (weight ")
    assert second[0].startswith("order sticky: the place of this conversation if those before can't serve (")
    assert {one[0].rpartition("(")[2] for one in (first, second)} == {"weight 3 of 4)", "weight 1 of 4)"}
    assert last == ("weight 0: it serves if the others can't",)
    assert list(found)[-1] == "OPENAI/many-4"


@pytest.mark.parametrize(
    ("workspace", "model", "expected"),
    [
        (
            "plain",
            "in-turn",
            [
                "order first: the first of models.toml",
                "order first: next in models.toml",
                "it has a quota (rpm 60): whether that is used up is known to the running gateway alone",
            ],
        ),
        ("acme", "in-turn", ["the only place of its model that there is a key for"]),
        (
            "plain",
            "cheap",
            [
                "order cheapest: some 0.00 USD for this call at wholesale",
                "order cheapest: some 0.00245925 USD for this call at wholesale",
            ],
        ),
        (
            "plain",
            "fast",
            ["order fastest: only the running gateway knows which is, so that its order may differ"] * 2,
        ),
        ("plain", "gpt", []),
    ],
)
def test_each_order_has_its_reason(workspace: str, model: str, expected: list[str]) -> None:
    assert [one for found in reasons(explained(workspace, model)).values() for one in found] == expected


def test_places_that_are_not_tried_are_named_with_the_reason() -> None:
    def left_out(workspace: str, model: str) -> list[tuple[str, str, str]]:
        return [tuple(one) for one in explained(workspace, model).left_out]

    assert left_out("hop", "many") == [
        ("many", "KEYLESS/many-3", "KEYLESS has no platform key"),
        ("claude", "CLAUDE/vendor/model-2026", "a call makes at most 3 attempts"),
    ]
    assert left_out("acme", "in-turn") == [
        ("in-turn", "OPENAI/vendor/model-2026", "the workspace has no key of its own for OPENAI")
    ]
    assert left_out("plain", "gpt") == []
    assert left_out("plain", "old") == []


def test_an_open_circuit_is_named_and_an_unknown_one_is_not_guessed() -> None:
    opened = "its circuit is open: calls pass over it now, if another target can serve"
    known = KnownCircuits({"LOCAL:many-2/payg/plain": OPEN}, NOW_US)
    found = explained("plain", "many", known)
    assert [place for place, why in reasons(found).items() if opened in why] == ["LOCAL/many-2"]
    rests = "Which keys and places rest is known to the running gateway alone: it passes over those."
    assert found.unknown == (rests,)
    unknown = "Which circuits are open is not known here: /readyz of the gateway shows it."
    assert explained("plain", "many").unknown == (rests, unknown)
    # Nothing is passed over where nothing else can serve.
    alone = explained("plain", "gpt", KnownCircuits({"OPENAI/payg/plain": OPEN}, NOW_US))
    assert (alone.unknown, alone.attempts[0].reasons) == ((), ())


def test_a_gateways_page_says_which_keys_rest() -> None:
    checks = {"platform_keys": "OPENAI: key 1 of 2 rests 30 s after 429", "circuits": "ok"}
    rests = "Which places rest is known to each process of the gateway alone: it passes over those."
    keys = f"Platform keys that rest now: {checks['platform_keys']}."
    assert explained("plain", "many", KnownCircuits({}, 1), checks).unknown == (keys, rests)
    circuits = "Circuits that are open: none."
    assert explained("plain", "many", None, checks).unknown == (keys, rests, circuits)


def test_circuits_are_read_from_the_ledger_unless_they_are_in_redis() -> None:
    settings = loaded()
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as ledger:
        assert read_circuits(ledger, settings) == KnownCircuits({}, pytest.approx(0, abs=2**62))
        migrate(ledger)
        ledger.execute("INSERT INTO circuits VALUES ('A/payg/acme', 5, 1, 2)")
        found = read_circuits(ledger, settings)
        assert found
        assert found.circuits == {"A/payg/acme": Circuit(5, 1, 2)}
        conf = settings.conf
        redis = conf.model_copy(update={"state": conf.state.model_copy(update={"backend": "redis"})})
        assert read_circuits(ledger, replace(settings, conf=redis)) is None


def test_no_secret_of_a_route_is_in_an_explanation() -> None:
    assert "fake-customer-key" not in repr(explain_as("net", BODY % b"own-broken"))
