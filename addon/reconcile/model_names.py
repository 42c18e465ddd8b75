"""``ModelNames``: finds which of our models a vendor means. Pure.

A vendor may write a dated snapshot where the catalog has its alias, or the other way round, or a name for people:
"gpt-5.4-2026-03-05", "claude-haiku-4-5-20251001", "Claude Haiku 4.5", "models/gemini-3.8-flash".
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

_DATE: Final = re.compile(r"[-@](?:20[0-9]{2}-?[01][0-9]-?[0-3][0-9]|latest)$")
_SEPARATORS: Final = re.compile(r"[ ._:/@-]+")


class ModelNames:
    """Our models, by ``upstream_model_id``. ``aliases`` maps a vendor's name to one of them, before any rule."""

    def __init__(self, ours: Iterable[str], aliases: Mapping[str, str]) -> None:
        self._ours = sorted(set(ours))
        self._aliases = aliases
        self._found: dict[str, str] = {}
        self._plain = {_plain(name): name for name in self._ours}
        # Of several snapshots, the newest is the last one. A name without a date goes before all of them.
        self._undated = {_undated(name): name for name in self._ours}
        self._undated |= {_plain(name): name for name in self._ours if _plain(name) == _undated(name)}

    def find(self, vendor_name: str) -> str:
        """Return our name for a model, or the vendor's own where none of ours is meant."""
        if vendor_name not in self._found:
            self._found[vendor_name] = self._find(vendor_name)
        return self._found[vendor_name]

    def _find(self, name: str) -> str:
        if name in self._aliases:
            return self._aliases[name]
        if name in self._ours:
            return name
        return self._plain.get(_plain(name)) or self._undated.get(_undated(name)) or name


def _plain(name: str) -> str:
    return _SEPARATORS.sub("-", name.strip().lower().removeprefix("models/"))


def _undated(name: str) -> str:
    return _plain(_DATE.sub("", name.strip().lower()))
