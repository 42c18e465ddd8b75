"""``ParsedText``: the text of one workspace file, parsed by itself, without other files."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from addon.settings.errors import SettingsError
from addon.settings.workspace_builder import parse_workspace
from addon.settings.workspace_schema import WorkspaceTable

_HASH: Final = re.compile(rb"[0-9A-Fa-f]{64}")


@dataclass(frozen=True, slots=True)
class ParsedText:
    """The text of a workspace file, with its table or its error."""

    text: bytes
    table: WorkspaceTable | None = None
    error: SettingsError | None = None
    hashes: tuple[str, ...] = ()


def parse_text(file: Path, text: bytes) -> ParsedText:
    """Return the text of a workspace file, parsed."""
    try:
        table = parse_workspace(file, text)
    except Exception as error:  # noqa: BLE001  (no file of one customer may stop the others)
        return ParsedText(text, error=describe_fault(error, file))
    return ParsedText(text, table, hashes=tuple(one for key in table.keys for one in key.hashes))


def describe_fault(error: Exception, file: Path) -> SettingsError:
    """Return the error to report for a file. Leave out the message of an unknown one: it may hold a secret."""
    if isinstance(error, SettingsError):
        return error
    return SettingsError(file, "", f"can't be loaded: {type(error).__name__}")


def find_hashes(file: Path, text: bytes) -> Iterator[str]:
    """Yield at least the hashes that a text claims. Parse it only where it could write one in another way."""
    if b"\\" in text:  # TOML can write any character as an escape.
        yield from parse_text(file, text).hashes
    else:
        yield from (found.decode().lower() for found in _HASH.findall(text))
