"""The family of a model: the fields and values that it accepts, and the fields that no family may change.

Messages, tools and the cap go upstream whatever a family says, and money is held for exactly what is sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

CapField = Literal["max_tokens", "max_completion_tokens"]
ToolChoiceForm = Literal["auto", "none", "required", "named"]
ToolChoiceSent = Literal["auto", "none", "required", "any", "refused"]
ResponseFormatForm = Literal["text", "json_object", "json_schema", "with_tools"]
ResponseFormatSent = Literal["json_object", "in_prompt", "dropped", "refused"]
ThinkingType = Literal["enabled", "adaptive", "disabled"]
StrictTools = Literal["any", "all", "none"]
ReasoningSummary = Literal["auto", "concise", "detailed", "none"]

EFFORT: Final = "reasoning_effort"
CAP_FIELDS: Final[tuple[CapField, ...]] = get_args(CapField)

_NO_ENTRIES: Final[Mapping[Any, Any]] = MappingProxyType({})
_DEVELOPER_IS_SYSTEM: Final[Mapping[str, str]] = MappingProxyType({"developer": "system"})

# Source: contract, "Message object".
MESSAGE_FIELDS: Final = frozenset({"role", "content", "name", "tool_calls", "tool_call_id"})
ROLES: Final = frozenset({"system", "user", "assistant", "tool", "developer", "function"})
"""The contract's four roles, and two more of OpenAI's API. Source: contract, "Message object"."""
NEVER_DROPPED: Final = frozenset({"messages", "tools", "tool_choice"})
# The gateway sets these itself. What the client sent for them is decided earlier, and passed to ``sanitize``.
RESERVED: Final = frozenset({"model", "stream", "stream_options", *CAP_FIELDS})


@dataclass(frozen=True, slots=True)
class Estimator:
    """The coefficients of a family that estimate tokens. Nearly every estimate of a prompt is an upper bound.

    | field | is |
    |---|---|
    | ``base_tokens`` | added once to each prompt |
    | ``tokens_per_message`` | added for each message and each tool call |
    | ``letters_per_token`` | small ASCII letters and spaces in one token |
    | ``marks_per_token`` | all other ASCII characters (capitals, digits, punctuation, line ends) in one token |
    | ``other_bytes_per_token`` | UTF-8 bytes beyond ASCII in one token |
    | ``tools_tokens`` | added once to a prompt with tools or a response format |
    | ``tokens_per_image`` | added for each image |
    | ``completion_chars_per_token`` | characters of an answer in one token: an average, not a bound |

    Source: recorded traffic; docs/decisions/prompt-estimates-are-calibrated.md.
    """

    base_tokens: int = 200
    tokens_per_message: int = 4
    letters_per_token: float = 4.0
    marks_per_token: float = 1.0
    other_bytes_per_token: float = 1.5
    tools_tokens: int = 500
    tokens_per_image: int = 5_000
    completion_chars_per_token: float = 4.0


@dataclass(frozen=True)
class Family:
    """The fields and values that the models of one family accept. All others are accepted as the contract says.

    Fields of a request:

    | rule | says |
    |---|---|
    | ``cap_field`` | the name of the field for the completion cap |
    | ``cap_within_window`` | prompt and cap together must fit into the window of the model |
    | ``max_whole_completion_tokens`` | the largest cap of a call that is not streamed; others are called streamed |
    | ``drops`` | fields that are never sent |
    | ``clamps`` | the lowest and highest value of a field |
    | ``renames`` | the provider's name of a field |
    | ``extra`` | fields that are accepted beyond those of the contract |
    | ``values`` | the provider's names of some values of a field |
    | ``conflicts`` | fields that are dropped while another one is set and not off |
    | ``implies`` | fields that are set while another one is set and not off |
    | ``stop_limit``, ``n_limit`` | the most stop sequences and choices |
    | ``tool_types`` | the accepted types of tools; a provider runs and bills other types itself |
    | ``tool_choices``, ``response_formats`` | what is sent for a form, such as ``"in_prompt"``, or ``"refused"`` |
    | ``effort_budgets`` | tokens of each reasoning effort in native dialects; if empty, the effort's name is sent |
    | ``thinking_types`` | the types of ``thinking`` in Anthropic's own API; all where it is empty |
    | ``effort_off`` | fields that are sent in place of a reasoning effort of ``"none"`` |
    | ``refused_values`` | values that are refused by name, by the dotted path of their place |
    | ``strict_tools`` | which tools may be ``strict``: any of them, only all of them together, or none |
    | ``tool_schema_keys`` | the keys that the top of a tool's schema may have; all where it is empty |
    | ``default_effort`` | the reasoning effort of a call that names none; None: its models reason |
    | ``reasoning_summary`` | the summary that is asked for in the dialect ``responses`` |

    Fields of a message:

    | rule | says |
    |---|---|
    | ``message_extra`` | fields that are accepted beyond the contract's five |
    | ``message_drops`` | fields that are never sent |
    | ``message_renames`` | the provider's name of a field |
    | ``roles`` | the role that is sent in place of another |
    | ``late_system_role`` | the role that replaces ``system`` after the first message of another role |
    | ``one_system_message`` | a second system message is a late one, also at the front |
    | ``tool_result_media`` | pictures and files are in the result of a tool; else they follow it, in ``gemini`` |
    | ``joins_text_parts`` | text parts are sent as one string |
    | ``needs_reasoning_content`` | an assistant message with tool calls must have it, even empty |
    | ``separates_results`` | a message of the assistant comes between results of tools and one of the user |
    | ``tool_call_id_chars``, ``tool_call_id_limit`` | the exact and the greatest length of an id |

    Answers:

    | rule | says |
    |---|---|
    | ``asks_stream_usage`` | ``stream_options`` is sent, so that a stream has its usage |
    | ``think_tags`` | text between a leading ``<think>`` or ``<reasoning>`` and its closing tag is reasoning |
    | ``cached_tokens_at``, ``reasoning_tokens_at`` | dotted paths in ``usage``; the known ones where empty |
    | ``reasoning_beside_completion`` | ``completion_tokens`` does not include reasoning |
    | ``uncapped_completion_tokens`` | tokens that a choice may have beyond its cap |
    | ``reasons_unseen``, ``tokens_per_s`` | it may reason without showing it, so many tokens a second (0: unknown) |

    ``responses_only``: its models have no chat completions. ``responses_rules`` replace the rules of these names for
    calls that go to the Responses API; ``base`` is set for what they make (see ``over_responses``).
    """

    name: str
    cap_field: CapField = "max_tokens"
    cap_within_window: bool = False
    max_whole_completion_tokens: int | None = None
    drops: frozenset[str] = frozenset()
    clamps: Mapping[str, tuple[float, float]] = _NO_ENTRIES
    renames: Mapping[str, str] = _NO_ENTRIES
    extra: frozenset[str] = frozenset()
    stop_limit: int | None = None
    n_limit: int | None = None
    asks_stream_usage: bool = True
    reasoning_beside_completion: bool = False
    uncapped_completion_tokens: int = 0
    reasons_unseen: bool = False
    tokens_per_s: float = 0
    conflicts: Mapping[str, frozenset[str]] = _NO_ENTRIES
    implies: Mapping[str, Mapping[str, Any]] = _NO_ENTRIES
    values: Mapping[str, Mapping[str, str]] = _NO_ENTRIES
    message_extra: frozenset[str] = frozenset()
    message_drops: frozenset[str] = frozenset()
    message_renames: Mapping[str, str] = _NO_ENTRIES
    roles: Mapping[str, str] = _DEVELOPER_IS_SYSTEM
    late_system_role: str | None = None
    one_system_message: bool = False
    tool_result_media: bool = False
    joins_text_parts: bool = False
    needs_reasoning_content: bool = False
    separates_results: bool = False
    tool_choices: Mapping[str, str] = _NO_ENTRIES
    response_formats: Mapping[str, str] = _NO_ENTRIES
    tool_call_id_chars: int | None = None
    tool_call_id_limit: int | None = None
    tool_types: tuple[str, ...] = ("function", "custom")
    think_tags: bool = False
    effort_budgets: Mapping[str, int] = _NO_ENTRIES
    thinking_types: tuple[ThinkingType, ...] = ()
    effort_off: Mapping[str, Any] = _NO_ENTRIES
    refused_values: Mapping[str, tuple[str, ...]] = _NO_ENTRIES
    strict_tools: StrictTools = "any"
    tool_schema_keys: tuple[str, ...] = ()
    default_effort: str | None = None
    reasoning_summary: ReasoningSummary = "auto"
    responses_only: bool = False
    responses_rules: Mapping[str, Any] = _NO_ENTRIES
    base: "Family | None" = None
    cached_tokens_at: tuple[str, ...] = ()
    reasoning_tokens_at: tuple[str, ...] = ()
    estimator: Estimator = Estimator()

    # What follows from these rules, made when it is first needed.

    @cached_property
    def over_responses(self) -> "Family":
        """The family of calls that go to the Responses API: its own rules there, over what holds for the API."""
        if self.base is not None:
            return self
        rules = {
            **RESPONSES_RULES,
            "message_extra": self.message_extra | {"reasoning_details"},
            "uncapped_completion_tokens": max(self.uncapped_completion_tokens, MIN_OUTPUT_TOKENS - 1),
            **self.responses_rules,
        }
        return replace(self, base=self, **rules)

    @cached_property
    def changed_fields(self) -> frozenset[str]:
        """The fields of a request that are dropped, renamed or refused, or that set other ones."""
        refused = (place.partition(".")[0] for place in self.refused_values)
        effort = {EFFORT} if self.effort_off else set()
        return self.drops.union(self.renames, self.implies, refused, effort)

    @cached_property
    def limited_fields(self) -> frozenset[str]:
        """The fields of a request whose values have limits or other names."""
        return frozenset({*self.clamps, *self.values})

    @cached_property
    def message_fields(self) -> frozenset[str]:
        """The fields of a message that are sent."""
        return (MESSAGE_FIELDS - self.message_drops) | self.message_extra

    @cached_property
    def unchanged_message_fields(self) -> frozenset[str]:
        """The fields of a message that are sent under their own names."""
        return self.message_fields - self.message_renames.keys()

    @cached_property
    def plain_message_fields(self) -> frozenset[str]:
        """The fields of a message that no rule changes, where its content is one text."""
        return self.unchanged_message_fields - {"tool_calls", "tool_call_id"}

    @cached_property
    def known_roles(self) -> frozenset[str]:
        """The roles that a message may have. A family lists its provider-specific roles."""
        return ROLES.union(self.roles)

    @cached_property
    def plain_roles(self) -> frozenset[str]:
        """The roles that are sent as they are, in any message."""
        late = set() if self.late_system_role in (None, "system") else {"system"}
        return frozenset({role for role in self.known_roles if self.roles.get(role, role) == role} - late)


MIN_OUTPUT_TOKENS: Final = 16
"""The lowest cap of the Responses API. Source: its recorded 400 ``integer_below_min_value``."""

RESPONSES_RULES: Final[Mapping[str, Any]] = MappingProxyType(
    {"implies": _NO_ENTRIES, "n_limit": 1, "reasoning_beside_completion": False}
)
"""What holds for each family in the Responses API: tools and reasoning go together, an answer has one choice, and
``output_tokens`` has all tokens. Source: OpenAI, "Migrate to the Responses API"; recordings of xAI."""

CUSTOM_FAMILY: Final = Family("custom")
"""The family of models outside the catalog, unless their provider has another: the contract without changes."""


def check_family(family: Family) -> None:
    """Raise ValueError, naming the fields, for a family that changes fields which no family may change."""
    held = NEVER_DROPPED | RESERVED
    renamed = family.renames.keys() | set(family.renames.values())
    conflicting = {name for names in family.conflicts.values() for name in names}
    implied = {name for fields in (*family.implies.values(), family.effort_off) for name in fields}
    touched = family.drops | family.clamps.keys() | renamed | family.extra | family.values.keys()
    # The hold of a call is computed from ``n``, so ``n`` keeps its name, and is sent as it is counted.
    wrong = (touched | conflicting | implied) & held | (renamed | conflicting | implied) & {"n"}
    _refuse(family, "drop, clamp, rename, set or add", wrong)
    if family.response_formats.get("with_tools", "refused") != "refused":
        raise ValueError(f"family {family.name} may only refuse response_formats.with_tools")
    if "in_prompt" in (sent for form, sent in family.response_formats.items() if form != "json_schema"):
        raise ValueError(
            f"family {family.name} may put json_schema in_prompt, and nothing else of response_formats"
        )
    _refuse(family, "drop from messages", family.message_drops & MESSAGE_FIELDS - {"name"})
    if family.needs_reasoning_content and "reasoning_content" not in family.message_extra:
        raise ValueError(f"family {family.name} needs reasoning_content, so message_extra must list it")
    _refuse(family, "rename in messages", set(family.message_renames) - family.message_extra)
    _refuse(family, "rename in messages to", set(family.message_renames.values()) & MESSAGE_FIELDS)
    _refuse(family, "add to messages what is there already:", family.message_extra & MESSAGE_FIELDS)


def _refuse(family: Family, verb: str, names: set[str] | frozenset[str]) -> None:
    if names:
        raise ValueError(f"family {family.name} may not {verb} {', '.join(sorted(names))}")
