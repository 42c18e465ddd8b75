"""The files of a gateway that ``tollgate init --from`` moves, and their texts with the paths that they need then.

A file keeps its place relative to proxy.conf, so most paths stay as they are. What lies outside of the old folder stays
there, and relative paths to it become absolute.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from addon.commands.init_git import Checkout
from addon.edits.toml_lines import add_named_table, set_table_values
from addon.settings.conf_schema import ProxyConf
from addon.text.toml import load_toml

CONF: Final = "proxy.conf"
OVERLAY: Final = "catalog"
KEYS: Final = "keys.env"
_FILE: Final = "file:"
_STATE: Final = ("last-good", "served-prices.json")
"""What lies next to the ledger, and has not its name."""


@dataclass(frozen=True, slots=True)
class Source:
    """The gateway in ``folder``. ``files`` move, ``texts`` are the new ones of those that name other paths."""

    folder: Path
    files: tuple[Path, ...]
    texts: Mapping[Path, str]
    has_edited_catalog: bool


def read_source(folder: Path, conf: ProxyConf, checkout: Checkout) -> Source:
    """Find what moves, while nothing uses the ledger. Raises OSError or ``ClickException``."""
    conf_file = folder / CONF
    catalog = conf.paths.catalog
    is_edited = catalog.is_relative_to(folder) and bool(checkout.find_changes(catalog))
    owned = list(_list_files(folder, conf, with_catalog=is_edited))
    texts = {conf_file: _read(conf_file), **{file: _read(file) for file in owned if file.suffix == ".toml"}}
    named = {path for file, text in texts.items() for path in _find_references(file, text).values()}
    if conf.listen.tls_certificate:
        named.add(conf.listen.tls_certificate)
    files = dict.fromkeys([*owned, *(path for path in sorted(named) if _is_inside(path, folder))])
    new = {file: _make_absolute(file, text, folder) for file, text in texts.items()}
    new[conf_file] = _write_paths(new[conf_file], conf, folder, keeps_catalog=is_edited)
    changed = {file: text for file, text in new.items() if text != texts[file] or file == conf_file}
    return Source(folder, tuple(file for file in files if file.exists()), changed, is_edited)


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _is_inside(path: Path, folder: Path) -> bool:
    return Path(os.path.normpath(path)).is_relative_to(folder)


def _list_files(folder: Path, conf: ProxyConf, *, with_catalog: bool) -> Iterator[Path]:
    """Yield the operator's own files below ``folder``, and what lies next to the ledger."""
    paths = conf.paths
    folders = [paths.workspaces, *([paths.catalog_overlay] if paths.catalog_overlay else [])]
    for one in [*folders, *([paths.catalog] if with_catalog else [])]:
        if _is_inside(one, folder) and one.is_dir():
            yield from sorted(one.glob("*.toml"))
    yield from (folder / "policies" / f"{name}.py" for name in conf.policies.extra)
    yield folder / KEYS
    state = paths.database.parent
    if _is_inside(state, folder) and state.is_dir():
        for file in sorted(state.iterdir()):
            if state != folder or file.name in _STATE or file.name.startswith(paths.database.name):
                yield from () if file.is_socket() else (file,)


def _find_references(file: Path, text: str) -> dict[str, Path]:
    """Return the path of each ``file:`` secret in a text, by the reference as it stands there."""
    return {
        one: Path(os.path.normpath(file.parent / one.removeprefix(_FILE)))
        for one in _walk(load_toml(text))
        if one.startswith(_FILE) and "*" not in one
    }


def _walk(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _walk(one)


def _make_absolute(file: Path, text: str, folder: Path) -> str:
    """Return a text in which each reference to a file outside of ``folder`` is absolute."""
    for reference, path in _find_references(file, text).items():
        if reference != (new := f"{_FILE}{path}") and not _is_inside(path, folder):
            for mark in ('"', "'"):
                text = text.replace(f"{mark}{reference}{mark}", f"{mark}{new}{mark}")
            if reference in _walk(load_toml(text)):
                raise click.ClickException(f'{file}: write "{new}" instead of "{reference}", and try again')
    return text


def _write_paths(text: str, conf: ProxyConf, folder: Path, *, keeps_catalog: bool) -> str:
    paths = conf.paths
    wanted = {
        "workspaces": find_place(paths.workspaces, folder),
        "database": find_place(paths.database, folder),
        "catalog_overlay": find_place(paths.catalog_overlay, folder) if paths.catalog_overlay else OVERLAY,
    }
    if keeps_catalog or not paths.catalog.is_relative_to(folder):
        wanted["catalog"] = find_place(paths.catalog, folder)
    else:
        wanted["catalog"] = ""
    text = _set(text, "paths", wanted)
    certificate = conf.listen.tls_certificate
    return _set(text, "listen", {"tls_certificate": find_place(certificate, folder)}) if certificate else text


def find_place(path: Path, folder: Path) -> str:
    """Return a path as the new proxy.conf has it: relative where the file moves."""
    normal = Path(os.path.normpath(path))
    return str(normal.relative_to(folder) if normal.is_relative_to(folder) else normal)


def _set(text: str, section: str, values: Mapping[str, str]) -> str:
    try:
        if section in load_toml(text):
            return set_table_values(text, dict(values), section)
        return add_named_table(text, values, section)
    except ValueError as error:
        raise click.ClickException(f"{CONF}: [{section}] {error}") from None
