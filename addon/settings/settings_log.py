"""The log lines of a set of settings: what it serves, its warnings, and what a reload changed.

Only the process that watches the files writes them. Source: docs/operating.md, "Events".
"""

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Final

from addon import VERSION
from addon.settings.overview import FileWarning, Overview, find_file_warnings
from addon.settings.settings import Settings
from policies.limits import is_exposed

_log = logging.getLogger("tollgate.settings")

_MAX_LISTED: Final = 20
"""The most workspaces that one line names."""
MAX_WARNINGS: Final = 50
"""The most warnings that are logged at once."""

_PROTECTED = {"event": "overage protection by default"}
_EXPOSED = {"event": "overage protection off"}


class SettingsLog:
    """The log of one process. It writes each warning once, until it is gone and comes again."""

    def __init__(self) -> None:
        self._warnings: frozenset[FileWarning] = frozenset()

    def log_start(self, settings: Settings) -> None:
        """Log what the process serves from now on, and the warnings."""
        overview, warnings = Overview.of(settings), find_file_warnings(settings)
        fields = {
            "event": "settings loaded",
            "version": VERSION,
            "fingerprint": overview.fingerprint,
            "workspaces": overview.workspaces,
            "keys": overview.keys,
            "active_keys": overview.active_keys,
            "platform_models": _join_counts(overview.platform_models),
            "own_key_models": _join_counts(overview.own_key_models),
            "warnings": len(warnings),
        }
        _log.info(
            "tollgate %s serves %d workspaces with %d active keys, and %d models on platform keys",
            VERSION,
            overview.workspaces,
            overview.active_keys,
            overview.platform_models.total(),
            extra=fields,
        )
        self._log_warnings(settings, warnings)

    def log_reload(self, settings: Settings, changes: str, warnings: Sequence[FileWarning]) -> None:
        """Log the ``changes`` that ``settings`` have brought, and those of their ``warnings`` that are new."""
        fields = {"event": "settings reloaded", "fingerprint": settings.fingerprint}
        _log.info("settings reloaded: %s", changes, extra=fields)
        self._log_warnings(settings, warnings)

    def _log_warnings(self, settings: Settings, warnings: Sequence[FileWarning]) -> None:
        before, self._warnings = self._warnings, frozenset(warnings)
        # One line names all workspaces without protection, because there may be many.
        new = [one for one in warnings if one not in before and one.kind != "overage_protection_off"]
        for one in new[:MAX_WARNINGS]:
            fields = {"event": "settings warning", "kind": one.kind, "file": str(one.file), "key": one.key}
            _log.warning("%s", one, extra=fields)
        if len(new) > MAX_WARNINGS:
            _log.warning("%d more warnings: tollgate check shows all", len(new) - MAX_WARNINGS)
        _log_protection(settings)


def _log_protection(settings: Settings) -> None:
    workspaces = settings.workspaces.values()
    if by_default := [one.id for one in workspaces if not one.states_overage_protection]:
        _log.info("overage_protection is on, by default, for %s", _join_names(by_default), extra=_PROTECTED)
    if exposed := [one.id for one in workspaces if is_exposed(one)]:
        _log.warning(
            "overage_protection is off for %s: calls at once may cost far more than is left in their wallets,"
            " see docs/limits.md",
            _join_names(exposed),
            extra=_EXPOSED,
        )


def _join_names(names: Sequence[str]) -> str:
    """Return the first names in one line, and the number of the others."""
    more = [f"{len(names) - _MAX_LISTED} more"] if len(names) > _MAX_LISTED else []
    return ", ".join([*names[:_MAX_LISTED], *more])


def _join_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
