"""Anthropic's own count of a prompt. Pure. Source: Anthropic, API reference, "Count tokens in a Message"."""

from typing import Final

import msgspec

from addon.dialects.anthropic.native import VERSION, make_body, make_call_headers
from addon.dialects.endpoint import json_request
from addon.dialects.http_request import UpstreamRequest
from addon.dialects.native_request import NativeRequest
from policies.route import Target

_COUNTED: Final = frozenset(
    {
        *("model", "system", "messages", "tools", "tool_choice", "thinking", "output_config"),
        *("cache_control", "context_management"),
    }
)


class _Answer(msgspec.Struct):
    input_tokens: int


_decode: Final = msgspec.json.Decoder(_Answer).decode


def request(target: Target, native: NativeRequest, hosted_tools: frozenset[str]) -> UpstreamRequest:
    """Build ``POST {base_url}/messages/count_tokens``: of the request as it would be sent, what is part of the prompt.

    Raises Refusal ``validation_failed`` as for the request itself.
    """
    body = make_body(target.model, native.body, None, hosted_tools, [])
    counted = {name: value for name, value in body.items() if name in _COUNTED}
    call_headers = make_call_headers(target, native)
    return json_request(
        target, "/messages/count_tokens", counted, streams=False, headers=VERSION, call_headers=call_headers
    )


def read(content: bytes) -> int | None:
    """Return the count in an answer, None where there is none."""
    try:
        tokens = _decode(content).input_tokens
    except (msgspec.MsgspecError, ValueError):
        return None
    return tokens if tokens >= 0 else None
