"""Recorded requests of all APIs as chat requests, and the tokens that their answers report."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

type Record = Mapping[str, Any]


def chat_fields(record: Record) -> dict[str, Any]:
    """Return the request of ``record`` as a chat-completions body without nulls."""
    request = {key: value for key, value in record["request"].items() if value is not None}
    return _TRANSLATE[record["api"]](request)


def model_of(record: Record) -> str:
    """Return the model of the request, from its body or its path."""
    named = record["request"].get("model")
    in_path = re.search(r"/(?:models|deployments|model)/([^/:?]+)", record["url_path"])
    return str(named).split("/")[-1] if named or not in_path else in_path[1]


def prompt_tokens(record: Record) -> int | None:
    """Return the prompt tokens that the provider reported, with the cached ones, or None if it reported none.

    For Cohere these are the billed tokens: its compatible endpoint reports only these, its own API both.
    """
    counts: dict[str, int] = {}
    for report in _usage_reports(record):
        counts |= {name: count for name, count in report.items() if isinstance(count, int)}
    if "input_tokens" in counts:
        cached = ("cache_read_input_tokens", "cache_creation_input_tokens")
        return counts["input_tokens"] + sum(counts.get(name, 0) for name in cached)
    return counts.get("prompt_tokens", counts.get("promptTokenCount"))


def completion_tokens(record: Record) -> int | None:
    """Return the completion tokens that the provider reported, with reasoning if its text was shown."""
    completion = reasoning = None
    for report in _usage_reports(record):
        details = report.get("completion_tokens_details") or {}
        for name in ("completion_tokens", "output_tokens", "candidatesTokenCount"):
            completion = report.get(name, completion)
        reasoning = details.get("reasoning_tokens", reasoning)
    is_shown = any(str(tag).startswith("reason:") for tag in record.get("tags") or ())
    is_separate = record["provider"] == "xai"
    if completion is None or not reasoning or is_shown is not is_separate:
        return completion
    return completion + reasoning if is_shown else completion - reasoning


def shown_chars(record: Record) -> int | None:
    """Return the characters of a Claude or Gemini answer in its own API, or None if it has thinking.

    These models show only a summary of their thinking.
    """
    parts = [part for payload in payloads(record) for part in _answer_parts(payload)]
    if any("thinking" in part or part.get("thought") for part in parts):
        return None
    texts = [part.get("text") or part.get("partial_json") or "" for part in parts]
    calls = [(part.get("functionCall") or {}).get("args") or part.get("input") or {} for part in parts]
    return sum(map(len, texts)) + sum(len(json.dumps(call)) for call in calls if call)


def _answer_parts(payload: dict[str, Any]) -> list[dict[str, Any]]:
    content = payload.get("content") or []
    for candidate in payload.get("candidates") or ():
        content = content + ((candidate.get("content") or {}).get("parts") or [])
    return [part for part in (*content, payload.get("delta"), payload.get("content_block")) if part]


def payloads(record: Record) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of the answer: the whole answer, the elements of an array, or the data of events."""
    text = record["response_text"]
    found: list[Any] = []
    if text.lstrip()[:1] in ("{", "["):
        answer = json.loads(text.strip().rstrip(",").replace(",\r\n]", "]"))
        found = answer if isinstance(answer, list) else [answer]
    else:
        lines = (line[5:].strip() for line in text.splitlines() if line.startswith("data:"))
        found = [json.loads(line) for line in lines if line and line != "[DONE]"]
    return (payload for payload in found if isinstance(payload, dict))


def _usage_reports(record: Record) -> Iterator[dict[str, Any]]:
    for payload in payloads(record):
        vendor, message, delta = (payload.get(name) or {} for name in ("x_groq", "message", "delta"))
        places = [payload, vendor, message, delta]
        reports = [place.get("usage") for place in places if isinstance(place, dict)]
        for report in [*reports, payload.get("usageMetadata")]:
            if isinstance(report, dict):
                yield report.get("billed_units") or report


