"""The response object of an answer and of three events of a stream: settings of the request, and what came. Pure.

Source: OpenAI, API reference, "The response object"; recorded answers, for what a setting is that the request lacks.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from addon.apis.answer_counts import known_count, output_tokens
from addon.apis.responses.custom_tools import Tool, tools_by_chat_name
from addon.apis.writer import WriterContext
from addon.text.json_encode import encode_json
from policies.large_text import LargeText
from policies.usage import Usage

Status = Literal["in_progress", "completed", "incomplete", "failed"]

_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "prompt_cache_key": None,
        "prompt_cache_retention": None,
        "safety_identifier": None,
        "temperature": 1.0,
        "tool_choice": "auto",
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "user": None,
    }
)
_FIXED: Final[Mapping[str, Any]] = MappingProxyType(
    {"background": False, "completed_at": None, "previous_response_id": None, "store": False}
)
"""The gateway keeps no answer, whatever the client asked for."""
_REASONING: Final = MappingProxyType({"effort": None, "summary": None})
_TEXT: Final = MappingProxyType({"format": {"type": "text"}, "verbosity": "medium"})
_SCHEMA: Final = MappingProxyType({"description": None, "strict": False})
_SERVICE_TIERS: Final = frozenset({"auto", "default", "flex", "scale", "priority", "fast", "ultrafast"})


class Repeated(Struct, frozen=True):
    """What an answer repeats of its request: the settings as JSON, and its tools by the names of their functions."""

    settings: bytes
    tools: Mapping[str, Tool]


def prepare(request: Mapping[str, Any]) -> Repeated:
    """Return what an answer repeats of the body ``request``."""
    return Repeated(_encode_settings(_settings(request)), tools_by_chat_name(request))


class ResponseForm:
    """The response object of one call, with what its answer adds. ``tools`` are as in ``Repeated``."""

    def __init__(self, context: WriterContext) -> None:
        self._head = {
            "id": f"resp_{context.call_id}",
            "object": "response",
            "created_at": context.created_s,
            "model": context.model_slug,
        }
        repeated: Repeated = context.prepared or prepare(context.request)
        self._settings, self.tools = repeated.settings, repeated.tools

    def encode(
        self,
        status: Status,
        output: Sequence[Mapping[str, Any]] = (),
        *,
        usage: Mapping[str, Any] | None = None,
        service_tier: str | None = None,
        incomplete_reason: str | None = None,
        error: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Return the object as JSON. ``output`` are its items."""
        came = {
            **self._head,
            "status": status,
            "error": error,
            "incomplete_details": None if incomplete_reason is None else {"reason": incomplete_reason},
            "output": list(output),
            "service_tier": service_tier if service_tier in _SERVICE_TIERS else "default",
            "usage": usage,
        }
        return encode_json(came)[:-1] + b"," + self._settings[1:]


def make_usage(usage: Usage | None, context: WriterContext, text_chars: int) -> dict[str, Any]:
    """Return the counts in this API's words: reasoning is a part of the output, and the total is their sum.

    A count that the provider did not report is estimated: ``text_chars`` is the length of all that was sent.
    """
    known = usage or Usage()
    prompt, output = known_count(known.prompt_tokens), output_tokens(known, text_chars)
    input_tokens = context.prompt_tokens if prompt is None else prompt
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {
            "cache_write_tokens": known_count(known.cache_write_tokens) or 0,
            "cached_tokens": known_count(known.cached_tokens) or 0,
        },
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": known_count(known.reasoning_tokens) or 0},
        "total_tokens": input_tokens + output,
    }


def _settings(request: Mapping[str, Any]) -> dict[str, Any]:
    found = {
        name: default if request.get(name) is None else request[name] for name, default in _DEFAULTS.items()
    }
    reasoning, text = request.get("reasoning"), request.get("text")
    found["reasoning"] = {**_REASONING, **(reasoning if isinstance(reasoning, Mapping) else {})}
    found["text"] = _text(text if isinstance(text, Mapping) else {})
    found["tools"] = [_tool(tool) for tool in request.get("tools") or ()]
    return {**_FIXED, **found}


def _text(given: Mapping[str, Any]) -> dict[str, Any]:
    known = {**_TEXT, **{name: value for name, value in given.items() if value is not None}}
    if known["format"].get("type") == "json_schema":
        known["format"] = _with_defaults(known["format"])
    return known


def _tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"parameters": None, **_with_defaults(tool)} if tool.get("type") == "function" else tool


def _with_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    return {**_SCHEMA, **{name: value for name, value in given.items() if value is not None}}


def _encode_settings(settings: dict[str, Any]) -> bytes:
    """Return the settings as JSON. Of a text that the gateway did not decode, the beginning has to do."""
    try:
        return msgspec.json.encode(settings)
    except TypeError:
        return encode_json(_shortened(settings))
    except UnicodeEncodeError:
        return encode_json(settings)


def _shortened(value: Any) -> Any:
    if isinstance(value, LargeText):
        return value.beginning
    if isinstance(value, dict):
        return {name: _shortened(member) for name, member in value.items()}
    return [_shortened(member) for member in value] if isinstance(value, list) else value
