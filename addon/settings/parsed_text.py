"""``ParsedText``: the text of one workspace file, parsed by itself, without other files."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from addon.settings.errors import SettingsError, join_errors
from addon.settings.workspace_builder import parse_without_override, parse_workspace
from addon.settings.workspace_schema import WorkspaceTable

_HASH: Final = re.compile(rb"[0-9A-Fa-f]{64}")


@dataclass(frozen=True, slots=True)
class ParsedText:
    """The text of a workspace file, with its table or its error.

    It has both if only ``rpm_override`` can't be read, which is 1 in the table then.
    """

    text: bytes
    table: WorkspaceTable | None = None
    error: SettingsError | None = None
    hashes: tuple[str, ...] = ()

    @property
    def served_table(self) -> WorkspaceTable:
        """The table to serve on. Raises ``SettingsError`` where there is none."""
        if self.table is None:
            raise self.error or AssertionError("a text has a table or an error")
        return self.table


def parse_text(file: Path, text: bytes) -> ParsedText:
    """Return the text of a workspace file, parsed."""
    table, error = _attempt(file, lambda: parse_workspace(file, text))
    if error:
        first = error
        table, others = _attempt(file, lambda: parse_without_override(file, text, first))
        error = join_errors([*first.all, *others.all]) if others else first
    hashes = tuple(one for key in table.keys for one in key.hashes) if table else ()
    return ParsedText(text, table, error, hashes)


def _attempt[T](file: Path, parse: Callable[[], T]) -> tuple[T | None, SettingsError | None]:
    try:
        return parse(), None
    except Exception as error:  # noqa: BLE001  (no file of one customer may stop the others)
        return None, describe_fault(error, file)


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
