"""Bodies of chat requests, read as the gateway reads them."""

import json
from typing import Any

from addon.apis.chat.request import ChatRequest, parse_chat_request
from policies.refusal import Refusal

HELLO = [{"role": "user", "content": "hello"}]


def encoded(**fields: Any) -> bytes:
    return json.dumps({"messages": HELLO} | fields).encode()


def read(body: bytes) -> ChatRequest | Refusal:
    try:
        return parse_chat_request(body)
    except Refusal as refusal:
        return refusal


def refused(body: bytes) -> Refusal:
    outcome = read(body)
    assert isinstance(outcome, Refusal)
    return outcome


# Every field of the contract's request table, in its order.
CONTRACT = [
    "messages", "model", "temperature", "top_p", "max_tokens", "max_completion_tokens", "n", "presence_penalty",
    "frequency_penalty", "seed", "stop", "logprobs", "top_logprobs", "tools", "tool_choice", "parallel_tool_calls",
    "response_format", "stream", "logit_bias", "user",
]  # fmt: skip
NAMED_APART = {"model", "stream", "max_tokens", "max_completion_tokens"}
