"""The rule that sends calls with tools and reasoning to the Responses API, and all others elsewhere."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from policies.dialect_choice import choose_dialect, explain_dialect, find_dialect, name_dialect_rule
from policies.family import Family
from policies.field_change import name_family_rule
from policies.model import Model
from policies.prices import Prices
from policies.provider import Provider
from policies.route import Target

FREE = Prices(0, 0, 0)
TOOLS = [{"type": "function", "function": {"name": "f"}}]
REASONS = Family(
    "reasons", extra=frozenset({"reasoning_effort"}), implies={"tools": {"reasoning_effort": "none"}}
)
ON_REQUEST = replace(REASONS, name="on request", default_effort="none")
ALWAYS = replace(REASONS, name="always", values={"reasoning_effort": {"none": "low"}})
ONLY = replace(REASONS, name="only", responses_only=True, reasoning_beside_completion=True)


def model(family: Family = REASONS, *, prefers: bool = True) -> Model:
    provider = Provider("VENDOR", "https://vendor.example", "openai", ())
    return Model(
        "slug",
        provider,
        "id",
        family,
        FREE,
        FREE,
        100,
        byok_only=False,
        active=True,
        prefers_responses=prefers,
    )


@pytest.mark.parametrize(
    ("family", "fields", "expected"),
    [
        (REASONS, {"tools": TOOLS}, "responses"),
        (REASONS, {"tools": TOOLS, "reasoning_effort": "high"}, "responses"),
        (REASONS, {"tools": TOOLS, "reasoning_effort": "none"}, "openai"),
        (REASONS, {"tools": []}, "openai"),
        (REASONS, {"reasoning_effort": "high"}, "openai"),
        (REASONS, {"tools": TOOLS, "reasoning_effort": 5}, "responses"),  # which refuses it by name
        (ON_REQUEST, {"tools": TOOLS}, "openai"),
        (ON_REQUEST, {"tools": TOOLS, "reasoning_effort": "low"}, "responses"),
        (ALWAYS, {"tools": TOOLS, "reasoning_effort": "none"}, "responses"),
        (ONLY, {}, "responses"),
    ],
)
def test_the_fields_and_the_family_decide(family: Family, fields: dict[str, Any], expected: str) -> None:
    assert find_dialect(model(family), fields) == expected
    chosen = choose_dialect(Target(model(family), "payg", SecretStr("key")), fields)
    assert chosen.model.dialect == expected


def test_a_row_without_the_line_stays_in_its_providers_dialect() -> None:
    assert find_dialect(model(prefers=False), {"tools": TOOLS}) == "openai"
    assert find_dialect(model(prefers=False), {}, native="responses") == "openai"


def test_a_call_of_that_api_goes_there_whatever_its_fields() -> None:
    assert find_dialect(model(), {}, native="responses") == "responses"
    assert find_dialect(model(), {"tools": TOOLS, "reasoning_effort": "none"}, "messages") == "openai"


def test_a_target_has_one_target_there_with_its_own_rules() -> None:
    target = Target(model(), "payg", SecretStr("key"))
    there = choose_dialect(target, {"tools": TOOLS})
    assert there is choose_dialect(target, {"tools": TOOLS})
    assert choose_dialect(target, {}) is target
    family = there.model.family
    assert (family.implies, family.n_limit, family.uncapped_completion_tokens) == ({}, 1, 15)
    assert "reasoning_details" in family.message_extra
    assert (there.secret, there.model.place) == (target.secret, target.model.place)


def test_a_family_states_what_differs_there() -> None:
    rules = {"values": {"reasoning_effort": {"minimal": "low"}}, "message_extra": frozenset({"refusal"})}
    family = replace(REASONS, responses_rules=rules, uncapped_completion_tokens=1_000).over_responses
    assert family.values == rules["values"]
    assert family.message_extra == {"refusal"}
    assert family.uncapped_completion_tokens == 1_000
    assert family.over_responses is family
    assert name_family_rule(family, "values") == "families.toml [reasons.responses] values"
    assert name_family_rule(family, "extra") == "families.toml [reasons] extra"
    assert name_family_rule(family, "n_limit") == "families.toml, default of responses.n_limit"


def test_a_family_without_chat_completions_has_only_these_rules() -> None:
    only = model(ONLY)
    assert (only.dialect, only.family.reasoning_beside_completion) == ("responses", False)
    assert only.price_set == model(prefers=False).price_set


def test_the_rule_has_its_place() -> None:
    there = model().over_responses
    assert name_dialect_rule(model()) == "providers.toml [VENDOR] dialect"
    assert name_dialect_rule(there) == 'models.toml ["slug"] dialect'
    assert name_dialect_rule(model(ONLY)) == "families.toml [only] responses_only"
    assert explain_dialect(model()) is None
    assert name_dialect_rule(there) in (explain_dialect(there) or "")
    assert "no other" in (explain_dialect(model(ONLY)) or "")
