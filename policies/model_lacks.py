"""What a model lacks: a call that needs it is refused by name, before anything is sent.

Its vendor would refuse the call, too, often in words that don't say why.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

from policies.model import Model
from policies.refusal import Refusal

Lack = Literal["images", "image_urls", "tools", "streamed_tools", "text_beside_tool_calls"]

LACKS: Final[tuple[Lack, ...]] = get_args(Lack)
_IMAGE: Final = "image_url"


def check_lacks(fields: Mapping[str, Any], model: Model, *, stream: bool) -> None:
    """Raise Refusal ``validation_failed``, naming the field, for a call that needs what the model lacks."""
    lacks, messages = model.lacks, fields.get("messages", ())
    if "images" in lacks and (place := _find_image(messages)):
        _refuse(place, f"{model.slug} does not take images.")
    if "image_urls" in lacks and (place := _find_image(messages, by_url=True)):
        _refuse(place, f"{model.slug} takes images as base64 data URLs only.")
    if not fields.get("tools"):
        return
    if "tools" in lacks:
        _refuse("tools", f"{model.slug} does not take tools.")
    if "streamed_tools" in lacks and stream:
        _refuse("tools", f"{model.slug} does not take tools in a streamed call.")
    if "text_beside_tool_calls" in lacks and (place := _find_text_beside(messages)):
        _refuse(place, f"{model.slug} does not take text beside tool calls, or right after their results.")


def _find_image(messages: Sequence[Mapping[str, Any]], *, by_url: bool = False) -> str | None:
    """Return the place of the first image, or of the first that its vendor would have to fetch."""
    for index, message in enumerate(messages):
        if isinstance(content := message.get("content"), list):
            for at, part in enumerate(content):
                if part["type"] == _IMAGE and (not by_url or _is_address(part.get(_IMAGE))):
                    return f"messages.{index}.content.{at}"
    return None


def _is_address(image: Any) -> bool:
    url = image.get("url") if isinstance(image, Mapping) else image
    return isinstance(url, str) and url[:4].lower() == "http"


def _find_text_beside(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the place of text in a turn that has tool calls, or results of tools."""
    previous = None
    for index, message in enumerate(messages):
        is_beside = message["role"] == "user" and previous == "tool"
        if is_beside or (message.get("tool_calls") and message.get("content")):
            return f"messages.{index}.content"
        previous = message["role"]
    return None


def _refuse(place: str, reason: str) -> None:
    raise Refusal("validation_failed", f"{place}: {reason}", place)
