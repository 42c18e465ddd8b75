"""The chat request body: what a client may send, checked as the contract's tables say, and otherwise left as it is.

Pydantic only judges; what goes upstream are the client's own values. No message echoes a value: it may be a secret.
Source: contract, "Chat request body" and "Message object"; docs/decisions/null-is-unset.md. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from addon.text.json_decode import decode_large_object
from addon.text.large_strings import LargeStrings
from policies.estimate import estimate_prompt_tokens
from policies.family import Family
from policies.refusal import Refusal

MAX_EXPLAINED_FAILURES = 20
"""So many failing fields are listed with what is wrong, all others by their name alone."""
# Then reading stops: to list the failures of ten million wrong elements would cost gigabytes.
MAX_FOUND_FAILURES = 1_000


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A valid chat request. ``requested_cap`` is in tokens: the smaller of the client's two cap fields.
    ``include_usage`` is that of ``stream_options``.

    ``fields`` are the contract's fields that are set, with the client's values, without those that stand here by
    name (``user`` stands in both); ``extras`` are all other keys. ``large`` has the rest of each ``LargeText`` in them.
    """

    model: str | None
    stream: bool
    include_usage: bool
    requested_cap: int | None
    end_user: str | None
    fields: Mapping[str, Any]
    extras: Mapping[str, Any]
    large: LargeStrings | None = field(default=None, compare=False, repr=False)
    body_bytes: int = field(default=0, compare=False)

    def sendable(self, family: Family) -> dict[str, Any]:
        """Return the fields that may be sent to a model of ``family``."""
        return {
            **self.fields,
            **{name: value for name, value in self.extras.items() if name in family.extra},
        }

    def prompt_tokens(self, family: Family) -> int:
        """Estimate the prompt, from all that is sent to a model of ``family``."""
        fields = {name: value for name, value in self.sendable(family).items() if name not in family.drops}
        return estimate_prompt_tokens(fields, family.estimator)


def parse_chat_request(body: bytes) -> ChatRequest:
    """Return what ``body`` asks for. A null is the same as an absent key.

    Raises ``Refusal``: ``bad_request`` where ``messages`` is missing or empty, else ``validation_failed`` with every
    failing field in its message, and ``param`` where there is just one.
    """
    decoded, large = decode_large_object(body)
    given = {key: value for key, value in decoded.items() if value is not None}
    if given.get("messages", []) == []:
        raise Refusal("bad_request", "messages: At least one message is required.", "messages")
    _validate(given)
    fields = {key: value for key, value in given.items() if key in FORWARDED}
    extras = {key: value for key, value in given.items() if key not in _KNOWN}
    return ChatRequest(
        model=given.get("model"),
        stream=given.get("stream", False),
        include_usage=bool(given.get("stream_options", {}).get("include_usage")),
        requested_cap=min((given[key] for key in _CAPS if key in given), default=None),
        end_user=given.get("user"),
        fields=MappingProxyType(fields),
        extras=MappingProxyType(extras),
        large=large,
        body_bytes=len(body),
    )


def check_content_type(content_type: str | None, content_encoding: str | None) -> None:
    """Raise ``Refusal`` ``unsupported_media_type`` unless a body is JSON in UTF-8 and not compressed."""
    media_type, *parameters = (content_type or "").lower().split(";")
    if media_type.strip() != "application/json":
        raise Refusal(
            "unsupported_media_type", "The request needs the header Content-Type: application/json."
        )
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip().strip('"') not in ("utf-8", "utf8"):
            raise Refusal("unsupported_media_type", "The charset of the request body must be utf-8.")
    if (content_encoding or "").strip().lower() not in ("", "identity"):
        raise Refusal(
            "unsupported_media_type",
            "A compressed request body is not accepted; send it without Content-Encoding.",
        )


# --- the contract's tables -------------------------------------------------------------------------------------


class _Object(BaseModel):
    model_config = ConfigDict(strict=True)


@dataclass(slots=True)
class _Tally:
    failures: int = 0


class _TooManyFailuresError(Exception):
    """Unlike a ``ValueError``, this leaves pydantic at once."""


