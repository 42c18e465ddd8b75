"""The turns of a request of Anthropic's Messages API that goes as its client wrote it. Pure.

A block stays the object that it is, unless another attempt of the conversation, at another provider, left something in
it that Anthropic refuses.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from addon.dialects.anthropic.messages import accepted_id, thinking_blocks
from addon.dialects.anthropic.parts import Block
from addon.dialects.content_blocks import REASONING_FORMAT
from addon.dialects.opaque_reasoning import is_sealed, unseal, with_shown_text
from policies.large_text import whole_text

type Turn = Mapping[str, Any]

_SEALED_AT: Final = {"thinking": "signature", "redacted_thinking": "data"}
_ID_AT: Final = {"tool_use": "id", "tool_result": "tool_use_id"}


def restore_turns(turns: Sequence[Turn]) -> tuple[list[Turn], list[str]]:
    """Return the turns, and the types of the blocks of thinking that were left out.

    Thinking that the gateway sealed becomes Anthropic's own again, or is left out where it is another provider's, or
    nobody's. An id that the API refuses becomes another one. A turn of which nothing is left is left out.
    """
    made: list[Turn] = []
    left_out: list[str] = []
    for turn in turns:
        content = turn.get("content")
        if not isinstance(content, list) or not any(map(_needs_change, content)):
            made.append(turn)
            continue
        blocks = [block for given in content for block in _restored(given, left_out)]
        if blocks:
            made.append({**turn, "content": blocks})
    return made, left_out


def move_late_system(body: dict[str, Any]) -> list[str]:
    """Move the system messages of the conversation into ``system``, for models that take them only there.

    Return the types of their blocks that ``system`` can't hold.
    """
    turns: Sequence[Turn] = body["messages"]
    late = [block for turn in turns if turn.get("role") == "system" for block in _blocks(turn.get("content"))]
    texts = [block for block in late if block.get("type") == "text"]
    if texts:
        body["system"] = [*_blocks(body.get("system")), *texts]
    body["messages"] = [turn for turn in turns if turn.get("role") != "system"]
    return [str(block.get("type")) for block in late if block.get("type") != "text"]


def with_blocks(turns: Sequence[Turn]) -> list[Block]:
    """Return the turns with all content as blocks, without empty ones."""
    return [{**turn, "content": blocks} for turn in turns if (blocks := _blocks(turn.get("content")))]


def _blocks(content: object) -> list[Block]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    return content if isinstance(content, list) else []


def _needs_change(block: Block) -> bool:
    kind = block.get("type")
    if kind in _ID_AT:
        given = block.get(_ID_AT[kind])
        return isinstance(given, str) and accepted_id(given) != given
    if kind not in _SEALED_AT:
        return False
    sealed = block.get(_SEALED_AT[kind])
    return not sealed or (isinstance(sealed, str) and is_sealed(sealed))


def _restored(block: Block, left_out: list[str]) -> list[Block]:
    if not _needs_change(block):
        return [block]
    kind: str = block["type"]
    if kind in _ID_AT:
        return [{**block, _ID_AT[kind]: accepted_id(block[_ID_AT[kind]])}]
    details = unseal(block.get(_SEALED_AT[kind]) or "") or []
    if details and all(detail.get("format") == REASONING_FORMAT for detail in details):
        text = block.get("thinking")
        shown = whole_text(text) if isinstance(text, str) else ""
        return thinking_blocks(with_shown_text(details, shown), kind)
    left_out.append(kind)
    return []
