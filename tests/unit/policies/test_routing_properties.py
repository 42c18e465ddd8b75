"""Routing: properties of every situation."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rig.routed_calls import (
    BYOK,
    MODELS,
    NAMES,
    ON,
    PROVIDERS,
    SECRETS,
    TEXTS,
    When,
    routed,
    situations,
    text,
)

from policies.refusal import Refusal
from policies.request_facts import RequestFacts
from policies.route import Route
from policies.route_table import RouteTable
from policies.routing import choose_route


@given(situations())
def test_a_table_finds_the_same_route_each_time(when: When) -> None:
    table, workspace = RouteTable(MODELS, PROVIDERS), when.workspace
    facts = RequestFacts(when.name, when.fields)
    expected = route_or_refusal(lambda: choose_route(facts, workspace, NAMES, PROVIDERS))
    first, second = (route_or_refusal(lambda: table.find(facts, workspace)) for _ in range(2))
    assert first == second == expected
    if isinstance(expected, Route):
        # A name outside the catalog may be any text, so its route is not kept.
        assert (first is second) == (expected.targets[0].model.slug in MODELS)


def route_or_refusal(find: Callable[[], Route]) -> Route | str:
    try:
        return find()
    except Refusal as refusal:
        return f"{refusal.code}: {refusal}"


@given(situations())
def test_a_route_has_an_active_model_and_the_one_key_of_its_mode(when: When) -> None:
    with suppress(Refusal):
        found = choose_route(RequestFacts(when.name, when.fields), when.workspace, NAMES, PROVIDERS)
        [target] = found.targets
        byok = when.byok.get(target.model.provider.name)
        has_own_key = byok is not None and byok.routing
        assert target.model.active
        assert target.mode == ("byok" if has_own_key else "payg")
        assert has_own_key or not target.model.byok_only
        assert target.secret.get_secret_value() == SECRETS[target.mode, target.model.provider.auth]
        assert target.model.slug in MODELS or (target.mode == "byok" and target.model.slug == when.name)


@given(situations(), st.sampled_from(["gpt", "gpt-own", "gpt-big"]))
def test_a_tier_1_pin_is_never_overridden(when: When, slug: str) -> None:
    assert routed(replace(when, name=slug, byok=ON | when.byok | ON)) == f"{slug} byok byok_tier1"


ROLES = st.sampled_from(["system", "developer", "assistant", "tool", "function", "User"])


@st.composite
def others(draw: st.DrawFn) -> dict[str, Any]:
    content = draw(TEXTS | TEXTS.map(lambda said: text(said)))
    return {"role": draw(ROLES), "content": content, "name": draw(TEXTS)}


def _around(when: When, before: list[Any], earlier: list[str], after: list[Any]) -> Iterator[dict[str, Any]]:
    yield from before
    yield from ({"role": "user", "content": turn} for turn in earlier)
    yield {"role": "user", "content": when.text}
    yield from after


@given(
    situations(), st.lists(others(), max_size=3), st.lists(TEXTS, max_size=2), st.lists(others(), max_size=3)
)
def test_a_rule_never_sees_text_outside_the_last_user_message(
    when: When, before: list[Any], earlier: list[str], after: list[Any]
) -> None:
    among = replace(when, more=when.more | {"messages": list(_around(when, before, earlier, after))})
    assert routed(among) == routed(when)


@given(st.sampled_from(["", "openai/", "groq/", "own/", "acme/", "openai/../"]), st.text(max_size=9), BYOK)
def test_no_refusal_repeats_a_name_that_is_not_of_the_catalog(prefix: str, rest: str, byok: Any) -> None:
    become = routed(When(f"{prefix}a-secret{rest}", byok=byok))
    is_served = become.endswith(" custom_model")
    assert is_served == ("a-secret" in become)
    assert is_served or become.split(":")[0] in ("bad_request", "invalid_state")
