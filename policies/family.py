"""What no family may say: messages, tools and the cap go upstream whatever it says, and what is held for stays so."""

from typing import Final

from policies.model import Family

# Source: contract, "Message object".
MESSAGE_FIELDS: Final = frozenset({"role", "content", "name", "tool_calls", "tool_call_id"})
NEVER_DROPPED: Final = frozenset({"messages", "tools", "tool_choice"})
# Ours alone: whatever a client said about them was decided before, and reaches the interpreter as an argument.
RESERVED: Final = frozenset({"model", "max_tokens", "max_completion_tokens", "stream", "stream_options"})


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
