"""Which places may serve a call: those of the workspace's own keys, or those of the platform's."""

from dataclasses import replace

import pytest
from pydantic import SecretStr
from rig.routed_calls import MODELS, NAMES, PROVIDERS, When

from policies.model import Byok, Model
from policies.model_names import ModelNames
from policies.refusal import Refusal
from policies.request_facts import RequestFacts
from policies.routing import choose_route

OWN, LOST = Byok(SecretStr("customer"), routing=True), Byok(None, routing=True)


def at(provider: str, **changes: bool) -> Model:
    return replace(
        MODELS["gpt"],
        provider=PROVIDERS[provider],
        upstream_model_id=f"at-{provider}",
        has_siblings=True,
        **changes,
    )


def model(*providers: str, **changes: bool) -> Model:
    first, *others = [at(provider, **changes) for provider in providers]
    return replace(first, deployments=tuple(others))


CASES = [
    # The platform's places, without those of a provider that has no key.
    (model("OPENAI", "GROQ"), {}, False, "OPENAI payg, GROQ payg"),
    (model("BARE", "GROQ"), {}, False, "GROQ payg"),
    (model("OWN", "GROQ"), {}, False, "OWN payg, GROQ payg"),
    # An own key for any place makes the call one with own keys, and only these places serve it.
    (model("OPENAI", "GROQ"), {"GROQ": OWN}, False, "GROQ byok"),
    (model("OPENAI", "GROQ"), {"GROQ": OWN, "OPENAI": OWN}, False, "OPENAI byok, GROQ byok"),
    (model("OPENAI", "GROQ"), {"GROQ": OWN, "OPENAI": LOST}, False, "GROQ byok"),
    (model("OPENAI", "GROQ"), {"GROQ": replace(OWN, routing=False)}, False, "OPENAI payg, GROQ payg"),
    # The Safety Net has the platform's places.
    (model("OPENAI", "GROQ"), {"GROQ": OWN}, True, "GROQ byok, OPENAI payg, GROQ payg"),
    (model("OPENAI", "BARE"), {"BARE": OWN}, True, "BARE byok, OPENAI payg"),
    (model("OPENAI", "GROQ", byok_only=True), {"GROQ": OWN}, True, "GROQ byok"),
]


@pytest.mark.parametrize(("listed", "byok", "net", "expected"), CASES)
def test_a_call_may_use(listed: Model, byok: dict[str, Byok], net: bool, expected: str) -> None:
    when = When("gpt", byok=byok)
    workspace = replace(when.workspace, safety_net=net)
    route = choose_route(RequestFacts("gpt", when.fields), workspace, ModelNames({"gpt": listed}), PROVIDERS)
    assert ", ".join(f"{one.model.provider.name} {one.mode}" for one in route.targets) == expected
    assert {one.model.slug for one in route.targets} == {"gpt"}
    assert all(one.is_fallback == (one.mode == "payg" and bool(byok) and net) for one in route.targets)


@pytest.mark.parametrize(
    ("listed", "byok", "code"),
    [
        (model("OPENAI", "GROQ"), {"GROQ": LOST}, "invalid_state"),
        (model("OPENAI", "GROQ", byok_only=True), {}, "byok_required"),
        (model("BARE", "BARE"), {}, "byok_required"),
    ],
)
def test_where_no_place_is_left_the_refusal_is_that_of_one(
    listed: Model, byok: dict[str, Byok], code: str
) -> None:
    when = When("gpt", byok=byok)
    with pytest.raises(Refusal) as refused:
        choose_route(RequestFacts("gpt", when.fields), when.workspace, ModelNames({"gpt": listed}), PROVIDERS)
    assert refused.value.code == code


def test_a_model_needs_an_own_key_where_no_place_has_a_platform_key() -> None:
    assert not model("BARE", "GROQ").needs_own_key
    assert model("BARE").needs_own_key


def test_a_model_for_long_prompts_is_no_others_turn() -> None:
    when = When("gpt")
    workspace = replace(when.workspace, context_fallback_model="llama")
    route = choose_route(RequestFacts("gpt", when.fields), workspace, NAMES, PROVIDERS)
    assert [one.model.slug for one in route.targets] == ["gpt"]
    assert [(one.model.slug, one.is_fallback) for one in route.long_prompt_targets] == [("llama", True)]


@pytest.mark.parametrize(("net", "allowed"), [(True, ["llama"]), (False, [])])
def test_a_call_with_an_own_key_goes_to_the_platforms_long_window_by_the_safety_net_only(
    net: bool, allowed: list[str]
) -> None:
    when = When("gpt", byok={"OPENAI": OWN})
    workspace = replace(when.workspace, context_fallback_model="llama", safety_net=net)
    route = choose_route(RequestFacts("gpt", when.fields), workspace, NAMES, PROVIDERS)
    assert [one.model.slug for one in route.long_prompt_targets] == allowed
