"""The requests that the sandbox accepts, their directives, and its errors. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

CHAT_MODEL = "sandbox-chat-001"
REASONER_MODEL = "sandbox-reasoner-001"

NUMBERS = {"status": (400, 599), "delay": (0, 60_000), "pace": (0, 5_000), "tokens": (0, 4_096)}
"""Directives that take a whole number, with the lowest and the highest one."""
FLAGS = frozenset({"drop", "silent", "error-in-stream", "error-200", "no-done", "no-usage"})
NAMES = frozenset({*NUMBERS, *FLAGS, "tool"})
STREAM_ONLY = frozenset({"pace", "error-in-stream", "no-done"})

_DIRECTIVE = re.compile(r"\[\[([a-z][a-z0-9-]{0,20})(?::([^\[\]\n]{1,80}))?\]\] ?")


class SandboxError(Exception):
    """An error that the sandbox answers with; ``body`` is OpenAI's error object."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        type_ = "requests" if status == 429 else "invalid_request_error" if status < 500 else "server_error"
        self.body = {"error": {"message": message, "type": type_, "param": param, "code": code}}


def directive_error(message: str, param: str = "messages") -> SandboxError:
    """Return the error of a directive that the sandbox can't follow."""
    return SandboxError(400, message, param, "invalid_directive")


@dataclass(frozen=True, slots=True)
class Directives:
    """The directives of a message, and its ``text`` without them. In ``tools``, "" means the first tool."""

    text: str
    numbers: dict[str, int]
    flags: frozenset[str]
    tools: list[str]


def parse_directives(message: str) -> Directives:
    """Return what ``[[name]]`` and ``[[name:value]]`` in ``message`` ask for. Other brackets are ordinary text.

    Raise ``SandboxError`` when a value is wrong.
    """
    text = _DIRECTIVE.sub(lambda match: "" if match[1] in NAMES else match[0], message).strip()
    found = [match for match in _DIRECTIVE.findall(message) if match[0] in NAMES]
    for name, value in found:
        if name in FLAGS and value:
            raise directive_error(f"[[{name}]] takes no value.")
        lowest, highest = NUMBERS.get(name, (0, 0))
        if name in NUMBERS and not (re.fullmatch("[0-9]{1,9}", value) and lowest <= int(value) <= highest):
            raise directive_error(f"[[{name}:N]] takes a whole number from {lowest} to {highest}.")
    numbers = {name: int(value) for name, value in found if name in NUMBERS}
    flags = FLAGS.intersection(name for name, _ in found)
    return Directives(text, numbers, flags, [value for name, value in found if name == "tool"])


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class _Function(_Model):
    name: str
    parameters: dict[str, Any] = Field(default_factory=dict)


class Tool(_Model):
    """An element of ``tools``, or ``tool_choice`` as an object."""

    type: Literal["function"]
    function: _Function


class _Called(_Model):
    name: str
    arguments: str


class _ToolCall(_Model):
    function: _Called


class Message(_Model):
    """An element of ``messages``."""

    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_ToolCall] | None = None

    @property
    def text(self) -> str:
        """The text of all parts of the content."""
        if isinstance(self.content, list):
            return " ".join(part["text"] for part in self.content if isinstance(part.get("text"), str))
        return self.content or ""

    @property
    def other_parts(self) -> int:
        """The number of parts that are not text."""
        return sum("text" not in part for part in self.content) if isinstance(self.content, list) else 0


class _JsonSchema(_Model):
    schema_: dict[str, Any] = Field(alias="schema", default_factory=dict)


class _ResponseFormat(_Model):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _JsonSchema = _JsonSchema()


class _StreamOptions(_Model):
    include_usage: bool = False


class ChatRequest(_Model):
    """The fields that the sandbox reads. It ignores all other fields."""

    model: str
    messages: Annotated[list[Message], Field(min_length=1)]
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    n: Annotated[int, Field(ge=1, le=8)] | None = None
    stop: str | Annotated[list[str], Field(max_length=4)] | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["auto", "none", "required"] | Tool | None = None
    parallel_tool_calls: bool | None = None
    response_format: _ResponseFormat | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None

    @cached_property
    def directives(self) -> Directives:
        """The directives of the last user message. Raise ``SandboxError`` when one is wrong."""
        texts = (message.text for message in reversed(self.messages) if message.role == "user")
        directives = parse_directives(next(texts, ""))
        misplaced = sorted(STREAM_ONLY & {*directives.flags, *directives.numbers})
        if misplaced and not self.stream:
            raise directive_error(f"[[{misplaced[0]}]] needs stream: true.", "stream")
        return directives


def parse_request(raw: bytes) -> ChatRequest:
    """Return the request in the bytes of a body. Raise ``SandboxError`` when it is wrong."""
    try:
        request = ChatRequest.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise SandboxError(400, "The body of the request is not valid JSON.") from None
        param = ".".join(map(str, first["loc"])) or None
        message = f"Invalid value for '{param or 'body'}': {first['msg']}."
        raise SandboxError(400, message, param, "invalid_value") from None
    if request.model not in (CHAT_MODEL, REASONER_MODEL):
        message = f"The model `{request.model}` does not exist."
        raise SandboxError(404, message, "model", "model_not_found")
    for param, requirement in _broken_requirements(request):
        raise SandboxError(400, f"{param} {requirement}", param, "invalid_value")
    return request


def _broken_requirements(request: ChatRequest) -> Iterator[tuple[str, str]]:
    """Yield each field that needs another one which the request lacks."""
    names, choice = {tool.function.name for tool in request.tools or ()}, request.tool_choice
    if request.top_logprobs is not None and not request.logprobs:
        yield "top_logprobs", "needs logprobs: true."
    if request.stream_options and not request.stream:
        yield "stream_options", "needs stream: true."
    if isinstance(choice, Tool) and choice.function.name not in names:
        yield "tool_choice", f"names {choice.function.name!r}, which is not in tools."
    if choice == "required" and not names:
        yield "tool_choice", "is required, but there are no tools."
