"""Edits of a workspace's file as text. Hashes and secrets are hidden in the text, and line ends stay as they are."""

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from addon.edits.hidden_values import HiddenText, HiddenValueError, hide_values
from addon.edits.toml_lines import Statement, find_table, make_header, read_statements, split_lines
from addon.edits.workspace_files import CHANGED, EditError, Plan, find_file, hash_content
from addon.settings.sources import Sources
from addon.text.sequence_diff import compare

MAX_TEXT_CHARS: Final = 300_000
MAX_LINES: Final = 20_000


@dataclass(frozen=True, slots=True)
class EditableText:
    """A file as it may be shown and edited. It need not load.

    ``source`` is its whole text. ``is_damaged`` says whether bytes that are no UTF-8 were replaced.
    """

    file: Path
    content: bytes
    source: str
    hidden: HiddenText
    is_damaged: bool

    @property
    def digest(self) -> str:
        return hash_content(self.content)


def read_editable(folder: Path, workspace: str) -> EditableText:
    """Return the text of a workspace's file. Raises ``EditError``, or OSError."""
    file = find_file(folder, workspace)
    content = Sources().read(file)
    try:
        source, is_damaged = content.removeprefix(codecs.BOM_UTF8).decode(), False
    except UnicodeDecodeError:
        source, is_damaged = content.removeprefix(codecs.BOM_UTF8).decode(errors="replace"), True
    if len(source) > MAX_TEXT_CHARS or source.count("\n") > MAX_LINES:
        raise EditError(
            f"the file has more than {MAX_TEXT_CHARS:,} characters or {MAX_LINES:,} lines; use a text editor"
        )
    try:
        hidden = hide_values(source.replace("\r\n", "\n"))
    except HiddenValueError as error:
        raise EditError(str(error)) from None
    return EditableText(file, content, source, hidden, is_damaged)


def plan_text(folder: Path, workspace: str, digest: str, typed: str) -> Plan:
    """Plan to replace the text of a file, which was shown with this ``digest``. The new text need not load.

    Raises ``EditError``, HiddenValueError or OSError.
    """
    shown = read_editable(folder, workspace)
    if shown.digest != digest:
        raise EditError(CHANGED)
    if typed.count("\n") > MAX_LINES:
        raise HiddenValueError(f"the text has more than {MAX_LINES:,} lines")
    text = shown.hidden.restore(typed)
    text = restore_line_ends(shown.source, text)
    return Plan(shown.file, shown.content, text, f"Edit the file of the workspace {workspace}")


def restore_line_ends(before: str, text: str) -> str:
    """Return a text with line feeds with the line ends that ``before`` has. New lines have its most common one."""
    returns, feeds = before.count("\r\n"), before.count("\n")
    if returns == 0:
        return text
    if returns == feeds:
        return text.replace("\n", "\r\n")
    usual = "\r\n" if 2 * returns > feeds else "\n"
    old = before.split("\n")
    new = text.split("\n")
    lines = [f"{line}{usual}" for line in new]
    plain = [line.removesuffix("\r") for line in old]
    for kind, begin, end, to, _ in compare(plain, new):
        if kind == "equal":
            lines[to : to + end - begin] = [f"{line}\n" for line in old[begin:end]]
    return "".join(lines).removesuffix("\n").removesuffix("\r")


def find_lines(text: str, keys: Sequence[str]) -> list[int | None]:
    """Return the number of the line of each key path, such as ``keys[1] (ci).label``, None where it has none."""
    try:
        statements = list(read_statements(split_lines(text)))
    except ValueError:
        return [None] * len(keys)
    return [_find_line(statements, key) if key else None for key in keys]


def _find_line(statements: Sequence[Statement], key: str) -> int | None:
    *path, last = re.sub(r" \([^()]*\)", "", key).split(".")
    found = re.fullmatch(r"([\w-]+)\[([0-9]+)\]", path[0]) if len(path) == 1 else None
    header = {found[1]: [{}]} if found else make_header(*path) if path else None
    try:
        table = find_table(statements, header, int(found[2]) if found else 0)
    except ValueError:
        table = []
    name = last.partition("[")[0]
    lines = [one.start for one in table if [*one.parsed] == [name] and not one.is_header]
    # The key may be a table with a header of its own.
    lines += [one.start for one in statements if one.is_header and one.parsed == make_header(*path, name)]
    lines += [table[0].start] if table else [] if path else [0]
    return lines[0] + 1 if lines else None
