"""``tollgate check``: whether the files load, what they would serve, and what they could not. Nothing is touched.

Source: docs/commands.md.
"""

import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from addon import VERSION
from addon.commands.check_environment import find_checked_environment
from addon.commands.check_ledger import check_ledger
from addon.commands.fleet_copies import find_stale
from addon.commands.options import conf_option, json_option
from addon.settings.checked_files import CheckedFiles, check_files
from addon.settings.errors import SettingsError
from addon.settings.file_access import find_open_files
from addon.settings.overview import FileWarning, Overview, find_file_warnings
from addon.settings.settings import load_conf
from addon.text.masking import mask_credentials
from addon.text.table_formats import format_json
from addon.text.unprintable import escape_unprintable


@click.command()
@click.option("--strict", is_flag=True, help="Make each warning an error.")
@json_option
@conf_option
def check(conf_file: Path, *, as_json: bool, strict: bool) -> None:
    """Check all files as serve would load them, and show what would be served.

    The exit status is 1 if any file has an error. No port is opened. Nothing is written but this machine's copies of
    workspace files in the ledger, which are made the newest. A PostgreSQL is asked whether its commits are safe.
    """
    conf_file = conf_file.absolute()
    environment = find_checked_environment(conf_file, os.environ)
    stale = _refresh(conf_file)
    checked = check_files(conf_file, environment.env)
    settings = checked.settings
    ledger = check_ledger(settings)
    warnings = [*find_file_warnings(settings), *find_open_files(settings)] if settings else []
    warnings += ledger.warnings
    warnings += stale
    is_good = not checked.errors and not (strict and warnings)
    if as_json:
        report = _make_report(checked, warnings, is_good=is_good)
        report |= {"environment": environment.source, "environment_is": environment.described}
        report["ledger_not_asked"] = ledger.fault
        click.echo(mask_credentials(format_json(report)))
    else:
        click.echo(f"tollgate {VERSION}")
        click.echo(escape_unprintable(f"environment variables: {environment.described}"))
        ledger.show()
        _print_report(checked, warnings, warning_name="error" if strict else "warning")
    if not is_good:
        sys.exit(1)


def _refresh(conf_file: Path) -> list[FileWarning]:
    """Make the copies of files in the ledger the newest. Return a warning where that can't be done."""
    try:
        conf = load_conf(conf_file)
    except SettingsError:
        return []  # The check itself says why.
    if not conf.paths.are_workspaces_in_ledger or (fault := find_stale(conf)) is None:
        return []
    return [FileWarning("copies_stale", conf.paths.workspaces, "", fault)]


def _make_report(checked: CheckedFiles, warnings: Sequence[FileWarning], *, is_good: bool) -> dict[str, Any]:
    overview = Overview.of(checked.settings) if checked.settings else None
    return {
        "ok": is_good,
        "version": VERSION,
        "fingerprint": overview and overview.fingerprint,
        "files": [str(file) for file in checked.files],
        "workspaces": overview and overview.workspaces,
        "keys": overview and overview.keys,
        "active_keys": overview and overview.active_keys,
        "platform_models": overview and dict(sorted(overview.platform_models.items())),
        "own_key_models": overview and dict(sorted(overview.own_key_models.items())),
        "errors": [_make_row(error) for error in checked.errors],
        "warnings": [{"kind": warning.kind, **_make_row(warning)} for warning in warnings],
    }


def _make_row(fault: SettingsError | FileWarning) -> dict[str, str]:
    return {"file": str(fault.file), "key": fault.key, "reason": fault.reason}


def _print_report(checked: CheckedFiles, warnings: Sequence[FileWarning], *, warning_name: str) -> None:
    """Print the overview on standard output, then each error and warning in one line on standard error."""
    click.echo(f"files: {_describe_files(checked.files)}")
    if checked.settings:
        overview = Overview.of(checked.settings)
        click.echo(f"workspaces: {overview.workspaces}")
        click.echo(f"keys: {overview.keys}, {overview.active_keys} of them active")
        click.echo(f"models on platform keys: {_describe_counts(overview.platform_models)}")
        click.echo(f"models on customers' own keys only: {_describe_counts(overview.own_key_models)}")
    for error in checked.errors:
        _print_line("error", error)
    for warning in warnings:
        _print_line(warning_name, warning)
    click.echo(f"errors: {len(checked.errors)}, warnings: {len(warnings)}")


def _print_line(name: str, fault: SettingsError | FileWarning) -> None:
    click.echo(escape_unprintable(mask_credentials(f"{name}: {fault}")), err=True)


def _describe_files(files: Sequence[Path]) -> str:
    """Return the number of files in each folder."""
    counts = Counter(file.parent for file in files)
    names = [f"{count} in {folder}" for folder, count in counts.items()]
    return f"{len(files)} ({', '.join(names)})" if names else "none"


def _describe_counts(counts: Counter[str]) -> str:
    """Return the sum, and the number of each provider."""
    names = [f"{provider} {count}" for provider, count in sorted(counts.items())]
    return f"{counts.total()} ({', '.join(names)})" if names else "0"