def _chat(request: dict[str, Any]) -> dict[str, Any]:
    return request


def _function(name: str, description: str, parameters: Any) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def _call(name: str, arguments: Any, call_id: str = "") -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def _from_anthropic(request: dict[str, Any]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    if system := request.get("system"):
        messages.append({"role": "system", "content": system})
    for message in request["messages"]:
        messages += _anthropic_message(message)
    fields: dict[str, Any] = {"messages": messages}
    if tools := request.get("tools"):
        fields["tools"] = [
            _function(tool["name"], tool.get("description", ""), tool["input_schema"])
            if "input_schema" in tool
            else tool
            for tool in tools
        ]
    response_format = request.get("output_format") or (request.get("output_config") or {}).get("format")
    return fields | ({"response_format": response_format} if response_format else {})


def _anthropic_message(message: dict[str, Any]) -> list[dict[str, Any]]:
    if isinstance(message["content"], str):
        return [message]
    said: dict[str, Any] = {"role": message["role"], "content": []}
    results = []
    for part in message["content"]:
        if part["type"] == "tool_use":
            said.setdefault("tool_calls", []).append(_call(part["name"], part["input"], part["id"]))
        elif part["type"] == "tool_result":
            results.append({"role": "tool", "tool_call_id": part["tool_use_id"], "content": part["content"]})
        elif part["type"] == "thinking":
            said["reasoning_content"] = part["thinking"]
        else:
            said["content"].append(part)
    return [*results, said] if len(said) > 2 or said["content"] else results


def _from_gemini(request: dict[str, Any]) -> dict[str, Any]:
    messages = []
    if system := request.get("systemInstruction"):
        messages += _gemini_content(system, "system")
    for content in _listed(request["contents"]):
        messages += _gemini_content(content, None)
    tools = [tool for given in _listed(request.get("tools") or []) for tool in _gemini_tools(given)]
    fields: dict[str, Any] = {"messages": messages} | ({"tools": tools} if tools else {})
    config = request.get("generationConfig") or {}
    schema = config.get("responseSchema") or config.get("responseJsonSchema")
    return fields | ({"response_format": {"type": "json_schema", "json_schema": schema}} if schema else {})


_SCHEMAS = ("parameters", "parametersJsonSchema", "parameters_json_schema")


def _gemini_tools(given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name, value in given.items():
        if name not in ("functionDeclarations", "function_declarations"):
            yield {"type": name, name: value}
            continue
        for made in value:
            parameters = next((made[key] for key in _SCHEMAS if key in made), {})
            yield _function(made["name"], made.get("description", ""), parameters)


def _gemini_content(content: Any, role: str | None) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"role": role or "user", "content": content}]
    given = role or content.get("role") or "user"
    said: dict[str, Any] = {"role": "assistant" if given == "model" else given, "content": []}
    results = []
    for part in _listed(content["parts"]):
        called = part.get("functionCall") or part.get("function_call")
        result = part.get("functionResponse") or part.get("function_response")
        if called:
            signature = {"thought_signature": part.get("thoughtSignature", "")}
            call = _call(called["name"], called.get("args", {})) | {"extra_content": signature}
            said.setdefault("tool_calls", []).append(call)
        elif result:
            text = json.dumps(result["response"])
            results.append({"role": "tool", "tool_call_id": result["name"], "content": text})
        elif "text" in part:
            said["content"].append({"type": "text", "text": part["text"]})
        else:
            said["content"].append({"type": "file", "file": part})
    return [said, *results] if len(said) > 2 or said["content"] else results


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


_TRANSLATE = {
    "openai_chat": _chat,
    "cohere_chat": _chat,
    "anthropic_messages": _from_anthropic,
    "bedrock_invoke_anthropic": _from_anthropic,
    "gemini_generate": _from_gemini,
}
"""The APIs whose recordings this module reads."""
APIS = frozenset(_TRANSLATE)
