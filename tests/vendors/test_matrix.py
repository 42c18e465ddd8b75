"""Every active model × every call: its vendor accepts what the gateway sends, or the gateway refuses it by name."""

import pytest
from rig.built_requests import Built, active_models, build
from rig.large import large_only, sampled
from rig.vendor_cases import ASKED, CASES, LONG, PIXEL, TOOLS, said
from rig.vendor_matrix import RESULTS, counts, faults, hold, hold_all
from rig.vendors import VENDORS

from policies.model import Model
from policies.refusal import Refusal

MODELS = {model.slug: model for model in active_models()}
SHORT = [case for case in CASES if case not in LONG]


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Model:
    return MODELS[request.param]


@sampled(every=4)
def test_a_vendor_accepts_what_it_is_sent(model: Model) -> None:
    cells = list(hold_all(model, SHORT))
    assert faults(cells) == []
    assert all(cell.why for cell in cells if cell.result == "refused here")


@large_only
def test_a_vendor_accepts_a_long_prompt_with_its_cap(model: Model) -> None:
    assert faults(hold_all(model, LONG)) == []


@pytest.mark.parametrize("slug", ["gpt-oss-120b-groq", "gpt-oss-120b-cerebras"])
def test_a_cap_leaves_room_for_a_prompt_near_the_window(slug: str) -> None:
    assert faults(hold_all(MODELS[slug], LONG)) == []


def test_every_provider_with_active_models_has_a_table() -> None:
    assert {model.provider.name for model in MODELS.values()} == VENDORS.keys()


def test_the_counts_have_a_line_a_provider_and_their_sum() -> None:
    cells = [hold(MODELS[slug], "no cap, streamed") for slug in ("gpt-4o", "command-a", "command-r")]
    head, openai, cohere, both = counts(cells).splitlines()
    assert all(result in head for result in RESULTS)
    assert [line.split() for line in (openai, cohere, both)] == [
        ["OPENAI", "1", "0", "0"],
        ["COHERE", "2", "0", "0"],
        ["all", "3", "0", "0"],
    ]


def sent(slug: str, **fields: object) -> Built:
    made = build({"model": slug, "messages": ASKED, **fields})
    assert isinstance(made, Built), made
    return made


def refused(slug: str, **fields: object) -> Refusal:
    made = build({"model": slug, "messages": ASKED, **fields})
    assert isinstance(made, Refusal), made
    return made


@pytest.mark.parametrize("slug", ["grok-4.20-reasoning", "grok-4.20-non-reasoning", "grok-build-0.1"])
def test_a_grok_without_effort_gets_none(slug: str) -> None:
    made = sent(slug, reasoning_effort="high", logit_bias={"1": 1}, logprobs=True, top_logprobs=20)
    assert made.body.keys().isdisjoint({"reasoning_effort", "logit_bias"})
    assert made.body["top_logprobs"] == 8
    assert made.dropped == "logit_bias, reasoning_effort, top_logprobs"


def test_gemini_3_gives_one_answer_and_says_so() -> None:
    made = sent("gemini-3.5-flash", n=2)
    assert made.body["generationConfig"]["candidateCount"] == 1
    assert made.dropped == "n"


def test_nova_2_lite_has_its_own_maximum() -> None:
    made = sent("nova-2-lite", max_tokens=1_000_000)
    assert made.body["inferenceConfig"]["maxTokens"] == 65_535
    high = {"type": "enabled", "maxReasoningEffort": "high"}
    assert refused("nova-2-lite", reasoningConfig=high).param == "reasoningConfig.maxReasoningEffort"


def test_deepseek_does_not_think_where_the_client_says_none() -> None:
    body = sent("deepseek-v4-pro", reasoning_effort="none").body
    assert body["thinking"] == {"type": "disabled"}
    assert "reasoning_effort" not in body


def test_minimax_gets_one_system_message() -> None:
    made = sent("minimax-m3", messages=[said("system", "a"), said("system", "b"), *ASKED])
    assert [message["role"] for message in made.body["messages"]] == ["system", "user", "user"]


@pytest.mark.parametrize(
    ("slug", "fields", "place"),
    [
        (
            "kimi-k3",
            {
                "messages": [
                    said("user", [{"type": "image_url", "image_url": {"url": "https://example.com/a"}}])
                ]
            },
            "messages.0.content.0",
        ),
        (
            "glm-5",
            {"messages": [said("user", [{"type": "image_url", "image_url": PIXEL}])]},
            "messages.0.content.0",
        ),
        ("hermes-4-405b-openrouter", TOOLS, "tools"),
        ("llama-3.3-70b-bedrock", {**TOOLS, "stream": True}, "tools"),
        ("claude-opus-5-5", {"thinking": {"type": "disabled"}}, "thinking.type"),
    ],
)
def test_what_a_model_lacks_is_refused_by_name(slug: str, fields: dict[str, object], place: str) -> None:
    refusal = refused(slug, **fields)
    assert (refusal.code, refusal.param) == ("validation_failed", place)
    assert slug in refusal.message
