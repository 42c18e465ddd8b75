"""The schema of the tools of a Responses request, and what its other schemas are made of. Pure.

Source: OpenAI, "Create a model response" (tools, tool_choice).
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from pydantic import AfterValidator, Field, Tag
from pydantic_core import PydanticCustomError

from addon.apis.validation import Counted, one_of, shape

Text = Annotated[str, Field(min_length=1)]
PositiveInt = Annotated[int, Field(gt=0)]


class Typed(TypedDict):
    type: Text


def refuse(words: str) -> AfterValidator:
    """Return the mark of a value that is always refused, with ``words``."""

    def refuse(_value: Any) -> Any:
        raise PydanticCustomError("refused", "{words}", {"words": words})

    return AfterValidator(refuse)


def kind_among(kinds: frozenset[str]) -> Callable[[Any], str | None]:
    """Return a choice by ``type``. A type that is not among ``kinds`` is ``<other>``."""

    def choose(value: Any) -> str | None:
        if not isinstance(value, dict):
            return None
        kind = value.get("type")
        return f"<{kind}>" if isinstance(kind, str) and kind in kinds else "<other>"

    return choose


# --- tools -------------------------------------------------------------------------------------------------------


class _FunctionTool(Typed):
    name: Text
    description: NotRequired[str | None]
    parameters: NotRequired[dict[str, Any] | None]
    strict: NotRequired[bool | None]


class _Format(Typed):
    syntax: NotRequired[str | None]
    definition: NotRequired[str | None]


class _CustomTool(Typed):
    name: Text
    description: NotRequired[str | None]
    format: NotRequired[_Format | None]


_Tool = Annotated[
    Annotated[_FunctionTool, Tag("<function>")]
    | Annotated[_CustomTool, Tag("<custom>")]
    | Annotated[Typed, Tag("<other>")],
    one_of(kind_among(frozenset({"function", "custom"})), "an object"),
]


class _Namespace(Typed):
    name: Text
    tools: list[Annotated[_Tool, Counted]]


_AnyTool = Annotated[
    Annotated[_FunctionTool, Tag("<function>")]
    | Annotated[_CustomTool, Tag("<custom>")]
    | Annotated[_Namespace, Tag("<namespace>")]
    | Annotated[Typed, Tag("<other>")],
    one_of(kind_among(frozenset({"function", "custom", "namespace"})), "an object"),
]
Tools = list[Annotated[_AnyTool, Counted]]


class _NamedChoice(Typed):
    name: Text


class _AllowedTools(Typed):
    mode: Literal["auto", "required"]
    tools: list[Annotated[Typed, Counted]]


_ChoiceObject = Annotated[
    Annotated[_NamedChoice, Tag("<function>")]
    | Annotated[_NamedChoice, Tag("<custom>")]
    | Annotated[_AllowedTools, Tag("<allowed_tools>")]
    | Annotated[Typed, Tag("<other>")],
    one_of(kind_among(frozenset({"function", "custom", "allowed_tools"})), "an object"),
]
ToolChoice = Annotated[
    Annotated[Literal["auto", "none", "required"], Tag("<text>")] | Annotated[_ChoiceObject, Tag("<object>")],
    one_of(shape, "'auto', 'none', 'required' or an object that names a tool"),
]
