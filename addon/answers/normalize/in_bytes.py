"""What becomes of a chunk's choices is done to its bytes: where a word or two change, to those alone. Pure."""

from collections.abc import Mapping
from typing import Any

from addon.answers.normalize.choices import Normal
from addon.answers.normalize.reasoning import rename_edits
from addon.answers.normalize.role import role_edits
from addon.text.json_edits import Edit, value_edit
from addon.text.json_encode import json_text


def choices_edits(payload: bytes, chunk: Mapping[str, Any], normal: Normal) -> list[Edit]:
    """Return the edits to the JSON ``payload`` of ``chunk`` that give it the choices of ``normal``."""
    if normal.choices is None:
        return []
    roles = role_edits(payload) if normal.drops_role else []
    if roles is None or not (normal.renames or normal.drops_role):
        return [value_edit(payload, "choices", json_text(normal.choices))]
    return [*roles, *(rename_edits(payload, chunk) if normal.renames else [])]
