"""The tables of ``tollgate usage``, read from the ledger, the counters and the settings."""

import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Final

import click

from addon.commands.readers import load_served_settings
from addon.commands.usage_options import BUDGETS, LIMITS, REFUSALS
from addon.commands.usage_tables import UsageTables
from addon.settings.errors import SettingsError, describe_error
from addon.settings.settings import Settings
from addon.store.money.ledger import Ledger
from addon.store.money.reports.archived_calls import Missing, find_missing, find_missing_in_sums
from addon.store.money.reports.budgets import find_budgets
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.report import (
    find_limits_of,
    find_recent,
    find_refusals,
    find_totals,
    ledger_counters,
)
from addon.store.money.reports.totals import columns_of
from addon.store.money.reports.wallet_credits import find_last_credits
from addon.store.protocol import StoreUnavailable
from addon.text.table import Table

RECENT_ROWS: Final = 20


class UsageReader:
    """A reader of the calls, refusals and limits that ``wanted`` selects, at most ``most`` rows of each table."""

    def __init__(
        self,
        conf_file: Path,
        ledger: Ledger,
        wanted: Filter,
        most: int | None,
        *,
        is_archive: bool = False,
    ) -> None:
        self._conf_file = conf_file
        self._ledger = ledger
        self._wanted = wanted
        self._most = most
        self._is_archive = is_archive

    def read(self, by: str | None) -> UsageTables:
        """Return the tables that are asked for: those of ``by``, or all that the filter allows."""
        if by == LIMITS:
            return UsageTables(None, {}, None, self._read_limits())
        if by == BUDGETS:
            return UsageTables(None, {}, None, None, self._read_budgets())
        if by == REFUSALS:
            return UsageTables(None, {}, self._read_refusals(), None)
        if by:
            return UsageTables(None, {by: self._read_totals(by)}, None, None)
        totals = {name: self._read_totals(name) for name in ("workspace", "model", "day")}
        recent = find_recent(self._ledger, self._wanted, self._most or RECENT_ROWS)
        if self._wanted.selects_sent_calls:
            return UsageTables(recent, totals, None, None)
        is_of_now = not (self._wanted.since or self._wanted.until or self._wanted.api)
        limits = self._try_limits() if is_of_now and not self._is_archive else None
        return UsageTables(recent, totals, self._read_refusals(), limits)

    def find_missing(self, by: str | None, tables: UsageTables) -> Missing:
        """Return the archived months whose calls these tables lack."""
        if by in (LIMITS, BUDGETS, REFUSALS):
            return Missing([], [], in_sums=False)
        in_sums = find_missing_in_sums(self._ledger, self._wanted, columns_of(by) if by else ())
        is_full = tables.recent is None or len(tables.recent.rows) >= (self._most or RECENT_ROWS)
        if in_sums.months or is_full:
            return in_sums
        return find_missing(self._ledger, self._wanted.since, self._wanted.until)

    def _read_totals(self, by: str) -> Table:
        return self._add_labels(find_totals(self._ledger, by, self._wanted, self._most))

    def _read_refusals(self) -> Table:
        return self._add_labels(find_refusals(self._ledger, self._wanted, self._most))

    def _read_budgets(self) -> Table:
        wanted = self._wanted.workspace
        workspaces = [one for one in self._settings.workspaces.values() if wanted in (None, one.id)]
        return find_budgets(self._ledger, workspaces, datetime.now(UTC), self._most)

    def _try_limits(self) -> Table | None:
        """Return the limits. On an error print it and return None, so that the calls are still shown."""
        try:
            return self._read_limits()
        except (SettingsError, StoreUnavailable, sqlite3.Error) as error:
            click.echo(f"limits are not shown: {describe_error(error)}", err=True)
            if isinstance(error, SettingsError):
                self._labels = {}  # Do not report the same error again.
            return None

    def _read_limits(self) -> Table:
        workspaces = self._settings.workspaces.values()
        read_used = ledger_counters(self._ledger)
        credits = find_last_credits(self._ledger, [one.id for one in workspaces])
        table = find_limits_of(read_used, workspaces, self._wanted, datetime.now(UTC), credits)
        return self._add_labels(replace(table, rows=table.rows[: self._most]))

    def _add_labels(self, table: Table) -> Table:
        """Return a table of keys with the label of each key as its last column, and any other table unchanged."""
        if "key_id" not in table.columns:
            return table
        places = [table.columns.index(name) for name in ("workspace", "key_id")]
        names = [(row[places[0]], row[places[1]]) for row in table.rows]
        labels = self._labels if any(key_id is not None for _, key_id in names) else {}
        rows = [(*row, labels.get(name)) for row, name in zip(table.rows, names, strict=True)]
        return Table((*table.columns, "label"), rows)

    @cached_property
    def _settings(self) -> Settings:
        return load_served_settings(self._conf_file)

    @cached_property
    def _labels(self) -> Mapping[tuple[str, str], str | None]:
        """The label of each key, by workspace and id. None are known when the settings do not load."""
        try:
            workspaces = self._settings.workspaces.values()
        except SettingsError as error:
            click.echo(f"labels of keys are not shown: {describe_error(error)}", err=True)
            return {}
        return {(workspace.id, key.id): key.label for workspace in workspaces for key in workspace.keys}
