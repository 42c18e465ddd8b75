"""The schema of a Responses request: types, what a gateway without state can't do, and calls without outputs. Pure.

Only what is read of a request is checked. Unknown fields, items, parts and tools are not refused.
Source: OpenAI, "Create a model response"; recorded requests and errors.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Annotated, Any, Final, NotRequired, Required, TypedDict

from pydantic import AfterValidator, ConfigDict, Field, Tag, TypeAdapter, with_config

from addon.apis.chat.schema import check_metadata
from addon.apis.responses.custom_tools import CLIENT_CALLS, CLIENT_OUTPUTS
from addon.apis.responses.item_schema import SEND_ALL, Input
from addon.apis.responses.tool_schema import PositiveInt, Text, ToolChoice, Tools, Typed, kind_among, refuse
from addon.apis.validation import MAX_EXPLAINED_FAILURES, Counted, check, one_of
from policies.refusal import Refusal

STATE_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "previous_response_id": f"Not supported: {SEND_ALL}, and leave this field out",
        "conversation": f"Not supported: {SEND_ALL}, and leave this field out",
        "background": "Not supported: nothing runs or is stored here after its call; use stream instead",
        "prompt": "Not supported: prompt templates are stored at OpenAI; send their text as instructions and input",
    }
)
"""What a request is told that wants something stored."""

_STORED: Final = frozenset({"previous_response_id", "conversation", "prompt"})
# OpenAI takes a search of tools without its output.
_SEARCH: Final = frozenset({"tool_search_call", "tool_search_output"})
CALLS: Final = frozenset({"function_call", "custom_tool_call", *CLIENT_CALLS}) - _SEARCH
OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output", *CLIENT_OUTPUTS}) - _SEARCH
"""The items of calls that the client runs, and of their outputs. Each call needs its output."""

# --- the body ----------------------------------------------------------------------------------------------------


class _SchemaFormat(Typed):
    name: Text
    schema: dict[str, Any]
    description: NotRequired[str | None]
    strict: NotRequired[bool | None]


_TextFormat = Annotated[
    Annotated[_SchemaFormat, Tag("<json_schema>")] | Annotated[Typed, Tag("<other>")],
    one_of(kind_among(frozenset({"json_schema"})), "an object"),
]


class _TextOptions(TypedDict):
    format: NotRequired[_TextFormat | None]
    verbosity: NotRequired[str | None]


class _ReasoningOptions(TypedDict):
    effort: NotRequired[str | None]
    summary: NotRequired[str | None]


_Background = Annotated[
    Annotated[bool, Tag("<other>")] | Annotated[Any, refuse(STATE_WORDS["background"]), Tag("<true>")],
    one_of(lambda value: "<true>" if value is True else "<other>", "false"),
]


@with_config(ConfigDict(strict=True))
class _Body(TypedDict, total=False):
    input: Required[Input]
    model: Text
    instructions: str
    tools: Tools
    tool_choice: ToolChoice
    parallel_tool_calls: bool
    max_output_tokens: PositiveInt
    max_tool_calls: PositiveInt
    temperature: float
    top_p: Annotated[float, Field(gt=0, le=1)]
    top_logprobs: int
    text: _TextOptions
    reasoning: _ReasoningOptions
    include: list[Annotated[str, Counted]]
    metadata: Annotated[Any, AfterValidator(check_metadata)]
    client_metadata: dict[str, Any]
    prompt_cache_key: str
    safety_identifier: str
    service_tier: str
    truncation: str
    user: str
    store: bool
    stream: bool
    stream_options: dict[str, Any]
    background: _Background
    previous_response_id: Annotated[Any, refuse(STATE_WORDS["previous_response_id"])]
    conversation: Annotated[Any, refuse(STATE_WORDS["conversation"])]
    prompt: Annotated[Any, refuse(STATE_WORDS["prompt"])]


_validate = TypeAdapter(_Body).validator.validate_python
KNOWN: Final = frozenset(_Body.__annotations__)
"""The fields of a request that are checked, and read."""


def validate(body: Mapping[str, Any]) -> None:
    """Raise Refusal ``validation_failed``, naming the invalid fields, unless ``body`` is a valid request.

    A null is the same as an absent field. Raises Refusal ``bad_request`` for a request without input.
    """
    given = {name: value for name, value in body.items() if value is not None}
    if given.get("input", []) == [] and _STORED.isdisjoint(given):
        raise Refusal("bad_request", "input: A text or at least one item is required.", "input")
    check(_validate, {"input": "", **given})
    items = given.get("input")
    if isinstance(items, list) and (found := list(islice(_unpaired(items), MAX_EXPLAINED_FAILURES))):
        listed = "; ".join(f"{path}: {words}" for path, words in found)
        raise Refusal("validation_failed", listed, found[0][0] if len(found) == 1 else None)


def _unpaired(items: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the path and the fault of calls without an output, and of outputs without a call.

    OpenAI and the vendors of chat completions refuse both.
    """
    calls = {key for item in items if item.get("type") in CALLS for key in _keys(item)}
    outputs = {key for item in items if item.get("type") in OUTPUTS for key in _keys(item)}
    for index, item in enumerate(items):
        kind, keys = item.get("type"), _keys(item)
        if kind in CALLS and keys and outputs.isdisjoint(keys):
            yield f"input.{index}", f"No output of this {kind} is in the input; send one with its call_id"
        elif kind in OUTPUTS and keys and calls.isdisjoint(keys):
            yield f"input.{index}", f"No call with the call_id of this {kind} is in the input: {SEND_ALL}"


def _keys(item: Mapping[str, Any]) -> list[str]:
    """Return what joins a call and its output. An output of the local shell may name its call by ``id``."""
    names = ("call_id", "id") if str(item.get("type")).startswith("local_shell") else ("call_id",)
    return [value for name in names if isinstance(value := item.get(name), str)]
