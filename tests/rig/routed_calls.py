"""Models, providers, own keys, and calls that a table of routing or fallback begins with."""

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st
from pydantic import SecretStr

from policies.aliases import Alias, Aliases
from policies.family import Family
from policies.model import Byok, Model, Workspace
from policies.model_names import ModelNames
from policies.prices import Prices
from policies.provider import Provider
from policies.refusal import Refusal
from policies.request_facts import RequestFacts
from policies.routing import choose_route
from policies.routing_rules import Heuristic, HeuristicWhen, KeywordRule

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
        replace(model("gpt", "OPENAI"), aliases=("gpt-2024", "openai/gpt-latest")),
        model("gpt-big", "OPENAI"),
        model("gpt-own", "OPENAI", byok_only=True),
        model("gpt-old", "OPENAI", active=False),
        model("gpt-own-old", "OPENAI", byok_only=True, active=False),
        model("llama", "GROQ"),
        model("openai/oss", "GROQ"),
        model("acme/oss", "GROQ"),
        replace(model("kimi", "GROQ"), aliases=("Kimi-Latest",)),
        model("bare", "BARE"),
        model("mine", "OWN"),
    )
}
NAMES = ModelNames(MODELS)

ON = {"OPENAI": Byok(SecretStr("customer"), routing=True)}
OFF = {"OPENAI": Byok(SecretStr("customer"), routing=False)}
LOST = {"OPENAI": Byok(None, routing=True)}
LOST_AND_OFF = {"OPENAI": Byok(None, routing=False)}
GROQ_ON = {"GROQ": Byok(SecretStr("customer"), routing=True)}
BARE_ON = {"BARE": Byok(SecretStr("customer"), routing=True)}


@dataclass(frozen=True)
class When:
    """A call for ``name``, and its workspace. ``rules`` are (keyword, model), ``aliases`` (name, model)."""

    name: str | None = None
    text: str = "hello"
    rules: tuple[tuple[str, str], ...] = ()
    heuristics: tuple[Heuristic, ...] = ()
    default: str | None = None
    byok: dict[str, Byok] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    aliases: tuple[tuple[str, str], ...] = ()

    @property
    def workspace(self) -> Workspace:
        rules = tuple(KeywordRule((keyword,), slug) for keyword, slug in self.rules)
        return Workspace(
            *("acme", "Acme", "pro", ()),
            default_model=self.default,
            byok=self.byok,
            rules=rules,
            heuristics=self.heuristics,
            aliases=Aliases(tuple(Alias(*one) for one in self.aliases)),
        )

    @property
    def fields(self) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": self.text}]} | self.more


SECRETS = {("byok", "bearer"): "customer", ("payg", "bearer"): "platform", ("payg", "none"): ""}


def routed(when: When) -> str:
    """Return the result of a call in one line: ``slug mode decided_by``, or ``code: message``."""
    try:
        route = choose_route(RequestFacts(when.name, when.fields), when.workspace, NAMES, PROVIDERS)
    except Refusal as refusal:
        return f"{refusal.code}: {refusal.message}"
    [target] = route.targets
    assert target.secret.get_secret_value() == SECRETS[target.mode, target.model.provider.auth]
    return f"{target.model.slug} {target.mode} {route.decided_by}"


SQL = (("sql", "llama"),)
TOOLS = {"tools": [{"type": "function", "function": {"name": "f"}}]}
JSON = {"response_format": {"type": "json_object"}}


def shape(when: HeuristicWhen, slug: str = "llama", tokens: int | None = None) -> tuple[Heuristic, ...]:
    return (Heuristic(when, slug, tokens),)


def said(*messages: tuple[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content} for role, content in messages]}


def text(*parts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": part} for part in parts]


ALIASED = ["gpt-2024", "GPT-2024", "openai/gpt-latest", "kimi-latest"]
ASKED = (
    st.none()
    | st.sampled_from([*MODELS, *ALIASED, "gtp", "openai/x", "own/x", "acme/x", "openai/.."])
    | st.text()
)
ALIASES = st.dictionaries(
    st.sampled_from(["gpt", "gpt-*", "gtp", "openai/*", "kimi*", "*"]),
    st.sampled_from(sorted(MODELS)),
    max_size=3,
)
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
        draw(ASKED),
        draw(TEXTS),
        tuple(draw(RULES)),
        tuple(draw(st.lists(SHAPES, max_size=2))),
        draw(st.none() | st.sampled_from(sorted(MODELS))),
        draw(BYOK),
        draw(st.sampled_from([{}, TOOLS, JSON, TOOLS | JSON])),
        tuple(draw(ALIASES).items()),
    )
