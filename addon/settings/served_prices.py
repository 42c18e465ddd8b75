"""The prices that a gateway served last, so that its log can name those that an upgrade or an edit changed.

They are in one file next to the ledger. Source: docs/catalog.md, "Updating prices".
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from addon.runtime.atomic_files import write_atomically
from policies.model import Model
from policies.money import price_usd_per_mtok

FILE_NAME: Final = "served-prices.json"
MAX_NAMED: Final = 20
"""The most changes that one line names."""

_MAX_BYTES: Final = 16 << 20

type _Prices = Mapping[str, Mapping[str, str | None]]
"""Prices in USD per million tokens by slug and key of models.toml; None where the input price applies."""


class ServedPrices:
    """The prices in ``file``, which is missing before the first start."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._models: Mapping[str, Model] | None = None

    def note(self, models: Mapping[str, Model]) -> str | None:
        """Keep the prices of ``models``. Return the changes as one line, None when no price changed.

        Models that are new or gone change no price. Raises OSError when the file can't be written.
        """
        if models is self._models:
            return None
        before, now = self._read(), {slug: _prices_of(model) for slug, model in models.items()}
        if before != now:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._file, json.dumps(now, indent=1))
        self._models = models
        return _join(list(_find_changes(before, now)))

    def _read(self) -> _Prices:
        """Return the prices in the file. A missing or damaged one has none."""
        try:
            with self._file.open("rb") as stream:
                found: Any = json.loads(stream.read(_MAX_BYTES))
        except (OSError, ValueError, RecursionError):
            return {}
        is_valid = isinstance(found, dict) and all(isinstance(prices, dict) for prices in found.values())
        return found if is_valid else {}


def _prices_of(model: Model) -> dict[str, str | None]:
    return {
        key: None if price is None else f"{price_usd_per_mtok(price).normalize():f}"
        for key, price in model.list_wholesale().items()
    }


def _find_changes(before: _Prices, now: _Prices) -> Iterator[str]:
    for slug in sorted(before.keys() & now.keys()):
        for key in [*now[slug], *(before[slug].keys() - now[slug].keys())]:
            old, price = before[slug].get(key), now[slug].get(key)
            if old != price:
                yield f"{slug}: {key} {old or 'none'} → {price or 'none'}"


def _join(changes: list[str]) -> str | None:
    more = [f"and {len(changes) - MAX_NAMED} more"] if len(changes) > MAX_NAMED else []
    return "; ".join([*changes[:MAX_NAMED], *more]) or None
