"""The sandbox's reply to a request: its text, its reasoning and the tools that it calls, with token counts. Pure.

A token is a word or a punctuation mark, with the white space before it.
"""

import json
import re
from collections.abc import Iterator
from itertools import chain, cycle, islice

from addon.sandbox.request import REASONER_MODEL, ChatRequest, Tool, directive_error
from addon.sandbox.schema import simplest_value

MAX_QUOTED_CHARS = 400
MAX_COUNTED_CHARS = 100_000
"""The number of characters that are counted token by token: a prompt of 32 MB must not hold up the worker."""

_TOKEN = re.compile(r"\s*+(?:\w++|[^\w\s])?+")
_SENTENCES = {"none": 0, "minimal": 1, "low": 1, "medium": 2, "high": 3}


def split_tokens(text: str) -> Iterator[str]:
    """Yield the tokens of ``text``; white space at its end is one token."""
    return (found[0] for found in _TOKEN.finditer(text) if found[0])


def count_tokens(*texts: str) -> int:
    """Return the number of tokens in ``texts``; beyond ``MAX_COUNTED_CHARS``, four characters are one."""
    chars_left, count = MAX_COUNTED_CHARS, 0
    for text in texts:
        counted = text[:chars_left]
        chars_left -= len(counted)
        count += sum(1 for _ in split_tokens(counted)) + (len(text) - len(counted)) // 4
    return count


def reasoning(request: ChatRequest) -> str:
    """Return the reasoning text; ``reasoning_effort`` sets its number of sentences."""
    if request.model != REASONER_MODEL:
        return ""
    sentences = (
        f"The user wrote {count_tokens(request.directives.text)} tokens.",
        "There is no model behind the sandbox, so there is nothing to find out.",
        "It is best to repeat what was asked, and to say so.",
    )
    return " ".join(sentences[: _SENTENCES[request.reasoning_effort or "medium"]])


def content(request: ChatRequest, index: int) -> str:
    """Return the text of choice ``index``, up to the first stop sequence."""
    text = _full_content(request, index)
    stops = [request.stop] if isinstance(request.stop, str) else request.stop or []
    return text[: min((text.find(stop) for stop in stops if stop and stop in text), default=None)]


def _full_content(request: ChatRequest, index: int) -> str:
    text, format_ = _answer(request, index), request.response_format
    if format_ and format_.type == "json_schema":
        return json.dumps(simplest_value(format_.json_schema.schema_))
    if format_ and format_.type == "json_object":
        return json.dumps({"answer": text}, ensure_ascii=False)
    if (length := request.directives.numbers.get("tokens")) is None:
        return text
    endless = chain.from_iterable(map(split_tokens, cycle([text, " And so on."])))
    return "".join(islice(endless, length))


def _answer(request: ChatRequest, index: int) -> str:
    """Return a short text that shows a newcomer what arrived."""
    messages = request.messages
    number = f"(Answer {index + 1} of {request.n}.) " if (request.n or 1) > 1 else ""
    if messages[-1].role == "tool":
        return f"{number}The tool answered: {_quoted(messages[-1].text)}"
    count = f" I was sent {len(messages)} messages." if len(messages) > 1 else ""
    others = sum(message.other_parts for message in messages)
    parts = f" {others} of their parts are not text." if others else ""
    quoted = _quoted(request.directives.text)
    return f"{number}This is the built-in sandbox; no model was asked. You wrote: {quoted}{count}{parts}"


def _quoted(text: str) -> str:
    return f"“{text if len(text) <= MAX_QUOTED_CHARS else text[:MAX_QUOTED_CHARS] + '…'}”"


def called_tools(request: ChatRequest) -> list[Tool]:
    """Return the tools to call. Raise ``SandboxError`` when a directive asks for one that the request lacks."""
    tools = {tool.function.name: tool for tool in request.tools or ()}
    choice, is_required = request.tool_choice, request.tool_choice == "required"
    if isinstance(choice, Tool):
        return [tools[choice.function.name]]
    if request.directives.tools and (not tools or choice == "none"):
        raise directive_error("[[tool]] needs tools, and a tool_choice that allows them.")
    if not tools or choice == "none" or (request.messages[-1].role == "tool" and not is_required):
        return []
    first = next(iter(tools))
    asked = [name or first for name in request.directives.tools]
    if unknown := [name for name in asked if name not in tools]:
        raise directive_error(f"[[tool:{unknown[0]}]] names no tool of this request.")
    names = asked or _mentioned(request.directives.text, tools) or [first][: int(is_required)]
    return [tools[name] for name in names[: 1 if request.parallel_tool_calls is False else None]]


def _mentioned(text: str, tools: dict[str, Tool]) -> list[str]:
    """Return the tools that ``text`` names as whole words, in the order of their first mention."""
    found = {name: re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) for name in tools}
    starts = {name: match.start() for name, match in found.items() if match}
    return sorted(starts, key=starts.__getitem__)
