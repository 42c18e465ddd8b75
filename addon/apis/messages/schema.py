"""The schema of a Messages request: what the gateway itself reads of it. Pure.

All else is the provider's to check: a block or a tool of a type that is new tomorrow needs only its type. Source:
Anthropic, API reference, "Create a Message", "Count tokens in a Message"; the types of its Python SDK 2.12.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal, NotRequired, Required, TypedDict

from pydantic import Field, Tag, TypeAdapter

from addon.apis.messages.tools import CUSTOM
from addon.apis.validation import Counted, check, one_of, shape
from policies.refusal import Refusal

_Text = Annotated[str, Field(min_length=1)]
_PositiveInt = Annotated[int, Field(gt=0)]
_MediaType = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[\w.+-]+/[\w.+-]+$")]


def _by_type(*known: str) -> Callable[[Any], str | None]:
    """Return a function that finds the tag of an object: its type if that is known, or another."""
    tags = {name: f"<{name}>" for name in known}

    def find_tag(value: Any) -> str | None:
        if not isinstance(value, dict):
            return None
        kind = value.get("type")
        return tags.get(kind, "<other>") if isinstance(kind, str) else "<other>"

    return find_tag


class _Typed(TypedDict):
    type: _Text


class _Marked(_Typed):
    cache_control: NotRequired[_Typed | None]


# --- content blocks --------------------------------------------------------------------------------------------------


class _TextBlock(_Marked):
    text: str


class _Base64(_Typed):
    media_type: _MediaType
    data: str


class _PlainText(_Typed):
    data: str


class _Url(_Typed):
    url: _Text


class _Nested(_Typed):
    content: "_InnerContent"


_Source = Annotated[
    Annotated[_Base64, Tag("<base64>")]
    | Annotated[_PlainText, Tag("<text>")]
    | Annotated[_Url, Tag("<url>")]
    | Annotated[_Nested, Tag("<content>")]
    | Annotated[_Typed, Tag("<other>")],
    one_of(_by_type("base64", "text", "url", "content"), "an object"),
]


class _Image(_Marked):
    source: _Source


class _Document(_Image):
    title: NotRequired[str | None]
    context: NotRequired[str | None]


class _OnlyText(TypedDict):
    type: Literal["text"]
    text: str
    cache_control: NotRequired[_Typed | None]


class _SearchResult(_Marked):
    source: str
    title: str
    content: list[Annotated[_OnlyText, Counted]]


class _Thinking(_Typed):
    thinking: str
    signature: NotRequired[str | None]


class _RedactedThinking(_Typed):
    data: str


class _ToolUse(_Marked):
    id: _Text
    name: _Text
    input: dict[str, Any]


class _ToolResult(_Marked):
    tool_use_id: _Text
    content: NotRequired["_InnerContent | None"]
    is_error: NotRequired[bool | None]


_INNER = ("text", "image", "document", "search_result")
_InnerBlock = Annotated[
    Annotated[_TextBlock, Tag("<text>")]
    | Annotated[_Image, Tag("<image>")]
    | Annotated[_Document, Tag("<document>")]
    | Annotated[_SearchResult, Tag("<search_result>")]
    | Annotated[_Marked, Tag("<other>")],
    one_of(_by_type(*_INNER), "an object"),
]
_InnerContent = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[Annotated[_InnerBlock, Counted]], Tag("<array>")],
    one_of(shape, "a string or an array of blocks"),
]
_Block = Annotated[
    Annotated[_TextBlock, Tag("<text>")]
    | Annotated[_Image, Tag("<image>")]
    | Annotated[_Document, Tag("<document>")]
    | Annotated[_SearchResult, Tag("<search_result>")]
    | Annotated[_Thinking, Tag("<thinking>")]
    | Annotated[_RedactedThinking, Tag("<redacted_thinking>")]
    | Annotated[_ToolUse, Tag("<tool_use>")]
    | Annotated[_ToolResult, Tag("<tool_result>")]
    | Annotated[_Marked, Tag("<other>")],
    one_of(
        _by_type(*_INNER, "thinking", "redacted_thinking", "tool_use", "tool_result"),
        "an object",
    ),
]
_Content = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[Annotated[_Block, Counted]], Tag("<array>")],
    one_of(shape, "a string or an array of blocks"),
]


# --- the other fields ------------------------------------------------------------------------------------------------


class _Effort(TypedDict, total=False):
    effort: _Text | None


class _Turn(TypedDict):
    role: Literal["user", "assistant"]
    content: _Content


class _SystemTurn(TypedDict):
    role: Literal["system"]
    content: NotRequired[_Content | None]
    output_config: NotRequired[_Effort | None]


def _by_role(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    return "<system>" if value.get("role") == "system" else "<other>"


_Message = Annotated[
    Annotated[_SystemTurn, Tag("<system>")] | Annotated[_Turn, Tag("<other>")],
    one_of(_by_role, "an object"),
]


_System = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[Annotated[_OnlyText, Counted]], Tag("<array>")],
    one_of(shape, "a string or an array of text blocks"),
]


class _JsonSchema(_Typed):
    schema: dict[str, Any]


_Format = Annotated[
    Annotated[_JsonSchema, Tag("<json_schema>")] | Annotated[_Typed, Tag("<other>")],
    one_of(_by_type("json_schema"), "an object"),
]


class _OutputConfig(_Effort, total=False):
    format: _Format | None


class _Budget(_Typed):
    budget_tokens: _PositiveInt


_ThinkingSetting = Annotated[
    Annotated[_Budget, Tag("<enabled>")] | Annotated[_Typed, Tag("<other>")],
    one_of(_by_type("enabled"), "an object"),
]


class _CustomTool(TypedDict):
    name: _Text
    input_schema: dict[str, Any]
    description: NotRequired[str | None]
    strict: NotRequired[bool | None]
    defer_loading: NotRequired[bool | None]
    cache_control: NotRequired[_Typed | None]


def _custom_or_other(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    return "<custom>" if value.get("type") in CUSTOM else "<other>"


_Tool = Annotated[
    Annotated[_CustomTool, Tag("<custom>")] | Annotated[_Typed, Tag("<other>")],
    one_of(_custom_or_other, "an object"),
]


class _ToolChoice(TypedDict):
    type: Literal["auto", "any", "none"]
    disable_parallel_tool_use: NotRequired[bool | None]


class _NamedTool(_Typed):
    name: _Text
    disable_parallel_tool_use: NotRequired[bool | None]


_Choice = Annotated[
    Annotated[_NamedTool, Tag("<tool>")] | Annotated[_ToolChoice, Tag("<other>")],
    one_of(_by_type("tool"), "an object"),
]


class _Metadata(TypedDict, total=False):
    user_id: str | None


class _Prompt(TypedDict, total=False):
    """The fields that count tokens, and those that are an answer's but harmless."""

    messages: Required[list[Annotated[_Message, Counted]]]
    model: _Text
    system: _System
    tools: list[Annotated[_Tool, Counted]]
    tool_choice: _Choice
    thinking: _ThinkingSetting
    output_config: _OutputConfig
    output_format: _Format
    cache_control: _Typed
    temperature: float
    top_p: Annotated[float, Field(ge=0, le=1)]
    top_k: int
    stop_sequences: list[Annotated[str, Counted]]
    metadata: _Metadata
    service_tier: str
    stream: bool


class _Request(_Prompt, total=False):
    max_tokens: Required[_PositiveInt]


NO_THREADS: Final = (
    "The gateway keeps no conversations. Send all messages with each request, and leave this field out."
)

_validate_request: Final = partial(TypeAdapter(_Request).validator.validate_python, strict=True)
_validate_prompt: Final = partial(TypeAdapter(_Prompt).validator.validate_python, strict=True)


def validate(body: Mapping[str, Any], *, counts_only: bool = False) -> None:
    """Raise Refusal ``validation_failed``, naming the invalid fields, unless ``body``, which has no null, is valid.

    A request that ``counts_only`` tokens needs no ``max_tokens``. Without messages it is ``bad_request``.
    """
    if "thread" in body:
        raise Refusal("validation_failed", f"thread: {NO_THREADS}", "thread")
    if body.get("messages", []) == []:
        raise Refusal("bad_request", "messages: At least one message is required.", "messages")
    check(_validate_prompt if counts_only else _validate_request, body)
