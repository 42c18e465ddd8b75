"""The requests that the sandbox takes: OpenAI's chat completion body, and its error object where one is wrong. Pure."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from addon.sandbox.directives import STREAM_ONLY, DirectiveError, Directives, parse_directives

CHAT_MODEL = "sandbox-chat-001"
REASONER_MODEL = "sandbox-reasoner-001"
MODELS = (CHAT_MODEL, REASONER_MODEL)

Effort = Literal["none", "minimal", "low", "medium", "high"]
_Cap = Annotated[int, Field(ge=1)] | None


class SandboxError(Exception):
    """A failure, real or asked for, as an OpenAI-like provider reports it."""

    def __init__(
        self, status: int, message: str, type_: str, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self._error = {"message": message, "type": type_, "param": param, "code": code}

    def body(self) -> bytes:
        """Return OpenAI's error object as JSON."""
        return json.dumps({"error": self._error}).encode()


def refused_directive(message: str, param: str = "messages") -> SandboxError:
    """Return the error of a directive that can't be followed."""
    return SandboxError(400, message, "invalid_request_error", "invalid_directive", param)


class _Shape(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class Function(_Shape):
    """The function of a tool; ``parameters`` is a JSON schema."""

    name: str
    parameters: dict[str, Any] = Field(default_factory=dict)


class Tool(_Shape):
    """One element of ``tools``."""

    type: Literal["function"]
    function: Function


class _Called(_Shape):
    name: str
    arguments: str


class _ToolCall(_Shape):
    function: _Called


class Message(_Shape):
    """One element of ``messages``."""

    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_ToolCall] | None = None

    @property
    def text(self) -> str:
        """All text of the content."""
        if isinstance(self.content, list):
            return " ".join(part["text"] for part in self.content if isinstance(part.get("text"), str))
        return self.content or ""

    @property
    def other_parts(self) -> int:
        """How many parts of the content are not text."""
        return sum("text" not in part for part in self.content) if isinstance(self.content, list) else 0


class _JsonSchema(_Shape):
    schema_: dict[str, Any] = Field(alias="schema", default_factory=dict)


class ResponseFormat(_Shape):
    """``response_format``."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: _JsonSchema = _JsonSchema()


class _NamedFunction(_Shape):
    name: str


class NamedTool(_Shape):
    """``tool_choice`` as an object."""

    type: Literal["function"]
    function: _NamedFunction


class _StreamOptions(_Shape):
    include_usage: bool = False


class Body(_Shape):
    """The fields that the sandbox reads; it accepts every other one, and does nothing about it."""

    model: str
    messages: list[Message] = Field(min_length=1)
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: _Cap = None
    max_completion_tokens: _Cap = None
    n: Annotated[int, Field(ge=1, le=8)] | None = None
    stop: str | Annotated[list[str], Field(max_length=4)] | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["auto", "none", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    reasoning_effort: Effort | None = None


@dataclass(frozen=True, slots=True)
class SandboxRequest:
    """A request that will be answered. ``asked`` is the last user message without its directives."""

    body: Body
    directives: Directives
    asked: str

    @property
    def cap(self) -> int | None:
        """The smaller of the two caps on generated tokens."""
        caps = [cap for cap in (self.body.max_tokens, self.body.max_completion_tokens) if cap is not None]
        return min(caps, default=None)

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop sequences that can be found in a text."""
        given = [self.body.stop] if isinstance(self.body.stop, str) else self.body.stop or []
        return tuple(filter(None, given))


def parse_request(raw: bytes) -> SandboxRequest:
    """Return the request in the bytes of a body. Raises ``SandboxError``."""
    try:
        body = Body.model_validate_json(raw)
    except ValidationError as error:
        raise _invalid(error) from None
    if body.model not in MODELS:
        message = f"The model `{body.model}` does not exist."
        raise SandboxError(404, message, "invalid_request_error", "model_not_found", "model")
    _check_together(body)
    last = next((message.text for message in reversed(body.messages) if message.role == "user"), "")
    try:
        directives, asked = parse_directives(last)
    except DirectiveError as error:
        raise refused_directive(str(error)) from None
    if not body.stream and (misplaced := sorted(directives.names & STREAM_ONLY)):
        raise refused_directive(f"[[{misplaced[0]}]] needs stream: true.", "stream")
    return SandboxRequest(body, directives, asked)


def _check_together(body: Body) -> None:
    """Fields that depend on each other."""
    names = {tool.function.name for tool in body.tools or ()}
    problem = None
    if body.top_logprobs is not None and not body.logprobs:
        problem = ("top_logprobs", "top_logprobs needs logprobs: true.")
    elif body.stream_options and not body.stream:
        problem = ("stream_options", "stream_options needs stream: true.")
    elif isinstance(body.tool_choice, NamedTool) and body.tool_choice.function.name not in names:
        problem = (
            "tool_choice",
            f"tool_choice names {body.tool_choice.function.name!r}, which is not in tools.",
        )
    elif body.tool_choice == "required" and not names:
        problem = ("tool_choice", "tool_choice is required, but there are no tools.")
    if problem:
        raise SandboxError(400, problem[1], "invalid_request_error", "invalid_value", problem[0])


def _invalid(error: ValidationError) -> SandboxError:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return SandboxError(400, "The body of the request is not valid JSON.", "invalid_request_error")
    param = ".".join(str(step) for step in first["loc"]) or None
    message = f"Invalid value for '{param}': {first['msg']}."
    return SandboxError(400, message, "invalid_request_error", "invalid_value", param)
