"""Thinking blocks become the reasoning of a chat message. Pure.

What the gateway sealed goes back to the provider that made it. Anthropic's own signatures go to Claude at other places.
Source: docs/decisions/reasoning-goes-back-to-its-provider.md.
"""

from collections.abc import Sequence
from typing import Any

from addon.apis.chat_body import Losses
from addon.apis.messages.blocks import Block
from addon.apis.reasoning_details import Details, number_details
from addon.apis.thought_signatures import restore_signatures
from addon.dialects.content_blocks import REASONING_FORMAT
from addon.dialects.opaque_reasoning import is_sealed, unseal, with_shown_text
from policies.large_text import whole_text


def add_reasoning(message: dict[str, Any], blocks: Sequence[Block], losses: Losses) -> None:
    """Add the thinking ``blocks`` of an assistant's turn to its chat message."""
    found: list[Details] = []
    texts: list[str] = []
    for block in blocks:
        details, text = _read(block)
        if details is None:
            losses.drop(f"messages.{block['type']}")
            continue
        found.append(details)
        texts.append(text)
    details = restore_signatures(message, list(number_details(found)))
    if details:
        message["reasoning_details"] = details
    if text := "".join(texts):
        message["reasoning_content"] = text


def _read(block: Block) -> tuple[Details | None, str]:
    """Return the details of a block, None where it means nothing to any provider, and its text if it was sealed."""
    is_redacted = block["type"] == "redacted_thinking"
    sealed: str = block["data"] if is_redacted else block.get("signature") or ""
    text = "" if is_redacted else whole_text(block["thinking"])
    if is_sealed(sealed):
        details = unseal(sealed)
        return details and with_shown_text(details, text), text
    if not sealed:
        return None, ""
    if is_redacted:
        return [{"type": "reasoning.encrypted", "data": sealed, "format": REASONING_FORMAT}], ""
    return [{"type": "reasoning.text", "text": text, "signature": sealed, "format": REASONING_FORMAT}], ""
