"""Server-sent events of a recording, read from its whole text."""

import json
from typing import Any


def event_texts(text: str) -> list[str]:
    """Return the data of every event before ``[DONE]``.

    Some servers leave out the blank line between events. Then each line is an event of its own.
    """
    blocks = text.replace("\r\n", "\n").replace("\r", "\n").split("\n\n")
    found: list[str] = []
    for lines in map(_data_lines, blocks):
        joined = "\n".join(lines).strip()
        apart = len(lines) > 1 and not is_json(joined) and all(map(is_json, lines))
        found += lines if apart else [joined] if lines else []
    texts = [text for text in found if text]
    return texts[: texts.index("[DONE]")] if "[DONE]" in texts else texts


def _data_lines(block: str) -> list[str]:
    return [line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:")]


def is_json(text: str) -> bool:
    """Return whether ``text`` is JSON or ``[DONE]``."""
    return text.strip() == "[DONE]" or read_json(text) is not None


def read_json(text: str) -> Any:
    """Return the JSON value, or None for a text that is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None
