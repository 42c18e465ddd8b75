"""The model and the key that serve a call: one line of a table for each situation."""

from collections.abc import Iterator
from typing import Any

import pytest
from rig.routed_calls import (
    BARE_ON,
    CUSTOM,
    GROQ_ON,
    JSON,
    LOST,
    LOST_AND_OFF,
    NAMES,
    OFF,
    ON,
    PROVIDERS,
    SQL,
    TOOLS,
    When,
    routed,
    said,
    shape,
    text,
)

from policies.family import Family
from policies.model import Byok
from policies.prices import Prices
from policies.request_facts import RequestFacts
from policies.routing import choose_route

TWO = (("sql", "llama"), ("poem", "gpt-big"))
ONE_OF_ALL = (("sql", "llama"), ("sql", "gpt-big"))
IMAGE = {"type": "image_url", "image_url": {"url": "https://a.test/b.png"}}
SCHEMA = {"response_format": {"type": "json_schema", "json_schema": {}}}
HAIKU = (("haiku-*", "llama"),)
LONGER = (("haiku-*", "llama"), ("haiku-4*", "kimi"))
GPT = (("gpt", "llama"),)
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
    # --- aliases of the workspace
    ("a name of a client", When("haiku-4-5", aliases=HAIKU), "llama payg alias haiku-*"),
    ("in another case", When(" Haiku-4", aliases=HAIKU), "llama payg alias haiku-*"),
    ("the beginning alone", When("haiku-", aliases=HAIKU), "llama payg alias haiku-*"),
    ("another beginning", When("haiku", aliases=HAIKU, default="gpt"), "gpt payg default"),
    ("a name without a star", When("fast", aliases=(("fast", "gpt"),)), "gpt payg alias fast"),
    ("no more than it", When("faster", aliases=(("fast", "gpt"),)), "bad_request…No model of that name"),
    ("the longest of several", When("haiku-4-5", aliases=LONGER), "kimi payg alias haiku-4*"),
    ("in any order", When("haiku-4-5", aliases=LONGER[::-1]), "kimi payg alias haiku-4*"),
    ("a whole name before its beginning", When("haiku-4", aliases=(*LONGER, ("haiku-4", "gpt"))),
     "gpt payg alias haiku-4"),
    ("any name", When("gtp", aliases=(("*", "gpt"),)), "gpt payg alias *"),
    ("but not none", When(aliases=(("*", "gpt"),)), "bad_request…Name a model"),
    ("a star of the client is a letter", When("haiku-*", aliases=LONGER), "llama payg alias haiku-*"),
    ("over a slug", When("gpt", aliases=GPT), "llama payg alias gpt"),
    ("over an inactive slug", When("gpt-old", aliases=(("gpt-old", "gpt"),)), "gpt payg alias gpt-old"),
    ("also with an own key", When("gpt-old", aliases=(("gpt-old", "gpt"),), byok=ON), "gpt byok alias gpt-old"),
    ("not over tier 1", When("gpt", aliases=GPT, byok=ON), "gpt byok byok_tier1"),
    ("over tier 1 of another provider", When("gpt", aliases=GPT, byok=GROQ_ON), "llama byok alias gpt"),
    ("over a rule", When("haiku-4", "sql", (("sql", "kimi"),), aliases=HAIKU), "llama payg alias haiku-*"),
    ("over an alias of the catalog", When("gpt-2024", aliases=(("gpt-2*", "llama"),)), "llama payg alias gpt-2*"),
    ("over a model outside the catalog", When("openai/x", byok=ON, aliases=(("openai/*", "llama"),)),
     "llama payg alias openai/*"),
    ("a known name with byok enabled", When("haiku-4", byok=ON, aliases=HAIKU), "llama payg alias haiku-*"),
    ("to an inactive model", When("a", aliases=(("a", "gpt-old"),)), "invalid_state…change aliases[0].model"),
    ("to a model that is gone", When("a", aliases=(("a", "gone"),)), "invalid_state…change aliases[0].model"),
    ("to a byok-only model", When("a", aliases=(("a", "gpt-own"),)), "byok_required…or change its aliases[0].model"),
    ("no chain of aliases", When("a", aliases=(("a", "gpt"), *GPT)), "gpt payg alias a"),
    # --- aliases of the catalog
    ("an alias of the catalog", When("gpt-2024"), "gpt payg catalog_alias"),
    ("of the catalog in another case", When("GPT-2024 "), "gpt payg catalog_alias"),
    ("that is written in another case", When("kimi-latest"), "kimi payg catalog_alias"),
    ("with the own key", When("gpt-2024", byok=ON), "gpt byok catalog_alias"),
    ("a rule over it", When("gpt-2024", "sql", SQL), "llama payg rule 1 (sql)"),
    ("also with an own key", When("gpt-2024", "sql", SQL, byok=ON), "llama payg rule 1 (sql)"),
    ("over a default", When("gpt-2024", default="llama"), "gpt payg catalog_alias"),
    ("before provider/id", When("openai/gpt-latest", byok=ON), "gpt byok catalog_alias"),
    ("provider/id before it in another case", When("OpenAI/gpt-latest", byok=ON),
     "OpenAI/gpt-latest byok custom_model"),
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


LONG = shape("prompt_tokens_above", tokens=49)


def test_the_prompt_is_estimated_only_for_a_heuristic_that_asks_and_once() -> None:
    asked: list[int] = []

    class Watched(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            asked.append(1)
            return super().__iter__()

    fields = {"messages": Watched(When(text="hello").fields["messages"])}
    for when in (When(default="gpt", heuristics=shape("tools")), When("gpt", heuristics=LONG)):
        choose_route(RequestFacts(when.name, fields), when.workspace, NAMES, PROVIDERS)
    assert asked == []
    request = RequestFacts(None, fields)
    choose_route(request, When(heuristics=LONG + LONG).workspace, NAMES, PROVIDERS)
    once = len(asked)
    assert request.prompt_tokens == request.prompt_tokens > 200
    assert len(asked) == once > 0


def test_a_model_outside_the_catalog_is_free_uncapped_and_of_its_providers_custom_family() -> None:
    found = choose_route(
        RequestFacts("OpenAI/a/b", When().fields), When(byok=ON | GROQ_ON).workspace, NAMES, PROVIDERS
    )
    made = found.targets[0].model
    assert (made.slug, made.upstream_model_id, made.provider.name) == ("OpenAI/a/b", "a/b", "OPENAI")
    assert (made.family, made.max_completion_tokens) == (CUSTOM, None)
    assert made.wholesale == made.retail == Prices(0, 0, 0)
    found = choose_route(
        RequestFacts("groq/x", When().fields), When(byok=ON | GROQ_ON).workspace, NAMES, PROVIDERS
    )
    assert found.targets[0].model.family == Family("custom")
