"""``/settings``: the files, what is in force, what is not, and what the check warns of."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from addon import VERSION
from addon.console.cells import Cell, whole_cell
from addon.console.sources import Live
from addon.console.view import Reading, View
from addon.console.views.settings_conf import make_conf_table
from addon.settings.overview import Overview, find_file_warnings
from addon.settings.redis_url import hide_credentials
from addon.settings.settings import Settings
from addon.store.backends import find_ledger, find_redis_url
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.report import find_totals
from addon.store.money.reports.sizes import find_sizes
from addon.store.money.sums.rollups import read_progress
from addon.store.protocol import StoreUnavailable
from addon.text.masking import mask_credentials
from addon.text.table import Table
from policies.utc_time import format_utc

MAX_ROWS: Final = 200
"""The most files of workspaces, and the most warnings, that a page has."""


def load_gateway_settings(reading: Reading) -> View:
    """Return what the gateway serves on, without any secret."""
    settings, live = reading.settings, reading.live
    overview = Overview.of(settings)
    warnings = find_file_warnings(settings)
    files, more_files = _make_files(settings, live)
    values = _make_values(reading, overview) | {
        "warnings_found": len(warnings),
        "more_workspace_files": more_files,
    }
    calls = _count_calls(reading)
    tables = {
        "warnings": _make_warnings(warnings[:MAX_ROWS]),
        "problems": _make_problems(settings),
        "checks": _make_checks(live),
        "files": files,
        "conf": make_conf_table(settings),
        "providers": _make_providers(settings, live, overview),
        "ledger": find_sizes(reading.ledger, calls),
    }
    differing = [row for row in tables["conf"].records() if row["in_file"] is not None]
    shown = {
        "differing": differing,
        "conf_file": settings.conf_file,
        "file_cell": _make_file_cell(settings.conf_file.parent),
        "keys_text": _describe_keys,
    }
    return View(tables, values, shown)


def _make_file_cell(folder: Path) -> Callable[[Mapping[str, Any]], Cell]:
    """Return how tables show a file: without ``folder``, if it is in there."""

    def show(row: Mapping[str, Any]) -> Cell:
        file = Path(row["file"])
        return whole_cell(file.relative_to(folder) if file.is_relative_to(folder) else file)

    return show


def _make_values(reading: Reading, overview: Overview) -> dict[str, Any]:
    """Return the values of the process, of its settings and of its ledger."""
    settings, live = reading.settings, reading.live
    return {
        "version": VERSION,
        "started_at": format_utc(live.started_at),
        "uptime_s": max(0, round((reading.now - live.started_at).total_seconds())),
        "workers": settings.conf.listen.workers,
        "fingerprint": settings.fingerprint,
        "settings_age_s": round(live.settings_age_s, 3),
        "file_fault": mask_credentials(live.file_fault) if live.file_fault else None,
        "ready": live.readiness.ready,
        "workspaces": overview.workspaces,
        "keys": overview.keys,
        "active_keys": overview.active_keys,
        "state": _describe_state(settings),
        "policies": [policy.name for policy in settings.policies],
        "ledger_bytes": _count_bytes(reading),
    }


def _count_calls(reading: Reading) -> int:
    if read_progress(reading.ledger).built_from:
        # The sums of all calls are not made yet. To count the entries of an index takes less than to add up hours.
        (calls,) = reading.ledger.execute("SELECT count(*) FROM usage").fetchone()
        return int(calls)
    return sum(row["calls"] for row in find_totals(reading.ledger, "model", Filter(), None).records())


def _describe_keys(row: Mapping[str, Any]) -> str:
    if row["auth"] == "none" or row["base_url"] is None:
        return "not needed"
    if row["keys_written"] <= 1:
        return "set" if row["keys_set"] else "not set"
    return f"{row['keys_set']} of {row['keys_written']} set"


def _make_warnings(warnings: list[Any]) -> Table:
    rows = [(one.kind, str(one.file), one.key, mask_credentials(one.reason)) for one in warnings]
    return Table(("kind", "file", "key", "reason"), rows)


def _make_problems(settings: Settings) -> Table:
    rows = [
        (str(one.file), one.key, mask_credentials(one.reason), one.consequence)
        for one in settings.problems[:MAX_ROWS]
    ]
    return Table(("file", "key", "reason", "consequence"), rows)


def _make_checks(live: Live) -> Table:
    return Table(
        ("check", "result"),
        [(name, mask_credentials(result)) for name, result in live.readiness.checks.items()],
    )


def _make_files(settings: Settings, live: Live) -> tuple[Table, int]:
    """Return the files that were read, and how many files of workspaces are left out: those that load."""
    found = live.files
    broken = {problem.file for problem in settings.problems}
    folder = settings.conf.paths.workspaces
    shared = sorted(file for file in found if file.parent != folder)
    of_workspaces = sorted(
        (file for file in found if file.parent == folder), key=lambda file: (file not in broken, file)
    )
    listed = [*shared, *of_workspaces[:MAX_ROWS], *sorted(broken - found.keys())]
    rows = [_make_file(file, found, broken) for file in listed]
    return Table(("file", "state", "changed_at"), rows), len(of_workspaces[MAX_ROWS:])


def _make_file(file: Path, found: Mapping[Path, Any], broken: set[Path]) -> tuple[Any, ...]:
    changed_at = found.get(file)
    state = "error" if file in broken else "in use" if changed_at else "gone"
    return str(file), state, format_utc(changed_at) if changed_at else None


def _make_providers(settings: Settings, live: Live, overview: Overview) -> Table:
    columns = (
        *("provider", "base_url", "dialect", "auth", "platform_models", "own_key_models"),
        *("keys_written", "keys_set", "keys_resting", "unset_variables", "circuit"),
        "circuits_of_workspaces",
    )
    rows = []
    for name, provider in sorted(settings.providers.items()):
        resting = _sum(live, "tollgate_platform_keys", provider=name, state="resting")
        is_open = _sum(live, "tollgate_circuits_open", provider=name, scope="all") > 0
        rows.append(
            (
                *(name, None if provider.builtin else provider.base_url, provider.dialect, provider.auth),
                *(overview.platform_models[name], overview.own_key_models[name]),
                *(provider.keys_written, 0 if provider.builtin else len(provider.platform_keys), resting),
                ", ".join(provider.unset_variables) or None,
                "open" if is_open else "closed",
                _sum(live, "tollgate_circuits_open", provider=name, scope="workspace"),
            )
        )
    return Table(columns, rows)


def _sum(live: Live, gauge: str, **labels: str) -> int:
    samples = live.gauges.get(gauge, ())
    return int(sum(one.value for one in samples if labels.items() <= dict(one.labels).items()))


def _describe_state(settings: Settings) -> Mapping[str, Any]:
    conf = settings.conf
    found: dict[str, str | None] = {"backend": conf.state.backend, "redis_url": None}
    found["database"] = _shown(lambda: find_ledger(conf).name)
    if conf.state.backend == "redis":
        found["redis_url"] = _shown(lambda: hide_credentials(find_redis_url(conf).get_secret_value()))
    return found


def _shown(find: Callable[[], str]) -> str:
    """Return what ``find`` returns, or why it can't be found."""
    try:
        return find()
    except StoreUnavailable as error:
        return mask_credentials(str(error))


def _count_bytes(reading: Reading) -> int:
    sql = "SELECT page_count, page_size FROM pragma_page_count, pragma_page_size"
    pages, size = reading.ledger.execute(sql).fetchone()
    return int(pages * size)
