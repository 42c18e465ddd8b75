"""What the sandbox says: a request in, choices and token counts out, the same for the same request every time. Pure.

A token is a word or a punctuation mark, with the white space before it.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Literal

from addon.sandbox.directives import DirectiveError
from addon.sandbox.request import REASONER_MODEL, Message, NamedTool, SandboxRequest, Tool
from addon.sandbox.schema import plain_value

TOKENS_OF_OTHER_PART = 85
"""What a part that is not text counts as."""

MAX_ECHO_CHARS = 400
MAX_COUNTED_CHARS = 100_000
"""How much text is counted token by token: a prompt of 32 MB must not hold up the worker."""
MAX_REASONING = {"none": 0, "minimal": 1, "low": 1, "medium": 2, "high": 3}
"""How many sentences of reasoning each ``reasoning_effort`` allows."""

type FinishReason = Literal["stop", "length", "tool_calls"]

_TOKEN = re.compile(r"\s*+(?:\w++|[^\w\s])?+")


@dataclass(frozen=True, slots=True)
class Piece:
    """One token of a choice; ``call`` says which of its tool calls an argument belongs to."""

    kind: Literal["reasoning", "content", "arguments"]
    text: str
    call: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer, token by token. ``calls`` are the names of the tools it calls."""

    index: int
    pieces: tuple[Piece, ...]
    calls: tuple[str, ...]
    finish_reason: FinishReason

    def text(self, kind: str, call: int = 0) -> str:
        """All text of one kind."""
        return "".join(piece.text for piece in self.pieces if piece.kind == kind and piece.call == call)


@dataclass(frozen=True, slots=True)
class Counts:
    """The token counts of an answer. ``cached`` are the tokens of the system messages."""

    prompt: int
    cached: int
    completion: int
    reasoning: int


def split_tokens(text: str) -> Iterator[str]:
    """Yield the tokens of ``text``, whose sum is ``text``; white space at its end counts as one."""
    return (found[0] for found in _TOKEN.finditer(text) if found[0])


def count_tokens(*texts: str) -> int:
    """Return how many tokens ``texts`` have together; beyond ``MAX_COUNTED_CHARS``, four characters are one."""
    left, count = MAX_COUNTED_CHARS, 0
    for text in texts:
        looked_at = text[:left]
        left -= len(looked_at)
        count += sum(1 for _ in split_tokens(looked_at)) + (len(text) - len(looked_at)) // 4
    return count


def choices_of(request: SandboxRequest) -> tuple[Choice, ...]:
    """Return the answers to ``request``, ``n`` of them, before anything is silenced. Raises ``DirectiveError``."""
    return tuple(_choice(request, index) for index in range(request.body.n or 1))


def counts_of(request: SandboxRequest, choices: tuple[Choice, ...]) -> Counts:
    """Return the token counts of ``choices`` as the answer to ``request``."""
    body = request.body
    cached = [message for message in body.messages if message.role in ("system", "developer")]
    others = [message for message in body.messages if message.role not in ("system", "developer")]
    cached_tokens = _tokens_of(cached)
    tools = count_tokens(*(tool.model_dump_json() for tool in body.tools or ()))
    generated = [piece.kind for choice in choices for piece in choice.pieces]
    return Counts(
        prompt=cached_tokens + _tokens_of(others) + tools,
        cached=cached_tokens,
        completion=len(generated),
        reasoning=generated.count("reasoning"),
    )


def _tokens_of(messages: list[Message]) -> int:
    calls = [call.function for message in messages for call in message.tool_calls or ()]
    texts = [*(message.text for message in messages), *(f"{call.name} {call.arguments}" for call in calls)]
    others = sum(message.other_parts for message in messages)
    return count_tokens(*texts) + others * TOKENS_OF_OTHER_PART


