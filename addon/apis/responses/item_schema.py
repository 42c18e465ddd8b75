"""The schema of the input of a Responses request: its items, and the parts of their content. Pure.

An item, or a part, of a type that is new tomorrow needs only its type. Source: OpenAI, "Create a model response"
(input); recorded requests and errors.
"""

from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from pydantic import AfterValidator, Tag
from pydantic_core import PydanticCustomError

from addon.apis.responses.tool_schema import Text, Tools, Typed, kind_among, refuse
from addon.apis.validation import Counted, one_of, shape

SEND_ALL: Final = "nothing is stored here, so send the whole conversation as input"
_NO_REFERENCE: Final = f"Not supported: {SEND_ALL}, this item too. Many clients do so with store: false"

# --- parts of content --------------------------------------------------------------------------------------------


class _TextPart(Typed):
    text: str


class _RefusalPart(Typed):
    refusal: str


class _ImagePart(Typed):
    image_url: NotRequired[str | None]
    file_id: NotRequired[str | None]
    detail: NotRequired[str | None]


class _FilePart(Typed):
    file_data: NotRequired[str | None]
    file_url: NotRequired[str | None]
    file_id: NotRequired[str | None]
    filename: NotRequired[str | None]


class _Sound(TypedDict):
    data: str
    format: str


class _AudioPart(Typed):
    input_audio: _Sound


def _needs_source(*names: str) -> AfterValidator:
    def check(part: Any) -> Any:
        if all(part.get(name) is None for name in names):
            words = f"One of {', '.join(names)} is required"
            raise PydanticCustomError("source", "{words}", {"words": words})
        return part

    return AfterValidator(check)


_TEXT_PARTS: Final = frozenset({"input_text", "output_text", "summary_text", "reasoning_text", "text"})
_OWN_PARTS: Final = frozenset({"refusal", "input_image", "input_file", "input_audio"})


def _part_kind(part: Any) -> str | None:
    if isinstance(part, dict) and isinstance(kind := part.get("type"), str) and kind in _TEXT_PARTS:
        return "<written>"
    return _own_part_kind(part)


_own_part_kind = kind_among(_OWN_PARTS)
_Part = Annotated[
    Annotated[_TextPart, Tag("<written>")]
    | Annotated[_RefusalPart, Tag("<refusal>")]
    | Annotated[_ImagePart, _needs_source("image_url", "file_id"), Tag("<input_image>")]
    | Annotated[_FilePart, _needs_source("file_data", "file_url", "file_id"), Tag("<input_file>")]
    | Annotated[_AudioPart, Tag("<input_audio>")]
    | Annotated[Typed, Tag("<other>")],
    one_of(_part_kind, "an object"),
]
_Content = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[Annotated[_Part, Counted]], Tag("<array>")],
    one_of(shape, "a string or an array of parts"),
]

# --- items of the input ------------------------------------------------------------------------------------------


class _Message(TypedDict):
    role: Literal["user", "assistant", "system", "developer"]
    content: _Content


class _Call(Typed):
    call_id: Text


class _FunctionCall(_Call):
    name: Text
    arguments: str
    namespace: NotRequired[str | None]


class _CustomCall(_Call):
    name: Text
    input: str
    namespace: NotRequired[str | None]


class _Output(_Call):
    output: _Content


class _Reasoning(Typed):
    summary: NotRequired[list[Annotated[Typed, Counted]] | None]
    content: NotRequired[list[Annotated[Typed, Counted]] | None]
    encrypted_content: NotRequired[str | None]


class _FoundTools(Typed):
    tools: Tools


_ITEM_KINDS: Final = frozenset(
    {"message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"}
    | {"reasoning", "item_reference", "additional_tools", "tool_search_output"}
)
_typed_item_kind = kind_among(_ITEM_KINDS)


def _item_kind(item: Any) -> str | None:
    """Return the tag of an item. Without a type it is a message, or an id alone, which refers to a stored item."""
    if isinstance(item, dict) and item.get("type") is None:
        return "<item_reference>" if item.keys() - {"type"} == {"id"} else "<message>"
    return _typed_item_kind(item)


_Item = Annotated[
    Annotated[_Message, Tag("<message>")]
    | Annotated[_FunctionCall, Tag("<function_call>")]
    | Annotated[_CustomCall, Tag("<custom_tool_call>")]
    | Annotated[_Output, Tag("<function_call_output>")]
    | Annotated[_Output, Tag("<custom_tool_call_output>")]
    | Annotated[_Reasoning, Tag("<reasoning>")]
    | Annotated[_FoundTools, Tag("<additional_tools>")]
    | Annotated[_FoundTools, Tag("<tool_search_output>")]
    | Annotated[
        Any,
        refuse(_NO_REFERENCE),
        Tag("<item_reference>"),
    ]
    | Annotated[Typed, Tag("<other>")],
    one_of(_item_kind, "an object"),
]
Input = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[Annotated[_Item, Counted]], Tag("<array>")],
    one_of(shape, "a string or an array of items"),
]
