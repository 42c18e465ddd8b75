"""What the Python programs here share: the setting of the gateway, and the two tools of the task."""

import os
from pathlib import Path

URL, KEY, MODEL = (os.environ[name] for name in ("GATEWAY_URL", "GATEWAY_KEY", "GATEWAY_MODEL"))
PROMPT = os.environ["PROMPT"]
TITLE = "A note is copied"
"""What the vendors say, as JSON with ``title``, to a request without tools."""
NO_ARGUMENTS = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
ONE_TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


def read_note() -> str:
    """Read note.txt."""
    return Path("note.txt").read_text(encoding="utf-8")


def write_copy(text: str) -> str:
    """Write text to copy.txt."""
    Path("copy.txt").write_text(text, encoding="utf-8")
    return "written"


def run_tool(name: str, given: dict[str, str]) -> str:
    """Run one of the tools."""
    return {"read_note": read_note, "write_copy": write_copy}[name](**given)