def _counted(value: Any, check: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """Check one element of an array, and keep count of what is wrong in all of them."""
    tally = cast(_Tally, info.context)
    try:
        return check(value)
    except ValidationError as error:
        tally.failures += error.error_count()
        if tally.failures > MAX_FOUND_FAILURES:
            raise _TooManyFailuresError from None
        raise


def _shape(value: Any) -> str | None:
    shapes = ((str, "<text>"), (list, "<array>"), (dict, "<object>"))
    return next((name for shape, name in shapes if isinstance(value, shape)), None)


def _function_or_other(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    return "<function>" if value.get("type") == "function" else "<other>"


def _one_of(shape: Any, description: str) -> Any:
    return Discriminator(
        shape, custom_error_type="shape", custom_error_message=f"Input should be {description}"
    )


def _check_stop(value: Any) -> Any:
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        return value
    raise PydanticCustomError("stop", "Input should be a string or an array of strings")


def _check_logit_bias(value: Any) -> Any:
    if isinstance(value, dict) and all(type(bias) in (int, float) for bias in value.values()):
        return value
    raise PydanticCustomError("logit_bias", "Input should be an object whose values are numbers")


_Counted = WrapValidator(_counted)
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
    _one_of(_function_or_other, "an object"),
]
_Call = Annotated[
    Annotated[_FunctionCall, Tag("<function>")] | Annotated[_ToolCall, Tag("<other>")],
    _one_of(_function_or_other, "an object"),
]
_ToolChoice = Annotated[
    Annotated[Literal["auto", "none", "required"], Tag("<text>")] | Annotated[_NamedTool, Tag("<object>")],
    _one_of(_shape, "'auto', 'none', 'required' or an object that names a function"),
]
_Content = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[Annotated[_Typed, _Counted]], Tag("<array>")],
    _one_of(_shape, "a string or an array of parts"),
]


class _Message(_Object):
    role: _Text
    content: _Content | None = None
    name: str | None = None
    tool_calls: list[Annotated[_Call, _Counted]] | None = None
    tool_call_id: str | None = None


class _StreamOptions(_Object):
    include_usage: bool | None = None


class _Body(_Object):
    messages: list[Annotated[_Message, _Counted]]
    model: _Text | None = None
    temperature: float | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: _PositiveInt | None = None
    max_completion_tokens: _PositiveInt | None = None
    n: _PositiveInt | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    stop: Annotated[Any, AfterValidator(_check_stop)] = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[Annotated[_Tool, _Counted]] | None = None
    tool_choice: _ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: _Typed | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    logit_bias: Annotated[Any, AfterValidator(_check_logit_bias)] = None
    user: str | None = None


_PLAIN_ROLES = frozenset({"system", "user", "assistant"})
_CAPS = ("max_tokens", "max_completion_tokens")
_KNOWN = frozenset(_Body.model_fields)
FORWARDED = _KNOWN - {"model", "stream", "stream_options", *_CAPS}


# --- what is said about it -------------------------------------------------------------------------------------

# Pydantic's own words for these speak of Python.
_PLAIN_WORDS = MappingProxyType(
    {"model_type": "Input should be an object", "list_type": "Input should be an array"}
)


def _validate(given: dict[str, Any]) -> None:
    messages = given.get("messages")
    odd = [at for at, one in enumerate(messages) if not _is_plain(one)] if type(messages) is list else []
    checked = given | {"messages": [messages[at] for at in odd]} if type(messages) is list else given
    try:
        _Body.model_validate(checked, context=_Tally())
    except _TooManyFailuresError:
        raise Refusal("validation_failed", f"More than {MAX_FOUND_FAILURES} fields are invalid.") from None
    except ValidationError as error:
        failures = error.errors(include_url=False, include_context=False, include_input=False)
        raise _validation_failed(
            (_path(f["loc"], odd), _PLAIN_WORDS.get(f["type"], f["msg"])) for f in failures
        ) from None


def _is_plain(message: object) -> bool:
    """Tell, quickly, that a message is a role and a text, as nearly all are: there is nothing to check in it."""
    return (
        type(message) is dict
        and len(message) == 2
        and isinstance(role := message.get("role"), str)
        and role in _PLAIN_ROLES
        and isinstance(message.get("content"), str)
    )


def _path(location: tuple[int | str, ...], odd: Sequence[int]) -> str:
    """Return the dotted path of a failure; messages are counted among the ``odd`` ones."""
    if location[:1] == ("messages",) and len(location) > 1:
        location = ("messages", odd[int(location[1])], *location[2:])
    return ".".join(str(part) for part in location if not str(part).startswith("<"))


def _validation_failed(found: Iterable[tuple[str, str]]) -> Refusal:
    failures = list(found)
    listed = [f"{path}: {words}" for path, words in failures[:MAX_EXPLAINED_FAILURES]]
    if others := [path for path, _ in failures[MAX_EXPLAINED_FAILURES:]]:
        listed.append(f"also {', '.join(others)}")
    paths = {path for path, _ in failures}
    return Refusal("validation_failed", "; ".join(listed), paths.pop() if len(paths) == 1 else None)
