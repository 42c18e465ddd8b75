"""The schema of a chat request: the tables of the contract, and the messages about invalid fields. Pure.

Source: contract, "Chat request body" and "Message object"; of ``metadata`` OpenAI, "Create chat completion".
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Required, TypedDict

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Tag, TypeAdapter, with_config
from pydantic_core import PydanticCustomError

from addon.apis.validation import Counted, Location, check, one_of, shape
from policies.family import RESERVED

METADATA: Final = "metadata"
"""The client's own tags of a call. They are checked as the contract's fields are, and sent where a family has them."""
MAX_TAGS: Final = 16
MAX_TAG_NAME_CHARS: Final = 64
MAX_TAG_CHARS: Final = 512


class _Object(BaseModel):
    model_config = ConfigDict(strict=True)


def _function_or_other(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    return "<function>" if value.get("type") == "function" else "<other>"


def _check_stop(value: Any) -> Any:
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        return value
    raise PydanticCustomError("stop", "Input should be a string or an array of strings")


def _check_logit_bias(value: Any) -> Any:
    if isinstance(value, dict) and all(type(bias) in (int, float) for bias in value.values()):
        return value
    raise PydanticCustomError("logit_bias", "Input should be an object whose values are numbers")


def is_metadata(value: Any) -> bool:
    """Return whether ``value`` may be the client's own tags of a call."""
    return (
        isinstance(value, dict)
        and len(value) <= MAX_TAGS
        and all(
            len(name) <= MAX_TAG_NAME_CHARS and isinstance(tag, str) and len(tag) <= MAX_TAG_CHARS
            for name, tag in value.items()
        )
    )


def check_metadata(value: Any) -> Any:
    """Return the client's own tags. Raises PydanticCustomError for any other value."""
    if is_metadata(value):
        return value
    raise PydanticCustomError("metadata", _METADATA_WORDS)


_METADATA_WORDS: Final = (
    f"Input should be an object of at most {MAX_TAGS} strings, each of at most {MAX_TAG_CHARS} characters,"
    f" with names of at most {MAX_TAG_NAME_CHARS}"
)

_Text = Annotated[str, Field(min_length=1)]
_PositiveInt = Annotated[int, Field(gt=0)]


class _Typed(_Object):
    type: _Text


class _FunctionName(_Object):
    name: _Text


class _FunctionTool(_Typed):
    function: _FunctionName


class _NamedTool(_Object):
    type: Literal["function"]
    function: _FunctionName


class _FunctionArguments(_FunctionName):
    arguments: str | None = None


class _ToolCall(_Typed):
    id: str


class _FunctionCall(_ToolCall):
    function: _FunctionArguments


_Tool = Annotated[
    Annotated[_FunctionTool, Tag("<function>")] | Annotated[_Typed, Tag("<other>")],
    one_of(_function_or_other, "an object"),
]
_Call = Annotated[
    Annotated[_FunctionCall, Tag("<function>")] | Annotated[_ToolCall, Tag("<other>")],
    one_of(_function_or_other, "an object"),
]
_ToolChoice = Annotated[
    Annotated[Literal["auto", "none", "required"], Tag("<text>")] | Annotated[_NamedTool, Tag("<object>")],
    one_of(shape, "'auto', 'none', 'required' or an object that names a function"),
]
_Content = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[Annotated[_Typed, Counted]], Tag("<array>")],
    one_of(shape, "a string or an array of parts"),
]


class _Message(_Object):
    role: _Text
    content: _Content | None = None
    name: str | None = None
    tool_calls: list[Annotated[_Call, Counted]] | None = None
    tool_call_id: str | None = None


class _StreamOptions(_Object):
    include_usage: bool | None = None


@with_config(ConfigDict(strict=True))
class _Body(TypedDict, total=False):
    messages: Required[list[Annotated[_Message, Counted]]]
    model: _Text
    temperature: float
    top_p: Annotated[float, Field(gt=0, le=1)]
    max_tokens: _PositiveInt
    max_completion_tokens: _PositiveInt
    n: _PositiveInt
    presence_penalty: float
    frequency_penalty: float
    seed: int
    stop: Annotated[Any, AfterValidator(_check_stop)]
    logprobs: bool
    top_logprobs: int
    tools: list[Annotated[_Tool, Counted]]
    tool_choice: _ToolChoice
    parallel_tool_calls: bool
    response_format: _Typed
    stream: bool
    stream_options: _StreamOptions
    logit_bias: Annotated[Any, AfterValidator(_check_logit_bias)]
    user: str
    metadata: Annotated[Any, AfterValidator(check_metadata)]


# Pydantic validates a dictionary in half the time of a model.
_validate = TypeAdapter(_Body).validator.validate_python
_PLAIN_ROLES = frozenset({"system", "user", "assistant"})
KNOWN = frozenset(_Body.__annotations__) - {METADATA}
FORWARDED = KNOWN - RESERVED


def validate(given: dict[str, Any]) -> None:
    """Raise Refusal ``validation_failed``, naming the invalid fields, unless ``given``, which has no null, is valid."""
    messages = given.get("messages")
    odd: Sequence[int] = ()
    if type(messages) is list:
        # Nearly all messages are only a known role and a text. Pydantic need not check those.
        odd = [
            at
            for at, one in enumerate(messages)
            if type(one) is not dict
            or len(one) != 2
            or type(role := one.get("role")) is not str
            or role not in _PLAIN_ROLES
            or not isinstance(one.get("content"), str)
        ]
        given = given | {"messages": [messages[at] for at in odd]}
    check(_validate, given, lambda location: _locate(location, odd))


def _locate(location: Location, odd: Sequence[int]) -> Location:
    """Return the path in the request. An index of a message counts only the ``odd`` ones."""
    if location[:1] == ("messages",) and len(location) > 1:
        return ("messages", odd[int(location[1])], *location[2:])
    return location
