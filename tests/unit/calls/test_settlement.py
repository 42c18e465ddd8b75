"""The usage and cost of a settled call: the provider's counts, or an estimate that counts nothing twice."""

import json
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

import pytest
from msgspec import structs
from rig.ledger import answered_exchange, upstream_attempt

from addon.answers.context import AnswerContext
from addon.apis.chat.request import parse_chat_request
from addon.calls import settlement
from addon.calls.call_state import Call
from addon.dialects import openai
from addon.dialects.anthropic import dialect as anthropic
from addon.dialects.gemini import dialect as gemini
from addon.settings.settings import Settings
from policies.estimate import estimate_prompt_tokens
from policies.exchange import CLIENT_DISCONNECTED, Exchange
from policies.family import Family
from policies.model import Mode
from policies.prices import Prices, Tier
from policies.usage import Usage

GEMINI = Family("gemini", reasoning_beside_completion=True)
PLAIN = Family("plain")
REQUEST = parse_chat_request(b'{"messages":[{"role":"user","content":"hello"}]}')
PROMPT = estimate_prompt_tokens(REQUEST.fields, PLAIN.estimator)


def call_of(exchange: Exchange, **facts: Any) -> Call:
    """Return a call whose attempt has these fields."""
    attempt = upstream_attempt(exchange, **facts)
    return Call(exchange, cast(Settings, None), chat=REQUEST, current=attempt)


def compute_outcome(call: Call, now_s: float) -> dict[str, Any]:
    counted, _ = read_plausible_usage(call)
    return structs.asdict(settlement.compute_outcome(call, call.reader, counted, now_s))


def read_plausible_usage(call: Call) -> tuple[Usage, tuple[str, ...]]:
    return settlement.read_plausible_usage(call, call.reader)


def thought(text: str, **counts: int) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": text, "thought": True}]}
    return {"candidates": [{"index": 0, "content": content}], "usageMetadata": counts}


def usage_of(dialect: Any, family: Family, status: int, *events: dict[str, Any]) -> tuple[Usage, str]:
    relay = dialect.stream(AnswerContext("slug", family))
    for event in events:
        relay.feed(b"data: %b\n\n" % json.dumps(event).encode())
    if status == 200:
        relay.finish()
    exchange = answered_exchange(family, status=status)
    found = compute_outcome(call_of(exchange, reader=relay), now_s=2.0)
    return found["usage"], found["usage_source"]


END = {"candidates": [{"index": 0, "finishReason": "MAX_TOKENS"}]}
COUNTS = {"promptTokenCount": 85, "thoughtsTokenCount": 178, "totalTokenCount": 263}


def test_an_answer_of_thoughts_alone_has_the_providers_count() -> None:
    usage, source = usage_of(
        gemini, GEMINI, 200, thought("Hm. " * 200, **COUNTS), END | {"usageMetadata": COUNTS}
    )
    assert (usage, source) == (Usage(85, 0, 263, reasoning_tokens=178), "provider")


def test_thoughts_that_were_shown_are_estimated_and_those_that_were_not_are_counted() -> None:
    shown = thought("x" * 400, promptTokenCount=85, thoughtsTokenCount=60)
    assert usage_of(gemini, GEMINI, 499, shown) == (Usage(85, 100, 185), "estimated")
    hidden = thought("x" * 400, promptTokenCount=85, thoughtsTokenCount=60)
    del hidden["candidates"][0]["content"]["parts"][0]["thought"]
    under_a_cap_of_100 = Usage(85, 40, 185, reasoning_tokens=60)
    assert usage_of(gemini, GEMINI, 499, hidden) == (under_a_cap_of_100, "estimated")


@pytest.mark.parametrize("output_tokens", [0, 1, 8])
def test_the_running_count_at_the_start_of_a_message_is_not_its_count_when_it_is_cut(
    output_tokens: int,
) -> None:
    message = {"id": "msg_1", "content": [], "usage": {"input_tokens": 9, "output_tokens": output_tokens}}
    usage, source = usage_of(
        anthropic,
        PLAIN,
        499,
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x" * 200}},
    )
    assert (usage, source) == (Usage(9, 50, 59), "estimated")


def test_the_counts_of_openai_shaped_streams_before_they_were_cut_are_kept() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "x" * 200}}], "usage": {"prompt_tokens": 9}}
    usage, source = usage_of(openai, PLAIN, 502, chunk)
    assert (usage, source) == (Usage(9, 50, 59), "estimated")
    chunk["usage"] = {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16}
    assert usage_of(openai, PLAIN, 502, chunk) == (Usage(9, 7, 16), "provider")


