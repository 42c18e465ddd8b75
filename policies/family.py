"""What the models of one family accept, and what no family may change.

Messages, tools and the cap go upstream whatever a family says, and money is held for exactly what is sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

CapField = Literal["max_tokens", "max_completion_tokens"]
ToolChoiceForm = Literal["auto", "none", "required", "named"]
ToolChoiceSent = Literal["auto", "none", "required", "any", "refused"]
ResponseFormatForm = Literal["text", "json_object", "json_schema", "with_tools"]
ResponseFormatSent = Literal["json_object", "in_prompt", "dropped", "refused"]

_NO_ENTRIES: Final[Mapping[Any, Any]] = MappingProxyType({})
_DEVELOPER_IS_SYSTEM: Final[Mapping[str, str]] = MappingProxyType({"developer": "system"})

# Source: contract, "Message object".
MESSAGE_FIELDS: Final = frozenset({"role", "content", "name", "tool_calls", "tool_call_id"})
NEVER_DROPPED: Final = frozenset({"messages", "tools", "tool_choice"})
# Ours alone: whatever a client said about them was decided before, and reaches the interpreter as an argument.
RESERVED: Final = frozenset({"model", "max_tokens", "max_completion_tokens", "stream", "stream_options"})


@dataclass(frozen=True, slots=True)
class Estimator:
    """How the provider of one family counts tokens, nearly always at most; in tokens, or in bytes for each token.

    ``letters_per_token`` speaks of small ASCII letters and spaces, ``marks_per_token`` of all other ASCII (capitals,
    digits, punctuation, line ends), ``other_bytes_per_token`` of UTF-8 bytes beyond ASCII. ``tokens_per_message``
    are added for each message and each tool call, ``tools_tokens`` once to a prompt with tools or a response format.
    ``completion_chars_per_token`` is the middle, not a bound: it serves answers.
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


@dataclass(frozen=True, slots=True)
class Family:
    """What the models of one family accept; everything not named here is accepted as the contract states it.

    ``clamps`` maps a field to its (lowest, highest) accepted value; ``drops`` are fields never sent;
    ``renames`` maps the contract's field to the provider's; ``extra`` are accepted beyond the contract's fields.
    ``values`` maps a field to what some of its values are called. While a field is set and not off, ``conflicts``
    drops others, and ``implies`` sets others.

    Of a message: ``message_extra`` are accepted beyond the contract's five fields, ``message_drops`` are never sent,
    ``message_renames`` maps one of them to the provider's name,
    ``roles`` maps a role to the one sent in its place, ``late_system_role`` replaces ``system`` after the first message
    of another role; ``tool_call_id_chars`` is the exact length of an id, ``tool_call_id_limit`` its greatest.
    ``tool_types`` are taken; a provider runs and bills any other by itself.
    ``needs_reasoning_content``: an assistant message with tool calls must bear it, be it empty.
    ``tool_choices`` and ``response_formats`` map a form to what is sent for it, or refuse it; a JSON schema may go
    ``"in_prompt"``.

    Of an answer: with ``think_tags``, text between a leading ``<think>`` and ``</think>`` is reasoning;
    ``cached_tokens_at`` and ``reasoning_tokens_at`` are dotted paths in ``usage``, the known ones where empty.
    ``reasons_unseen``: it may reason without showing it, some ``tokens_per_s`` (0: unknown) of it.
    ``effort_budgets`` (tokens) serve native dialects: where empty, the effort's name is sent.
    """

    name: str
    cap_field: CapField = "max_tokens"
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
    joins_text_parts: bool = False
    needs_reasoning_content: bool = False
    tool_choices: Mapping[str, str] = _NO_ENTRIES
    response_formats: Mapping[str, str] = _NO_ENTRIES
    tool_call_id_chars: int | None = None
    tool_call_id_limit: int | None = None
    tool_types: tuple[str, ...] = ("function", "custom")
    think_tags: bool = False
    effort_budgets: Mapping[str, int] = _NO_ENTRIES
    cached_tokens_at: tuple[str, ...] = ()
    reasoning_tokens_at: tuple[str, ...] = ()
    estimator: Estimator = Estimator()


CUSTOM_FAMILY: Final = Family("custom")
"""What a model outside the catalog accepts where its provider does not say: the contract as it stands."""


def check_family(family: Family) -> None:
    """Raise ValueError, naming the fields, for a family that touches what no family may."""
    held = NEVER_DROPPED | RESERVED
    renamed = family.renames.keys() | set(family.renames.values())
    conflicting = {name for names in family.conflicts.values() for name in names}
    implied = {name for fields in family.implies.values() for name in fields}
    touched = family.drops | family.clamps.keys() | renamed | family.extra | family.values.keys()
    # What is held for a call is counted by ``n``, so ``n`` must be what it is called, and sent as it is counted.
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
