"""The second attempt of a call, and the failures that allow it: one line for each situation, and general properties."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from rig.routed_calls import (
    GROQ_ON,
    LOST,
    MODELS,
    NAMES,
    OFF,
    ON,
    PROVIDERS,
    SECRETS,
    When,
    situations,
)

from policies.fallback import (
    find_refusal_after_failure,
    find_unserved_reason,
    has_longer_window,
    is_failure,
    is_foreign_reasoning,
    is_too_long,
)
from policies.limits import Counter, Limit
from policies.model import Byok, Model, Workspace
from policies.refusal import Refusal
from policies.request_facts import RequestFacts
from policies.route import Target
from policies.routing import choose_route
from policies.spend import Denial, DenialReason, make_denial_refusal

GROQ_LOST = {"GROQ": Byok(None, routing=True)}


@dataclass(frozen=True)
class After:
    """A call for ``name``, and the fallback model, Safety Net and own keys of its workspace."""

    name: str
    fallback: str | None = None
    net: bool = False
    byok: dict[str, Byok] = field(default_factory=dict)

    @property
    def workspace(self) -> Workspace:
        return replace(When(byok=self.byok).workspace, fallback_model=self.fallback, safety_net=self.net)


def targets(after: After) -> str:
    """Return the route in one line: its targets as ``slug mode``, and the code of its fallback refusal."""
    facts = RequestFacts(after.name, {"messages": [{"role": "user", "content": "hello"}]})
    route = choose_route(facts, after.workspace, NAMES, PROVIDERS)
    made = [f"{target.model.slug} {target.mode}" for target in route.targets]
    return " → ".join([*made, route.fallback_refusal.code] if route.fallback_refusal else made)


SITUATIONS = [
    # With a platform key: the fallback model, with the key that its provider has.
    (After("gpt"), "gpt payg"),
    (After("gpt", "llama"), "gpt payg → llama payg"),
    (After("gpt", "gpt-big"), "gpt payg → gpt-big payg"),
    (After("gpt", "mine"), "gpt payg → mine payg"),
    (After("mine", "gpt"), "mine payg → gpt payg"),
    (After("gpt", "openai/oss"), "gpt payg → openai/oss payg"),
    (After("gpt", "llama", byok=GROQ_ON), "gpt payg → llama byok"),
    (After("gpt", "llama", byok=OFF), "gpt payg → llama payg"),
    (After("llama", "gpt-own", byok=ON), "llama payg → gpt-own byok"),
    (After("gpt", "llama", net=True), "gpt payg → llama payg"),
    # A fallback model that can serve no call is ignored.
    (After("gpt", "gpt"), "gpt payg"),
    (After("gpt", "gpt-old"), "gpt payg"),
    (After("gpt", "gone"), "gpt payg"),
    (After("gpt", "gpt-own"), "gpt payg"),
    (After("gpt", "bare"), "gpt payg"),
    (After("llama", "gpt-own", byok=OFF), "llama payg"),
    (After("gpt", "llama", byok=GROQ_LOST), "gpt payg"),
    # The Safety Net is only for calls with customers' own keys, the fallback model only for calls with platform keys.
    (After("gpt", net=True), "gpt payg"),
    (After("gpt", byok=ON), "gpt byok"),
    (After("gpt", "llama", byok=ON), "gpt byok"),
    # With the customer's own key: the same model with a platform key.
    (After("gpt", net=True, byok=ON), "gpt byok → gpt payg"),
    (After("gpt", "llama", net=True, byok=ON), "gpt byok → gpt payg"),
    (After("gpt-big", net=True, byok=ON), "gpt-big byok → gpt-big payg"),
    (After("llama", net=True, byok=ON), "llama payg"),
    (After("llama", "gpt", net=True, byok=ON), "llama payg → gpt byok"),
    # A row that forbids the Safety Net gives a refusal. A model without a row, or without a key, gives none.
    (After("gpt-own", net=True, byok=ON), "gpt-own byok → byok_required"),
    (After("gpt-own", byok=ON), "gpt-own byok"),
    (After("openai/ft:gpt", net=True, byok=ON), "openai/ft:gpt byok"),
    (After("bare", net=True, byok={"BARE": Byok(SecretStr("customer"), routing=True)}), "bare byok"),
]


@pytest.mark.parametrize(("after", "made"), SITUATIONS, ids=[str(n) for n in range(len(SITUATIONS))])
def test_the_attempt_after_a_failed_one(after: After, made: str) -> None:
    assert targets(after) == made


@pytest.mark.parametrize(
    ("slug", "byok", "why"),
    [
        ("llama", {}, None),
        ("gpt-own", ON, None),
        ("mine", {}, None),
        ("gpt-old", ON, "it is not active"),
        ("gone", ON, "it is not in the catalog"),
        ("gpt-own", {}, "there is no OPENAI key of the workspace's own"),
        ("gpt", LOST, "there is no OPENAI key of the workspace's own"),
        ("bare", {}, "BARE has no platform key"),
    ],
)
def test_a_model_that_serves_no_call_of_a_workspace_has_a_reason(
    slug: str, byok: dict[str, Byok], why: str | None
) -> None:
    assert find_unserved_reason(MODELS.get(slug), After("gpt", slug, byok=byok).workspace) == why


# --- failures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403, 408, 429, 500, 502, 503, 504, 599])
def test_a_failure_of_the_provider_allows_a_fallback(status: int) -> None:
    assert is_failure(status)


@pytest.mark.parametrize("status", [400, 402, 404, 405, 409, 410, 413, 415, 422, 451])
def test_an_error_of_the_client_allows_none_unless_it_is_in_a_success(status: int) -> None:
    assert not is_failure(status)
    assert is_failure(status, in_success=True)


@pytest.mark.parametrize("status", [400, 402, 404, 405, 409, 410, 413, 415, 422, 451])
def test_a_used_up_account_or_a_missing_model_is_a_failure_only_before_the_safety_net(
    status: int,
) -> None:
    assert is_failure(status, before_net=True) is (status in (402, 404))


@pytest.mark.parametrize(
    ("after", "has_net"),
    [
        (After("gpt", net=True, byok=ON), True),
        (After("gpt-own", net=True, byok=ON), True),  # The model forbids it, and the client gets this error.
        (After("gpt", byok=ON), False),
        (After("openai/ft:gpt", net=True, byok=ON), False),
        (After("gpt", "llama", net=True), False),
        (After("llama", "gpt", net=True, byok=ON), False),
    ],
)
def test_a_route_knows_whether_the_safety_net_follows(after: After, has_net: bool) -> None:
    asked = RequestFacts(after.name, {"messages": [{"role": "user", "content": "hello"}]})
    assert choose_route(asked, after.workspace, NAMES, PROVIDERS).has_safety_net is has_net


# --- a limit without room -----------------------------------------------------------------


NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
CAP = Limit("monthly_spend_cap", Counter("workspace:acme", "2026-11"), 0)


def refusal_for(
    reason: DenialReason, mode: Any, slug: str = "gpt", following_mode: Any = "payg"
) -> Refusal | None:
    failed = Target(MODELS["gpt"], mode, SecretStr(""))
    following = Target(MODELS[slug], following_mode, SecretStr(""))
    return find_refusal_after_failure(Denial(reason, CAP), failed, following, NOON)


@pytest.mark.parametrize("reason", [*get_args(DenialReason)[0].__args__, "budget", "budget_of_prompt"])
def test_a_limit_without_room_for_the_safety_net_is_the_refusal(reason: DenialReason) -> None:
    refusal = refusal_for(reason, "byok")
    assert refusal
    usual = make_denial_refusal(Denial(reason, CAP), NOON)
    assert (refusal.code, refusal.retry_after_s) == (usual.code, 12 * 3600)
    assert refusal.message.startswith(usual.message[:20])
    assert refusal.message.endswith("; cannot use the Safety Net fallback.")
    assert refusal_for(reason, "payg") is None


def test_a_limit_without_room_for_anything_else_leaves_the_first_failure() -> None:
    # A further place with the customer's own key, and a model for long prompts, are no Safety Net.
    assert refusal_for("request_cap", "byok", following_mode="byok") is None
    assert refusal_for("wallet", "byok", slug="llama") is None


def test_the_refusal_for_the_month_has_the_words_of_the_contract() -> None:
    refusal = refusal_for("monthly_spend_cap", "byok")
    assert refusal
    assert refusal.message == "Monthly spend limit reached; cannot use the Safety Net fallback."


# --- properties of every situation -----------------------------------------------------------------------------


@given(situations(), st.none() | st.sampled_from(sorted(MODELS)), st.booleans())
def test_a_second_attempt_differs_from_the_first_and_is_allowed(
    when: When, slug: str | None, net: bool
) -> None:
    workspace = replace(when.workspace, fallback_model=slug, safety_net=net)
    asked = RequestFacts(when.name, when.fields)
    with suppress(Refusal):
        route = choose_route(asked, workspace, NAMES, PROVIDERS)
        first, *others = route.targets
        assert (first.model, first.mode, route.decided_by) == _alone(when)
        assert not first.is_fallback
        assert len(others) <= 1
        assert not (others and route.fallback_refusal)
        assert (route.no_fallback_reason is None) == bool(others)
        for second in others:
            assert second.is_fallback
            assert second.model.active
            assert second.model.slug in MODELS
            assert (second.model, second.mode) != (first.model, first.mode)
            assert second.mode == "byok" or not second.model.byok_only
            secret = SECRETS[second.mode, second.model.provider.auth]
            assert second.secret.get_secret_value() == secret
            if first.mode == "byok":
                assert (net, second.model, second.mode) == (True, first.model, "payg")
            else:
                assert second.model.slug == slug


def _alone(when: When) -> tuple[Any, Any, str]:
    route = choose_route(RequestFacts(when.name, when.fields), when.workspace, NAMES, PROVIDERS)
    [only] = route.targets
    return only.model, only.mode, route.decided_by


TOO_LONG = {
    "OpenAI": "This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 tokens.",
    "OpenAI, newer": "Input tokens exceed the configured limit of 272000 tokens.",
    "Anthropic": "prompt is too long: 200016 tokens > 200000 maximum",
    "Anthropic, with the cap": "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000",
    "Google": "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
    "Mistral": "Prompt contains 300000 tokens, too large for model with 131072 maximum context length",
    "Moonshot": "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)",
    "Fireworks": "The prompt is too long: 40177, model maximum context length: 32767",
    "OpenRouter": "This endpoint's maximum context length is 131072 tokens. However, you requested 138956 tokens.",
    "Z.ai": "Prompt exceeds max length",
    "MiniMax": "invalid params, context window exceeds limit (2013)",
    "Groq": "Please reduce the length of the messages or completion.",
    "xAI": "This model's maximum prompt length is 131072 but the request contains 625078 tokens.",
    "Bedrock": "Input is too long for requested model.",
}


def windowed(window: int | None) -> Model:
    return replace(MODELS["gpt"], context_window=window)


@pytest.mark.parametrize("vendor", TOO_LONG)
@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_prompt_that_is_too_long_may_fit_into_a_larger_window(vendor: str, status: int) -> None:
    assert is_too_long(status, TOO_LONG[vendor])
    assert has_longer_window(windowed(1001), windowed(1000))


@pytest.mark.parametrize(
    ("status", "message", "is_foreign"),
    [
        (400, "The encrypted content gAAA… could not be verified. Reason: it is of another key.", True),
        (400, "Encrypted content could not be decrypted or parsed.", True),
        (400, "invalid_encrypted_content", True),
        (500, "Encrypted content could not be decrypted or parsed.", False),
        (400, "Encrypted content is not supported with this model.", False),
    ],
)
def test_reasoning_of_another_vendor_is_known_by_the_words_for_it(
    status: int, message: str, is_foreign: bool
) -> None:
    assert is_foreign_reasoning(status, message) is is_foreign


@pytest.mark.parametrize(
    ("failed", "following"), [(1000, 1000), (1000, 999), (None, 1000), (1000, None), (None, None)]
)
def test_it_fits_no_window_that_is_not_known_to_be_larger(failed: int | None, following: int | None) -> None:
    assert not has_longer_window(windowed(following), windowed(failed))


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "temperature: range: 0..1"),
        (400, "max_tokens is too large: 300000. This model supports at most 16384 completion tokens."),
        (400, "Invalid value for 'max_tokens': integer above maximum value."),
        (429, "Request too large for gpt-4o: Limit 30000 tokens per minute, Requested 40000."),
        (404, TOO_LONG["OpenAI"]),
    ],
)
def test_any_other_error_of_the_client_stands(status: int, message: str) -> None:
    assert not is_too_long(status, message)