@pytest.mark.parametrize(
    ("choices", "uncapped_tokens", "tokens"), [(1, 0, 100), (1, 20, 120), (2, 20, 240), (3, 0, 250)]
)
def test_an_estimate_is_capped_at_the_cap_of_each_choice(
    choices: int, uncapped_tokens: int, tokens: int
) -> None:
    family = Family("plain", uncapped_completion_tokens=uncapped_tokens)
    relay = openai.stream(AnswerContext("slug", family))
    chunk = {"choices": [{"index": 0, "delta": {"content": "x" * 1_000}}]}
    relay.feed(b"data: %b\n\n" % json.dumps(chunk).encode())
    call = call_of(answered_exchange(family, status=502), reader=relay, cap_tokens=100)
    call.chat = parse_chat_request(b'{"messages":[{"role":"user","content":"hello"}],"n":%d}' % choices)
    found = compute_outcome(call, now_s=2.0)
    assert (found["usage"].completion_tokens, found["usage_source"]) == (tokens, "estimated")


def test_an_estimate_beside_reasoning_that_fills_the_cap_has_no_completion() -> None:
    relay = openai.stream(AnswerContext("slug", GEMINI))
    chunk = {
        "choices": [{"index": 0, "delta": {"content": "x" * 200}}],
        "usage": {"prompt_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 120}},
    }
    relay.feed(b"data: %b\n\n" % json.dumps(chunk).encode())
    call = call_of(answered_exchange(GEMINI, status=502), reader=relay, cap_tokens=100)
    usage = compute_outcome(call, now_s=2.0)["usage"]
    assert (usage.completion_tokens, usage.reasoning_tokens, usage.total_tokens) == (0, 120, 129)


@pytest.mark.parametrize(
    ("total_tokens", "prompt_tokens", "source"), [(30, 15, "provider"), (14, PROMPT, "estimated")]
)
def test_a_prompt_that_was_not_counted_is_what_a_total_has_beside_the_output(
    total_tokens: int, prompt_tokens: int, source: str
) -> None:
    counts = {"completion_tokens": 10, "completion_tokens_details": {"reasoning_tokens": 5}}
    usage, found = usage_of(
        openai, GEMINI, 200, {"choices": [], "usage": counts | {"total_tokens": total_tokens}}
    )
    assert (usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens) == (prompt_tokens, 10, 5)
    assert found == source


# --- clients that left ---------------------------------------------------------------------------------------------

UNSEEN = Family("thinker", reasons_unseen=True, tokens_per_s=8)
CHUNK = {"choices": [{"index": 0, "delta": {"content": "x" * 200}}]}
AUDIO = {"choices": [{"index": 0, "delta": {"audio": {"data": "x" * 189}}}]}


def left(
    family: Family = PLAIN, *events: dict[str, Any], has_stalled_client: bool = False, **known: Any
) -> tuple[Usage, str]:
    """Return the usage of a stream that its client left 5 s after the head of the answer, if there was one."""
    relay = openai.stream(AnswerContext("slug", family)) if events or "head_s" in known else None
    for one in events:
        assert relay is not None
        relay.feed(b"data: %b\n\n" % json.dumps(one).encode())
    exchange = answered_exchange(family, status=499, error_code=CLIENT_DISCONNECTED, stream=True)
    call = call_of(exchange, reader=relay, **known)
    if has_stalled_client:
        call.has_stalled_client = True
    found = compute_outcome(call, now_s=15.0)
    return found["usage"], found["usage_source"]


def test_a_request_that_was_not_sent_costs_nothing() -> None:
    assert left(is_sent=False) == (Usage(), "none")


def test_without_a_response_head_output_counts_as_none() -> None:
    assert left(UNSEEN) == (Usage(PROMPT, 0, PROMPT), "estimated")


def test_unseen_reasoning_is_estimated_by_the_time_since_the_head_and_never_beyond_the_cap() -> None:
    assert left(UNSEEN, head_s=10.0) == (Usage(PROMPT, 40, PROMPT + 40), "estimated")
    assert left(UNSEEN, CHUNK, head_s=10.0) == (Usage(PROMPT, 50, PROMPT + 50), "estimated")
    assert left(UNSEEN, head_s=-1_000.0) == (Usage(PROMPT, 100, PROMPT + 100), "estimated")
    assert left(PLAIN, head_s=10.0) == (Usage(PROMPT, 0, PROMPT), "estimated")


def test_a_call_that_the_gateway_cuts_off_is_never_estimated_by_time() -> None:
    assert left(UNSEEN, head_s=10.0, has_stalled_client=True) == (Usage(PROMPT, 0, PROMPT), "estimated")


def test_every_field_that_was_relayed_counts() -> None:
    assert left(PLAIN, AUDIO) == (Usage(PROMPT, 50, PROMPT + 50), "estimated")


def test_a_running_count_is_at_least_the_relayed_text() -> None:
    running = {"prompt_tokens": 9, "completion_tokens": 7}
    assert left(PLAIN, CHUNK | {"usage": running}) == (Usage(9, 50, 59), "estimated")
    running["completion_tokens"] = 70
    assert left(PLAIN, CHUNK | {"usage": running}) == (Usage(9, 70), "provider")


def test_the_count_of_a_finished_stream_is_kept() -> None:
    finish = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    counts = {"prompt_tokens": 9, "completion_tokens": 70, "total_tokens": 79}
    assert left(UNSEEN, CHUNK, finish | {"usage": counts}) == (Usage(9, 70, 79), "provider")


# --- what an estimate is charged at ---------------------------------------------------------------------------------


def left_at(prices: Prices, *events: dict[str, Any], mode: Mode = "payg") -> tuple[Usage, int]:
    """Return the usage and the wholesale cost of a stream that broke off, at these prices."""
    relay = openai.stream(AnswerContext("slug", PLAIN))
    for one in events:
        relay.feed(b"data: %b\n\n" % json.dumps(one).encode())
    plain = answered_exchange(PLAIN, status=502)
    model = replace(plain.target.model, wholesale=prices, retail=prices)
    exchange = structs.replace(plain, target=replace(plain.target, model=model, mode=mode))
    found = compute_outcome(call_of(exchange, reader=relay), now_s=2.0)
    return found["usage"], found["wholesale_nanousd"]


DEARER = Prices(5_000_000, 5_000_000, 5_000_000)
FLEX = Prices(500_000, 500_000, 500_000)
FLEX_TIER = MappingProxyType({"flex": FLEX})


@pytest.mark.parametrize("usage", [{}, {"usage": None}, {"usage": {"prompt_tokens": 9}}], ids=str)
def test_a_service_tier_counts_in_a_stream_that_breaks_off(usage: dict[str, Any]) -> None:
    prices = Prices(1_000_000, 1_000_000, 1_000_000, service_tiers=FLEX_TIER)
    named = CHUNK | usage | {"service_tier": "flex"}
    found, cost_nanousd = left_at(prices, named, CHUNK)
    assert found.service_tier == "flex"
    assert found.prompt_tokens == (9 if usage.get("usage") else PROMPT)
    assert cost_nanousd == 500 * (found.total_tokens or 0)
    assert left_at(prices, CHUNK)[1] == 1_000 * (PROMPT + 50)


def test_a_service_tier_alone_is_no_usage() -> None:
    start = {"choices": [{"index": 0, "delta": {"role": "assistant"}}], "service_tier": "flex"}
    assert usage_of(openai, PLAIN, 502, start) == (Usage(), "none")
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    assert usage_of(openai, PLAIN, 200, start, end) == (Usage(), "none")


@pytest.mark.parametrize(
    ("bound", "tokens", "is_dearer"),
    [
        (PROMPT, PROMPT, False),
        (PROMPT - 1, PROMPT - 1, False),
        (PROMPT * 10 // 16, PROMPT * 10 // 16, False),
        (PROMPT * 10 // 16 - 1, PROMPT, True),
    ],
)
def test_an_estimate_meets_no_tier_that_the_prompt_hardly_reached(
    bound: int, tokens: int, is_dearer: bool
) -> None:
    prices = Prices(1_000_000, 1_000_000, 1_000_000, tiers=(Tier(bound, DEARER),))
    price = 5_000 if is_dearer else 1_000
    assert left_at(prices, CHUNK) == (Usage(tokens, 50, tokens + 50), price * (tokens + 50))
    only_completion = CHUNK | {"usage": {"completion_tokens": 7}}
    assert left_at(prices, only_completion) == (Usage(tokens, 7, tokens + 7), price * (tokens + 7))
    counted = CHUNK | {"usage": {"prompt_tokens": PROMPT + 1, "completion_tokens": 7}}
    assert left_at(prices, counted)[1] == 5_000 * (PROMPT + 8)


def test_an_estimate_goes_by_the_tiers_of_the_service_that_was_named() -> None:
    flex = replace(FLEX, tiers=(Tier(PROMPT - 1, DEARER),))
    prices = Prices(1_000_000, 1_000_000, 1_000_000, service_tiers={"flex": flex})
    assert left_at(prices, CHUNK)[0].prompt_tokens == PROMPT
    assert left_at(prices, CHUNK | {"service_tier": "flex"})[0].prompt_tokens == PROMPT - 1


def test_an_own_key_has_the_whole_estimate() -> None:
    prices = Prices(1, 1, 1, tiers=(Tier(PROMPT - 1, DEARER),))
    assert left_at(prices, CHUNK, mode="byok") == (Usage(PROMPT, 50, PROMPT + 50), 0)


# --- implausible counts ------------------------------------------------------------------------------------------

MOST = 10 * 100


@pytest.mark.parametrize(
    ("reported", "kept", "implausible"),
    [
        ({"prompt_tokens": 9, "completion_tokens": MOST}, (Usage(9, MOST), "provider"), ()),
        (
            {"prompt_tokens": 9, "completion_tokens": MOST + 1},
            (Usage(9, 50, 59), "estimated"),
            ("completion_tokens",),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": -1},
            (Usage(9, 50, 59), "estimated"),
            ("completion_tokens",),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": float("inf")},
            (Usage(9, 50, 59), "estimated"),
            ("completion_tokens",),
        ),
        ({"prompt_tokens": 20_000_000, "completion_tokens": 7}, (Usage(20_000_000, 7), "provider"), ()),
        (
            {"prompt_tokens": 10**30, "completion_tokens": 7},
            (Usage(PROMPT, 7, PROMPT + 7), "estimated"),
            ("prompt_tokens",),
        ),
        ({"prompt_tokens": 9.0, "completion_tokens": "7"}, (Usage(9, 7), "provider"), ()),
        ({"completion_tokens": 7}, (Usage(PROMPT, 7, PROMPT + 7), "estimated"), ()),
        ({"completion_tokens": 7, "total_tokens": 16}, (Usage(9, 7, 16), "provider"), ()),
        ({"prompt_tokens": 0, "completion_tokens": 0}, (Usage(0, 0), "provider"), ()),
    ],
)
def test_counts_are_plausible_up_to_ten_times_what_the_model_could_make(
    reported: dict[str, Any], kept: tuple[Usage, str], implausible: tuple[str, ...]
) -> None:
    relay = openai.whole(AnswerContext("slug", PLAIN), 10_000)
    message = {"role": "assistant", "content": "x" * 200}
    answer = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": reported}
    relay.feed(json.dumps(answer).replace("Infinity", "1e999").encode())
    relay.finish()
    call = call_of(answered_exchange(PLAIN), reader=relay)
    found = compute_outcome(call, now_s=2.0)
    assert (found["usage"], found["usage_source"]) == kept
    assert read_plausible_usage(call)[1] == implausible


def test_a_clients_own_small_cap_makes_no_count_implausible() -> None:
    relay = openai.stream(AnswerContext("slug", PLAIN))
    relay.feed(b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":900}}\n\n')
    call = call_of(answered_exchange(PLAIN), reader=relay, cap_tokens=1)
    assert read_plausible_usage(call) == (Usage(9, 900), ())


@pytest.mark.parametrize(
    ("dialect", "answer"),
    [
        (
            anthropic,
            {
                "content": [{"type": "text", "text": "x" * 200}],
                "usage": {"input_tokens": -5, "cache_read_input_tokens": 100, "output_tokens": 1e30},
            },
        ),
        (
            gemini,
            {
                "candidates": [{"content": {"parts": [{"text": "x" * 200}]}, "finishReason": "STOP"}],
                "usageMetadata": {
                    "promptTokenCount": -5,
                    "toolUsePromptTokenCount": 100,
                    "candidatesTokenCount": 1e30,
                },
            },
        ),
    ],
)
def test_no_dialect_makes_a_plausible_count_of_an_implausible_one(
    dialect: Any, answer: dict[str, Any]
) -> None:
    relay = dialect.whole(AnswerContext("slug", PLAIN), 10_000)
    relay.feed(json.dumps(answer).encode())
    relay.finish()
    call = call_of(answered_exchange(PLAIN), reader=relay)
    usage, names = read_plausible_usage(call)
    assert (usage.prompt_tokens, usage.completion_tokens) == (None, None)
    assert {"prompt_tokens", "completion_tokens"} <= set(names)
    assert compute_outcome(call, now_s=2.0)["usage"].completion_tokens == 50


def test_no_client_gets_a_count_that_is_no_number_of_tokens() -> None:
    relay = anthropic.whole(AnswerContext("slug", PLAIN), 10_000)
    counts = {"input_tokens": 9, "output_tokens": -5}
    relay.feed(json.dumps({"content": [{"type": "text", "text": "x"}], "usage": counts}).encode())
    assert json.loads(relay.finish())["usage"] == {"prompt_tokens": 9}
