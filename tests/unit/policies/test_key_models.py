"""The models that a key may use, and patterns that match no model."""

from contextlib import suppress
from dataclasses import replace

import pytest
from rig.routed_calls import MODELS, NAMES, OFF, ON, PROVIDERS, When

from policies.allowed_models import AllowedModels
from policies.key_models import find_idle_patterns, restrict_route
from policies.model import Byok, Key
from policies.refusal import Refusal
from policies.request_facts import RequestFacts
from policies.route_table import RouteTable
from policies.routing import choose_route
from policies.routing_rules import Heuristic

# call, patterns of its key, fallback_model → the route, or the refusal
OF_KEYS = [
    (When("gpt"), ["gpt"], None, "gpt"),
    (When("gpt-big"), ["gpt*"], None, "gpt-big"),
    (
        When("llama"),
        ["gpt*"],
        None,
        "byok_required model: This API key may not use 'llama': it may use gpt*. "
        "Name one of these, or use another key.",
    ),
    # Whatever chose the model, the key must be allowed to use it.
    (
        When(default="llama"),
        ["gpt*", "kimi"],
        None,
        "byok_required None: The workspace's file chose 'llama' (default), which this API key may not use: it may use "
        "gpt*, kimi. Name one of these, or use another key.",
    ),
    (
        When("gpt", text="some sql", rules=(("sql", "llama"),)),
        ["gpt"],
        None,
        "byok_required None: The workspace's file chose 'llama' (rule 1), which this API key may not use: "
        "it may use gpt. Use another key.",
    ),
    (
        When(heuristics=(Heuristic("tools", "llama"),), more={"tools": [{}]}),
        ["gpt"],
        None,
        "byok_required None: The workspace's file chose 'llama' (heuristic tools), which this API key may not "
        "use: it may use gpt. Name one of these, or use another key.",
    ),
    (When("gpt", text="some sql", rules=(("sql", "llama"),)), ["llama"], None, "llama"),
    # The patterns are about the slug after the alias, and not about the name.
    (When("haiku-4", aliases=(("haiku-*", "gpt"),)), ["gpt"], None, "gpt"),
    (
        When("haiku-4", aliases=(("haiku-*", "gpt"),)),
        ["haiku-*"],
        None,
        "byok_required None: The workspace's file chose 'gpt' (alias haiku-*), which this API key may not use: "
        "it may use haiku-*. Name one of these, or use another key.",
    ),
    (When("gpt-2024"), ["gpt"], None, "gpt"),
    (
        When("gpt-2024"),
        ["gpt-2024"],
        None,
        "byok_required model: This API key may not use 'gpt': it may use gpt-2024. "
        "Name one of these, or use another key.",
    ),
    # Customers' own keys, in the catalog and outside it.
    (When("gpt", byok=ON), ["gpt"], None, "gpt"),
    (
        When("gpt", byok=ON),
        ["llama"],
        None,
        "byok_required model: This API key may not use 'gpt': it may use llama. Name one of these, or use another key.",
    ),
    (When("openai/new", byok=ON), ["openai/*"], None, "openai/new"),
    (When("OPENAI/new", byok=ON), ["openai/new"], None, "OPENAI/new"),
    (
        When("openai/gpt", byok=ON),
        ["gpt"],
        None,
        "byok_required model: This API key may not use that model: it may use gpt. "
        "Name one of these, or use another key.",
    ),
    # A fallback outside the patterns is skipped.
    (When("gpt"), ["gpt", "llama"], "llama", "gpt → llama"),
    (When("gpt"), ["gpt"], "llama", "gpt (fallback_model llama is outside the models of [[keys]] ci)"),
    (
        When("llama"),
        ["gpt"],
        "gpt",
        "byok_required model: This API key may not use 'llama': it may use gpt. Name one of these, or use another key.",
    ),
    # Other refusals come first.
    (
        When("gpt-old"),
        ["llama"],
        None,
        "invalid_state model: No active model is configured for 'gpt-old': name another model "
        "(GET /v1/models lists them).",
    ),
]


@pytest.mark.parametrize(("when", "patterns", "fallback", "made"), OF_KEYS, ids=range(len(OF_KEYS)))
def test_the_models_of_a_key(when: When, patterns: list[str], fallback: str | None, made: str) -> None:
    workspace = replace(when.workspace, fallback_model=fallback)
    request = RequestFacts(when.name, when.fields)
    table = RouteTable(MODELS, PROVIDERS)
    key = Key("ci", "0" * 64, models=AllowedModels(tuple(patterns)))

    def found() -> str:
        try:
            route = restrict_route(table.find(request, workspace), key)
        except Refusal as refusal:
            return f"{refusal.code} {refusal.param}: {refusal.message}"
        shown = " → ".join(target.model.slug for target in route.targets)
        return f"{shown} ({route.no_fallback_reason})" if fallback and route.no_fallback_reason else shown

    assert found() == found() == made
    # The next key of the workspace, without patterns, is not concerned.
    with suppress(Refusal):
        route = table.find(request, workspace)
        assert restrict_route(route, replace(key, models=None)) is route


def test_a_key_keeps_the_safety_net_of_its_model() -> None:
    workspace = replace(When(byok=ON).workspace, safety_net=True)
    route = choose_route(RequestFacts("gpt", When().fields), workspace, NAMES, PROVIDERS)
    assert len(restrict_route(route, Key("ci", "0" * 64, models=AllowedModels(("gpt",)))).targets) == 2


@pytest.mark.parametrize(
    ("pattern", "byok", "is_idle"),
    [
        ("gpt", {}, False),
        ("GPT*", {}, False),
        ("*", {}, False),
        ("gtp*", {}, True),
        ("gpt-bigger", {}, True),
        ("openai/new", {}, True),
        ("openai/new", OFF, True),
        ("openai/new", ON, False),
        ("openai/*", ON, False),
        ("open*", ON, False),
        ("groq/new", ON, True),
    ],
)
def test_a_pattern_that_matches_nothing_is_found(pattern: str, byok: dict[str, Byok], is_idle: bool) -> None:
    key = Key("ci", "0" * 64, models=AllowedModels((pattern, "gpt")))
    found = find_idle_patterns(key, When(byok=byok).workspace, MODELS)
    assert found == ([pattern] if is_idle else [])
