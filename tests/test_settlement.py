"""What an answer is booked with: the provider's counts as they are, or an estimate that counts nothing twice."""

import json
from typing import Any, cast

import pytest
from rig.ledger import answered_exchange

from addon.call import Call
from addon.chat import parse_chat_request
from addon.dialects import anthropic, gemini, openai
from addon.settings import Settings
from addon.settlement import outcome
from addon.source import Source
from policies.facts import Family, Usage

GEMINI = Family("gemini", reasoning_beside_completion=True)
PLAIN = Family("plain")
REQUEST = parse_chat_request(b'{"messages":[{"role":"user","content":"hello"}]}')


def thought(text: str, **counts: int) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": text, "thought": True}]}
    return {"candidates": [{"index": 0, "content": content}], "usageMetadata": counts}


def booked(dialect: Any, family: Family, status: int, *events: dict[str, Any]) -> tuple[Usage, str]:
    relay = dialect.stream(Source("slug", family))
    for event in events:
        relay.feed(b"data: %b\n\n" % json.dumps(event).encode())
    if status == 200:
        relay.finish()
    exchange = answered_exchange(family, status=status)
    found = outcome(Call(exchange, cast(Settings, None), request=REQUEST, relay=relay))
    return found["usage"], found["usage_source"]


END = {"candidates": [{"index": 0, "finishReason": "MAX_TOKENS"}]}
COUNTS = {"promptTokenCount": 85, "thoughtsTokenCount": 178, "totalTokenCount": 263}


def test_an_answer_of_thoughts_alone_is_booked_as_it_was_counted() -> None:
    usage, source = booked(
        gemini, GEMINI, 200, thought("Hm. " * 200, **COUNTS), END | {"usageMetadata": COUNTS}
    )
    assert (usage, source) == (Usage(85, 0, 263, reasoning_tokens=178), "provider")


def test_thoughts_that_were_shown_are_estimated_and_those_that_were_not_are_counted() -> None:
    shown = thought("x" * 400, promptTokenCount=85, thoughtsTokenCount=60)
    assert booked(gemini, GEMINI, 499, shown) == (Usage(85, 100, 185), "estimated")
    hidden = thought("x" * 400, promptTokenCount=85, thoughtsTokenCount=60)
    del hidden["candidates"][0]["content"]["parts"][0]["thought"]
    under_a_cap_of_100 = Usage(85, 40, 185, reasoning_tokens=60)
    assert booked(gemini, GEMINI, 499, hidden) == (under_a_cap_of_100, "estimated")


@pytest.mark.parametrize("output_tokens", [0, 1, 8])
def test_the_running_count_at_the_start_of_a_message_is_no_count_of_one_that_was_cut(
    output_tokens: int,
) -> None:
    message = {"id": "msg_1", "content": [], "usage": {"input_tokens": 9, "output_tokens": output_tokens}}
    usage, source = booked(
        anthropic,
        PLAIN,
        499,
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x" * 200}},
    )
    assert (usage, source) == (Usage(9, 50, 59), "estimated")


def test_what_openai_shaped_streams_counted_before_they_were_cut_is_kept() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "x" * 200}}], "usage": {"prompt_tokens": 9}}
    usage, source = booked(openai, PLAIN, 502, chunk)
    assert (usage, source) == (Usage(9, 50, 59), "estimated")
    chunk["usage"] = {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16}
    assert booked(openai, PLAIN, 502, chunk) == (Usage(9, 7, 16), "provider")
