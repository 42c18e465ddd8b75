"""The model and the key that serve a call: one line of a table for each situation, and general properties."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from policies.allowed_models import AllowedModels
from policies.family import Family
from policies.key_models import find_idle_patterns, restrict_route
from policies.model import (
    Byok,
    Heuristic,
    HeuristicWhen,
    Key,
    KeywordRule,
    Model,
    Prices,
    Provider,
    Workspace,
)
from policies.refusal import Refusal
from policies.request_facts import RequestFacts
from policies.route import Route
from policies.route_table import RouteTable
from policies.routing import choose_route

PRICES = Prices(1, 1, 1)
PLATFORM = SecretStr("platform")
CUSTOM = Family("custom-of-openai")
PROVIDERS = {
    "OPENAI": Provider("OPENAI", "https://openai.test", "openai", (PLATFORM,), custom_family=CUSTOM),
    "GROQ": Provider("GROQ", "https://groq.test", "openai", (PLATFORM,)),
    "BARE": Provider("BARE", "https://bare.test", "openai", ()),
    "OWN": Provider("OWN", "http://own.test", "openai", (), auth="none"),
    "SANDBOX": Provider("SANDBOX", "", "openai", (), builtin=True),
}


def model(slug: str, provider: str, *, byok_only: bool = False, active: bool = True) -> Model:
    family = Family("plain")
    return Model(slug, PROVIDERS[provider], f"up-{slug}", family, PRICES, PRICES, 100, byok_only, active)


MODELS = {
    made.slug: made
    for made in (
        model("gpt", "OPENAI"),
        model("gpt-big", "OPENAI"),
        model("gpt-own", "OPENAI", byok_only=True),
        model("gpt-old", "OPENAI", active=False),
        model("gpt-own-old", "OPENAI", byok_only=True, active=False),
        model("llama", "GROQ"),
        model("openai/oss", "GROQ"),
        model("acme/oss", "GROQ"),
        model("kimi", "GROQ"),
        model("bare", "BARE"),
        model("mine", "OWN"),
    )
}

ON = {"OPENAI": Byok(SecretStr("customer"), routing=True)}
OFF = {"OPENAI": Byok(SecretStr("customer"), routing=False)}
LOST = {"OPENAI": Byok(None, routing=True)}
LOST_AND_OFF = {"OPENAI": Byok(None, routing=False)}
GROQ_ON = {"GROQ": Byok(SecretStr("customer"), routing=True)}
BARE_ON = {"BARE": Byok(SecretStr("customer"), routing=True)}


@dataclass(frozen=True)
class When:
    """A call for ``name``, and its workspace. ``rules`` are (keyword, model)."""

    name: str | None = None
    text: str = "hello"
    rules: tuple[tuple[str, str], ...] = ()
    heuristics: tuple[Heuristic, ...] = ()
    default: str | None = None
    byok: dict[str, Byok] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def workspace(self) -> Workspace:
        rules = tuple(KeywordRule((keyword,), slug) for keyword, slug in self.rules)
        return Workspace(
            *("acme", "Acme", "pro", ()),
            default_model=self.default,
            byok=self.byok,
            rules=rules,
            heuristics=self.heuristics,
        )

    @property
    def fields(self) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": self.text}]} | self.more


def routed(when: When) -> str:
    """Return the result of a call in one line: ``slug mode decided_by``, or ``code: message``."""
    try:
        route = choose_route(RequestFacts(when.name, when.fields), when.workspace, MODELS, PROVIDERS)
    except Refusal as refusal:
        return f"{refusal.code}: {refusal.message}"
    [target] = route.targets
    assert target.secret.get_secret_value() == SECRETS[target.mode, target.model.provider.auth]
    return f"{target.model.slug} {target.mode} {route.decided_by}"


SECRETS = {("byok", "bearer"): "customer", ("payg", "bearer"): "platform", ("payg", "none"): ""}

SQL = (("sql", "llama"),)
TWO = (("sql", "llama"), ("poem", "gpt-big"))
ONE_OF_ALL = (("sql", "llama"), ("sql", "gpt-big"))
IMAGE = {"type": "image_url", "image_url": {"url": "https://a.test/b.png"}}
TOOLS = {"tools": [{"type": "function", "function": {"name": "f"}}]}
JSON = {"response_format": {"type": "json_object"}}
SCHEMA = {"response_format": {"type": "json_schema", "json_schema": {}}}


def shape(when: HeuristicWhen, slug: str = "llama", tokens: int | None = None) -> tuple[Heuristic, ...]:
    return (Heuristic(when, slug, tokens),)


def said(*messages: tuple[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content} for role, content in messages]}


def text(*parts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": part} for part in parts]


# the situation, its result (for a refusal: the code and a part of the message, with "…" between them)
TABLE: list[tuple[str, When, str]] = [
    # --- names only
    ("a slug is served by the platform", When("gpt"), "gpt payg pinned"),
    ("a slug with a slash is a slug", When("openai/oss"), "openai/oss payg pinned"),
    ("a provider without keys needs none", When("mine"), "mine payg pinned"),
    ("no name, no default", When(), "bad_request…Name a model"),
    ("no name, a default", When(default="gpt"), "gpt payg default"),
    ("a hint, a default", When("gtp", default="gpt"), "gpt payg default"),
    ("a hint, no default", When("gtp"), "bad_request…GET /v1/models"),
    ("a slug in another case", When("GPT", default="llama"), "gpt payg pinned"),
    ("with blanks around it", When(" Gpt\n", default="llama"), "gpt payg pinned"),
    ("with an own key", When("GPT", "sql", SQL, byok=ON), "gpt byok byok_tier1"),
    ("no blank inside", When("gpt -big", default="llama"), "llama payg default"),
    ("no letter beyond ASCII", When("\u212aimi", default="llama"), "llama payg default"),
    ("a slug with a slash in another case", When("Acme/OSS"), "acme/oss payg pinned"),
    ("provider/id before a slug in another case", When("OpenAI/oss", byok=ON), "OpenAI/oss byok custom_model"),
    ("also without a key", When("OpenAI/oss"), "bad_request…add [byok.OPENAI]"),
    ("a slash in a hint of no provider", When("acme/gpt", default="gpt"), "gpt payg default"),
    ("an inactive slug", When("gpt-old", default="gpt"), "invalid_state…name another model"),
    ("an inactive default", When(default="gpt-old"), "invalid_state…change default_model"),
    ("a byok-only slug", When("gpt-own", default="gpt"), "byok_required…add [byok.OPENAI]"),
    ("a byok-only default", When(default="gpt-own"), "byok_required…or change its default_model"),
    ("an inactive byok-only slug", When("gpt-own-old"), "invalid_state…No active model"),
    ("no platform key", When("bare"), "byok_required…add [byok.BARE] with 'routing = true' to the"),
    ("no platform key, over a default", When("bare", default="gpt"), "byok_required…no platform key for 'bare'"),
    ("no platform key for a heuristic", When(heuristics=shape("tools", "bare"), more=TOOLS),
     "invalid_state…or change its heuristics[0].model"),
    ("no platform key for a default", When(default="bare"), "invalid_state…set the key of [BARE] in providers.toml"),
    # --- the customer's own key
    ("a pin with an own key", When("gpt", byok=ON), "gpt byok byok_tier1"),
    ("a byok-only pin with an own key", When("gpt-own", byok=ON), "gpt-own byok byok_tier1"),
    ("no platform key, but an own one", When("bare", byok=BARE_ON), "bare byok byok_tier1"),
    ("an own key for another provider", When("gpt", byok=GROQ_ON), "gpt payg pinned"),
    ("an own key that is off", When("gpt", byok=OFF), "gpt payg pinned"),
    ("byok-only with a key that is off", When("gpt-own", byok=OFF), "byok_required…set 'routing = true'"),
    ("byok-only, another provider's key", When("gpt-own", byok=GROQ_ON), "byok_required…add [byok.OPENAI]"),
    ("an own key that is missing", When("gpt", byok=LOST), "invalid_state…no stored key"),
    ("a missing key is no reason for the platform's", When("gpt-own", byok=LOST), "invalid_state…[byok.OPENAI]"),
    ("a missing key that is off", When("gpt", byok=LOST_AND_OFF), "gpt payg pinned"),
    ("a missing key for another provider", When("llama", byok=LOST), "llama payg pinned"),
    ("an inactive pin with an own key", When("gpt-old", byok=ON, default="llama"), "invalid_state…another"),
    ("a default with an own key", When(default="gpt", byok=ON), "gpt byok default"),
    ("a default with a missing key", When(default="gpt", byok=LOST), "invalid_state…no stored key"),
    ("a byok-only default with an own key", When(default="gpt-own", byok=ON), "gpt-own byok default"),
    ("an unknown name with byok enabled", When("gtp", byok=ON, default="gpt"), "bad_request…No model of"),
    ("even if a rule matched", When("gtp", "sql", SQL, byok=ON), "bad_request…No model of"),
    ("byok that is off is not enabled", When("gtp", byok=OFF, default="gpt"), "gpt payg default"),
    ("a missing key is enabled all the same", When("gtp", byok=LOST, default="llama"), "bad_request…No model"),
    ("no name with byok enabled", When(byok=ON), "bad_request…Name a model"),
    # --- models outside the catalog
    ("an own model", When("openai/ft:gpt:acme", byok=ON), "openai/ft:gpt:acme byok custom_model"),
    ("a provider in any case", When("OpenAI/x", byok=ON), "OpenAI/x byok custom_model"),
    ("an id of segments", When("openai/a/b/c@1", byok=ON), "openai/a/b/c@1 byok custom_model"),
    ("over a rule", When("openai/x", "sql", SQL, byok=ON), "openai/x byok custom_model"),
    ("a slug with a slash wins", When("openai/oss", byok=ON), "openai/oss payg pinned"),
    ("also in tier 1", When("openai/oss", byok=GROQ_ON), "openai/oss byok byok_tier1"),
    ("without a key", When("openai/x", default="gpt"), "bad_request…add [byok.OPENAI]"),
    ("with a key for another", When("openai/x", byok=GROQ_ON), "bad_request…add [byok.OPENAI]"),
    ("with a key that is off", When("openai/x", byok=OFF), "bad_request…set 'routing = true'"),
    ("with a key that is missing", When("openai/x", byok=LOST), "invalid_state…no stored key"),
    ("a provider without keys", When("own/x", byok=ON), "bad_request…OWN takes no customer's key"),
    ("the built-in provider", When("sandbox/x"), "bad_request…SANDBOX takes no customer's key"),
    ("an unknown provider, byok enabled", When("acme/x", byok=ON), "bad_request…No model of that name"),
    ("no id at all", When("openai/", byok=ON), "bad_request…segments"),
    ("a way out of the path", When("openai/../admin", byok=ON), "bad_request…segments"),
    ("an empty segment", When("openai/a//b", byok=ON), "bad_request…segments"),
    ("a space", When("openai/a b", byok=ON), "bad_request…without spaces"),
    ("two lines", When("openai/a\n", byok=ON), "bad_request…printable ASCII"),
    ("too long", When("openai/" + "x" * 194, byok=ON), "bad_request…at most 200 characters"),
    ("dots inside", When("openai/.a..b/v1.2", byok=ON), "openai/.a..b/v1.2 byok custom_model"),
    # --- keyword rules
    ("a rule matches", When(None, "my SQL", SQL), "llama payg rule 1 (sql)"),
    ("a rule does not match", When(None, "mysql", SQL, default="gpt"), "gpt payg default"),
    ("a rule over a pin", When("gpt", "sql", SQL), "llama payg rule 1 (sql)"),
    ("a rule over an inactive pin", When("gpt-old", "sql", SQL), "llama payg rule 1 (sql)"),
    ("a rule over a byok-only pin without a key", When("gpt-own", "sql", SQL), "llama payg rule 1 (sql)"),
    ("a rule over a hint", When("gtp", "sql", SQL), "llama payg rule 1 (sql)"),
    ("no rule over tier 1", When("gpt", "sql", SQL, byok=ON), "gpt byok byok_tier1"),
    ("nor where its key is missing", When("gpt", "sql", SQL, byok=LOST), "invalid_state…no stored key"),
    ("a rule over a pin, another's key", When("llama", "sql", (("sql", "gpt"),), byok=ON), "gpt byok rule 1 (sql)"),
    ("the second rule", When(None, "a poem", TWO), "gpt-big payg rule 2 (poem)"),
    ("the first of two", When(None, "a poem on sql", TWO), "llama payg rule 1 (sql)"),
    ("the first of two alike", When(None, "sql", ONE_OF_ALL), "llama payg rule 1 (sql)"),
    ("an inactive rule", When("gpt", "sql", (("sql", "gpt-old"),)), "invalid_state…change rules[0].model"),
    ("a byok-only rule", When("gpt", "sql", (("sql", "gpt-own"),)), "byok_required…change its rules[0].model"),
    ("a byok-only rule with a key", When(None, "sql", (("sql", "gpt-own"),), byok=ON), "gpt-own byok rule 1 (sql)"),
    ("a rule without a platform key", When(None, "sql", (("sql", "bare"),)), "invalid_state…no platform key"),
    ("a part of a message", When(None, rules=SQL, more=said(("user", text("a", "sql")))), "llama payg rule 1 (sql)"),
    ("no word across parts", When("gpt", rules=SQL, more=said(("user", text("s", "ql")))), "gpt payg pinned"),
    ("with a picture", When("gpt", rules=SQL, more=said(("user", [IMAGE, *text("sql")]))), "llama payg rule 1 (sql)"),
    ("not a picture's name", When("gpt", rules=(("b", "llama"),), more=said(("user", [IMAGE]))), "gpt payg pinned"),
    ("not a system message", When("gpt", rules=SQL, more=said(("system", "sql"), ("user", "a"))), "gpt payg pinned"),
    ("not an answer", When("gpt", rules=SQL, more=said(("user", "a"), ("assistant", "sql"))), "gpt payg pinned"),
    ("not an earlier turn", When("gpt", rules=SQL, more=said(("user", "sql"), ("user", "a"))), "gpt payg pinned"),
    ("not a tool's result", When("gpt", rules=SQL, more=said(("user", "a"), ("tool", "sql"))), "gpt payg pinned"),
    ("the last turn, with what follows", When("gpt", rules=SQL, more=said(("user", "sql"), ("tool", "a"))),
     "llama payg rule 1 (sql)"),
    ("no user at all", When("gpt", rules=SQL, more=said(("system", "sql"))), "gpt payg pinned"),
    ("a user without text", When("gpt", rules=SQL, more=said(("user", None))), "gpt payg pinned"),
    # --- heuristics
    ("a picture", When(heuristics=shape("images"), more=said(("user", [IMAGE]))), "llama payg heuristic images"),
    ("in an earlier turn", When(heuristics=shape("images"), more=said(("user", [IMAGE]), ("user", "a"))),
     "llama payg heuristic images"),
    ("no picture", When(heuristics=shape("images"), default="gpt"), "gpt payg default"),
    ("tools", When(heuristics=shape("tools"), more=TOOLS), "llama payg heuristic tools"),
    ("no tool in the list", When(heuristics=shape("tools"), default="gpt", more={"tools": []}), "gpt payg default"),
    ("a json object", When(heuristics=shape("json"), more=JSON), "llama payg heuristic json"),
    ("a json schema", When(heuristics=shape("json"), more=SCHEMA), "llama payg heuristic json"),
    ("text", When(heuristics=shape("json"), default="gpt", more={"response_format": {"type": "text"}}),
     "gpt payg default"),
    ("a long prompt", When(None, "9" * 1_000, heuristics=shape("prompt_tokens_above", tokens=1_000)),
     "llama payg heuristic prompt_tokens_above"),
    ("a short prompt", When(default="gpt", heuristics=shape("prompt_tokens_above", tokens=1_000)), "gpt payg default"),
    ("no heuristic over a pin", When("gpt", heuristics=shape("tools"), more=TOOLS), "gpt payg pinned"),
    ("a heuristic for a hint", When("gtp", heuristics=shape("tools"), more=TOOLS), "llama payg heuristic tools"),
    ("a rule over a heuristic", When(None, "sql", SQL, shape("tools", "gpt"), more=TOOLS), "llama payg rule 1 (sql)"),
    ("a heuristic over the default", When(heuristics=shape("tools"), default="gpt", more=TOOLS),
     "llama payg heuristic tools"),
    ("the first of two", When(heuristics=shape("json") + shape("tools", "gpt"), more=TOOLS | JSON),
     "llama payg heuristic json"),
    ("the second of two", When(heuristics=shape("json") + shape("tools", "gpt"), more=TOOLS),
     "gpt payg heuristic tools"),
    ("a heuristic with an own key", When(heuristics=shape("tools", "gpt"), more=TOOLS, byok=ON),
     "gpt byok heuristic tools"),
    ("an inactive heuristic", When(heuristics=shape("json") + shape("tools", "gpt-old"), more=TOOLS),
     "invalid_state…change heuristics[1].model"),
    ("a byok-only heuristic", When(heuristics=shape("tools", "gpt-own"), more=TOOLS),
     "byok_required…change its heuristics[0].model"),
    # --- a model that was removed from the catalog after the workspace's file was valid
    ("a rule's model is gone", When("gpt", "sql", rules=(("sql", "gone"),)), "invalid_state…change rules[0].model"),
    ("not for this call", When("gpt", rules=(("sql", "gone"),)), "gpt payg pinned"),
    ("a heuristic's model is gone", When(heuristics=shape("tools", "gone"), more=TOOLS, default="gpt"),
     "invalid_state…change heuristics[0].model"),
    ("not for this shape", When(heuristics=shape("tools", "gone"), default="gpt"), "gpt payg default"),
    ("the default is gone", When("gtp", default="gone"), "invalid_state…change default_model"),
    ("the default is gone, and not needed", When("gpt", default="gone"), "gpt payg pinned"),
    ("a key's provider is gone", When("gtp", default="gpt", byok={"GONE": Byok(None, routing=True)}),
     "bad_request…No model of that name"),
]  # fmt: skip


@pytest.mark.parametrize(("when", "becomes"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_each_situation_has_its_route(when: When, becomes: str) -> None:
    code, separator, part = becomes.partition("…")
    if separator:
        assert routed(when).startswith(f"{code}: ")
        assert part in routed(when)
    else:
        assert routed(when) == becomes


def test_the_prompt_is_estimated_only_for_a_heuristic_that_asks_and_once() -> None:
    asked: list[int] = []

    class Watched(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            asked.append(1)
            return super().__iter__()

    fields = {"messages": Watched(When(text="hello").fields["messages"])}
    for when in (When(default="gpt", heuristics=shape("tools")), When("gpt", heuristics=LONG)):
        choose_route(RequestFacts(when.name, fields), when.workspace, MODELS, PROVIDERS)
    assert asked == []
    request = RequestFacts(None, fields)
    choose_route(request, When(heuristics=LONG + LONG).workspace, MODELS, PROVIDERS)
    once = len(asked)
    assert request.prompt_tokens == request.prompt_tokens > 200
    assert len(asked) == once > 0


LONG = shape("prompt_tokens_above", tokens=49)


def test_a_model_outside_the_catalog_is_free_uncapped_and_of_its_providers_custom_family() -> None:
    found = choose_route(
        RequestFacts("OpenAI/a/b", When().fields), When(byok=ON | GROQ_ON).workspace, MODELS, PROVIDERS
    )
    made = found.targets[0].model
    assert (made.slug, made.upstream_model_id, made.provider.name) == ("OpenAI/a/b", "a/b", "OPENAI")
    assert (made.family, made.max_completion_tokens) == (CUSTOM, None)
    assert made.wholesale == made.retail == Prices(0, 0, 0)
    found = choose_route(
        RequestFacts("groq/x", When().fields), When(byok=ON | GROQ_ON).workspace, MODELS, PROVIDERS
    )
    assert found.targets[0].model.family == Family("custom")


# --- properties of every situation -----------------------------------------------------------------------------

NAMES = st.none() | st.sampled_from([*MODELS, "gtp", "openai/x", "own/x", "acme/x", "openai/.."]) | st.text()
BYOK = st.sampled_from([{}, ON, OFF, LOST, GROQ_ON, ON | GROQ_ON])
RULES = st.lists(
    st.tuples(st.sampled_from(["sql", "poem", "é"]), st.sampled_from(sorted(MODELS))), max_size=3
)
SHAPES = st.sampled_from(["images", "tools", "json"]).flatmap(
    lambda when: st.sampled_from(sorted(MODELS)).map(lambda slug: Heuristic(when, slug))
)
TEXTS = st.lists(st.sampled_from(["sql", "poem", "SQL!", "hello", "é"]), max_size=4).map(" ".join)


@st.composite
def situations(draw: st.DrawFn) -> When:
    return When(
        draw(NAMES),
        draw(TEXTS),
        tuple(draw(RULES)),
        tuple(draw(st.lists(SHAPES, max_size=2))),
        draw(st.none() | st.sampled_from(sorted(MODELS))),
        draw(BYOK),
        draw(st.sampled_from([{}, TOOLS, JSON, TOOLS | JSON])),
    )


@settings(max_examples=300, deadline=None)
@given(situations())
def test_a_table_finds_the_same_route_each_time(when: When) -> None:
    table, workspace = RouteTable(MODELS, PROVIDERS), when.workspace
    facts = RequestFacts(when.name, when.fields)
    expected = route_or_refusal(lambda: choose_route(facts, workspace, MODELS, PROVIDERS))
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


@pytest.mark.parametrize("max_routes", [1, 2, 100])
def test_a_table_has_routes_for_each_workspace(max_routes: int) -> None:
    table = RouteTable(MODELS, PROVIDERS, max_routes)
    workspaces = [replace(When(default=slug).workspace, id=slug) for slug in ("gpt", "llama", "kimi", "mine")]
    for _ in range(2):
        found = [table.find(RequestFacts(None, {"messages": []}), workspace) for workspace in workspaces]
        assert [route.targets[0].model.slug for route in found] == ["gpt", "llama", "kimi", "mine"]


def test_workspaces_share_a_target_with_a_platform_key_and_none_with_their_own() -> None:
    table = RouteTable(MODELS, PROVIDERS)
    for byok, is_shared in (({}, True), (ON, False)):
        workspaces = [replace(When(byok=byok).workspace, id=f"{name} {is_shared}") for name in ("a", "b")]
        one, other = (
            table.find(RequestFacts("gpt", {"messages": []}), workspace) for workspace in workspaces
        )
        assert one.targets == other.targets
        assert (one.targets[0] is other.targets[0]) == is_shared


@settings(max_examples=300, deadline=None)
@given(situations())
def test_a_route_has_an_active_model_and_the_one_key_of_its_mode(when: When) -> None:
    with suppress(Refusal):
        found = choose_route(RequestFacts(when.name, when.fields), when.workspace, MODELS, PROVIDERS)
        [target] = found.targets
        byok = when.byok.get(target.model.provider.name)
        has_own_key = byok is not None and byok.routing
        assert target.model.active
        assert target.mode == ("byok" if has_own_key else "payg")
        assert has_own_key or not target.model.byok_only
        assert target.secret.get_secret_value() == SECRETS[target.mode, target.model.provider.auth]
        assert target.model.slug in MODELS or (target.mode == "byok" and target.model.slug == when.name)


@settings(max_examples=200, deadline=None)
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


@settings(max_examples=200, deadline=None)
@given(
    situations(), st.lists(others(), max_size=3), st.lists(TEXTS, max_size=2), st.lists(others(), max_size=3)
)
def test_a_rule_never_sees_text_outside_the_last_user_message(
    when: When, before: list[Any], earlier: list[str], after: list[Any]
) -> None:
    among = replace(when, more=when.more | {"messages": list(_around(when, before, earlier, after))})
    assert routed(among) == routed(when)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["", "openai/", "groq/", "own/", "acme/", "openai/../"]), st.text(max_size=9), BYOK)
def test_no_refusal_repeats_a_name_that_is_not_of_the_catalog(prefix: str, rest: str, byok: Any) -> None:
    become = routed(When(f"{prefix}a-secret{rest}", byok=byok))
    is_served = become.endswith(" custom_model")
    assert is_served == ("a-secret" in become)
    assert is_served or become.split(":")[0] in ("bad_request", "invalid_state")


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
    route = choose_route(RequestFacts("gpt", When().fields), workspace, MODELS, PROVIDERS)
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
