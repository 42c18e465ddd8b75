"""The edits of a chunk's bytes that give it its normalized choices. Pure.

When only a word or two change, only those bytes do.
"""

from collections.abc import Mapping
from typing import Any

from addon.answers.normalize.choices import ChunkResult
from addon.answers.normalize.reasoning import rename_edits
from addon.answers.normalize.role import role_edits
from addon.text.json_edits import Edit, value_edit
from addon.text.json_encode import encode_json


def choices_edits(payload: bytes, chunk: Mapping[str, Any], result: ChunkResult) -> list[Edit]:
    """Return the edits that give ``payload``, the JSON of ``chunk``, the choices of ``result``."""
    if result.choices is None:
        return []
    roles = role_edits(payload) if result.role_dropped else []
    if roles is None or not (result.is_renamed or result.role_dropped):
        return [value_edit(payload, "choices", encode_json(result.choices))]
    return [*roles, *(rename_edits(payload, chunk) if result.is_renamed else [])]
