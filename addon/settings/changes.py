"""Which files changed between two sets of settings, and which keys of them. A value is never named."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from addon.settings.builder import BuiltFrom
from addon.settings.errors import SettingsError, join_key_path
from addon.settings.file_content import parse_toml
from addon.settings.sources import FileCopy
from addon.text.sequence_diff import compare

MAX_NAMED: Final = 20
"""The most files, and the most keys of one file, that are named. The others are counted."""


def describe_changes(before: BuiltFrom, after: BuiltFrom, texts: Collection[Path]) -> str:
    """Return the changes in one line, an empty text where there is none. ``texts`` are the files without secrets."""
    old, new = _read_texts(before, texts), _read_texts(after, texts)
    files = {*old, *new}
    names = Counter(file.name for file in files)
    lines = []
    for file in sorted(file for file in files if old.get(file) != new.get(file)):
        name = file.name if names[file.name] == 1 else f"{file.parent.name}/{file.name}"
        lines.append(f"{name}{_describe_file(file, old.get(file), new.get(file))}")
    for name, text in after.texts.items():
        if name in before.texts and before.texts[name].refused != text.refused:
            lines.append(f"{text.file.name}: which of its keys another workspace has")
        if name in before.texts and before.texts[name].revoked != text.revoked:
            lines.append(f"{text.file.name}: which of its keys are revoked in the ledger")
    if _read_secrets(before, texts) != _read_secrets(after, texts):
        lines.append("secret files")
    return "; ".join(_bound(lines))


def find_changed_keys(before: Mapping[str, Any], after: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the dotted key of each change between two tables, such as ``keys[ci].request_cap``."""
    for key in {**before, **after}:
        name = f"{path}.{join_key_path(key)}" if path else join_key_path(key)
        if key not in before:
            yield f"{name} added"
        elif key not in after:
            yield f"{name} removed"
        else:
            yield from _find_changed(before[key], after[key], name)


def _find_changed(before: Any, after: Any, name: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from find_changed_keys(before, after, name)
    elif _is_array_of_tables(before) and _is_array_of_tables(after):
        old, new = _index_by_id(before), _index_by_id(after)
        if old is None or new is None:
            yield from _find_changed_entries(before, after, name)
        else:
            yield from _find_changed_ids(old, new, name)
    elif repr(before) != repr(after):
        yield name


def _find_changed_ids(
    before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]], name: str
) -> Iterator[str]:
    """Yield the changes of entries that have ids, whatever their order."""
    for entry in {**before, **after}:
        if entry not in before:
            yield f"{name}[{entry}] added"
        elif entry not in after:
            yield f"{name}[{entry}] removed"
        else:
            yield from find_changed_keys(before[entry], after[entry], f"{name}[{entry}]")


def _find_changed_entries(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], name: str
) -> Iterator[str]:
    """Yield the changes of entries that have only an order. A removed one has its number from before."""
    edits = compare([repr(one) for one in before], [repr(one) for one in after])
    for kind, first, last, new_first, new_last in edits:
        if kind == "equal":
            continue
        if last - first == new_last - new_first:
            for old, new in zip(range(first, last), range(new_first, new_last), strict=True):
                yield from find_changed_keys(before[old], after[new], f"{name}[{new}]")
            continue
        yield from (f"{name}[{index}] removed" for index in range(first, last))
        yield from (f"{name}[{index}] added" for index in range(new_first, new_last))


def _describe_file(file: Path, before: bytes | None, after: bytes | None) -> str:
    if before is None:
        return " added"
    if after is None:
        return " removed"
    try:
        keys = list(find_changed_keys(parse_toml(before, file), parse_toml(after, file)))
    except SettingsError:
        return ""  # It is no TOML: a policy, or a certificate.
    return f": {', '.join(_bound(keys))}" if keys else ": only its layout"


def _read_texts(built: BuiltFrom, texts: Collection[Path]) -> dict[Path, bytes]:
    shared = {file: content for file, (content, _) in built.shared_files.items() if file in texts}
    return shared | {text.file: text.text for text in built.texts.values()}


def _read_secrets(built: BuiltFrom, texts: Collection[Path]) -> dict[Path, FileCopy]:
    files = {**built.shared_files, **built.secret_files}
    return {file: copy for file, copy in files.items() if file not in texts}


def _is_array_of_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, Mapping) for entry in value)


def _index_by_id(entries: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]] | None:
    """Return the entries by their ids, None where they have none."""
    by_id = {str(entry["id"]): entry for entry in entries if "id" in entry}
    return by_id if len(by_id) == len(entries) else None


def _bound(names: list[str]) -> list[str]:
    more = [f"{len(names) - MAX_NAMED} more"] if len(names) > MAX_NAMED else []
    return [*names[:MAX_NAMED], *more]