def _choice(request: SandboxRequest, index: int) -> Choice:
    tools = _tools_to_call(request)
    pieces = [Piece("reasoning", token) for token in split_tokens(_reasoning(request))]
    if tools:
        for position, tool in enumerate(tools):
            arguments = json.dumps(plain_value(tool.function.parameters) or {})
            pieces += [Piece("arguments", token, position) for token in split_tokens(arguments)]
    else:
        pieces += [Piece("content", token) for token in _content(request, index)]
    kept = tuple(pieces[: request.cap])
    ended: FinishReason = "tool_calls" if tools else "stop"
    reached = 1 + max((piece.call for piece in kept if piece.kind == "arguments"), default=-1)
    return Choice(
        index,
        kept,
        tuple(tool.function.name for tool in tools[:reached]),
        "length" if len(kept) < len(pieces) else ended,
    )


def _tools_to_call(request: SandboxRequest) -> list[Tool]:
    body = request.body
    tools = {tool.function.name: tool for tool in body.tools or ()}
    if isinstance(body.tool_choice, NamedTool):
        return [tools[body.tool_choice.function.name]]
    if not tools or body.tool_choice == "none":
        if request.directives.tools:
            raise DirectiveError("[[tool]] needs tools, and a tool_choice that allows them.")
        return []
    required = body.tool_choice == "required"
    if body.messages[-1].role == "tool" and not required:
        return []
    wanted = _asked_for(request, tools) or _mentioned(request.asked, tools)
    wanted = wanted or ([next(iter(tools))] if required else [])
    return [tools[name] for name in wanted[: 1 if body.parallel_tool_calls is False else None]]


def _asked_for(request: SandboxRequest, tools: dict[str, Tool]) -> list[str]:
    names = [name or next(iter(tools)) for name in request.directives.tools]
    if unknown := [name for name in names if name not in tools]:
        raise DirectiveError(f"[[tool:{unknown[0]}]] names no tool of this request.")
    return names


def _mentioned(text: str, tools: dict[str, Tool]) -> list[str]:
    """The tools whose names stand in ``text`` as whole words, in the order of their first mention."""
    found = {name: re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) for name in tools}
    at = {name: match.start() for name, match in found.items() if match}
    return sorted(at, key=lambda name: at[name])


def _content(request: SandboxRequest, index: int) -> Iterator[str]:
    text = _unstopped(request, index)
    ends = [at for stop in request.stops if (at := text.find(stop)) >= 0]
    return split_tokens(text[: min(ends, default=len(text))])


def _unstopped(request: SandboxRequest, index: int) -> str:
    wanted = request.body.response_format
    text = _reply(request, index)
    if wanted and wanted.type == "json_schema":
        return json.dumps(plain_value(wanted.json_schema.schema_))
    if wanted and wanted.type == "json_object":
        return json.dumps({"answer": text}, ensure_ascii=False)
    length = request.directives.numbers.get("tokens")
    return text if length is None else "".join(_of_length(text, length))


def _of_length(text: str, length: int) -> Iterator[str]:
    endless = (token for part in cycle([text, " And so on."]) for token in split_tokens(part))
    return islice(endless, length)


def _reply(request: SandboxRequest, index: int) -> str:
    """One short text that tells a newcomer what has arrived."""
    body, last = request.body, request.body.messages[-1]
    which = f"(Answer {index + 1} of {body.n}.) " if (body.n or 1) > 1 else ""
    if last.role == "tool":
        return f"{which}The tool answered: {_quoted(last.text)}"
    count = len(body.messages)
    seen = f" I was sent {count} messages." if count > 1 else ""
    others = sum(message.other_parts for message in body.messages)
    parts = f" {others} of their parts are not text." if others else ""
    return f"{which}This is the built-in sandbox; no model was asked. You wrote: {_quoted(request.asked)}{seen}{parts}"


def _reasoning(request: SandboxRequest) -> str:
    if request.body.model != REASONER_MODEL:
        return ""
    sentences = (
        f"The user wrote {count_tokens(request.asked)} tokens.",
        "There is no model behind the sandbox, so there is nothing to find out.",
        "It is best to repeat what was asked, and to say so.",
    )
    return " ".join(sentences[: MAX_REASONING[request.body.reasoning_effort or "medium"]])


def _quoted(text: str) -> str:
    return f"“{text if len(text) <= MAX_ECHO_CHARS else text[:MAX_ECHO_CHARS] + '…'}”"
