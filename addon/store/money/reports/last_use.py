"""The hour of the last call of each key of a workspace. Source: docs/ledger.md."""

from collections.abc import Mapping

from addon.store.money.ledger import Ledger
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.sum_sources import DAYS, split_time
from addon.store.money.sums.rollup_schema import AFTER_ALL
from addon.store.money.sums.rollups import DAY_DIGITS, HOUR_DIGITS


def find_last_hours(ledger: Ledger, workspace: str) -> Mapping[str, str]:
    """Return the hour of the last call of each key that has one, by the id of the key. Hours are of UTC.

    Calls are read from sums by day first, and from sums by hour only for the last days.
    """
    found = _find_last(ledger, workspace, "", None)
    days = {moment for moment in found.values() if len(moment) == DAY_DIGITS}
    for day in days:
        hours = _find_last(ledger, workspace, day, day + AFTER_ALL, by_hour=True)
        found |= {key: hour for key, hour in hours.items() if found.get(key) == day}
    return found


def _find_last(
    ledger: Ledger, workspace: str, since: str, until: str | None, *, by_hour: bool = False
) -> dict[str, str]:
    wanted = Filter(workspace, since=since, until=until)
    found: dict[str, str] = {}
    for part in split_time(ledger, wanted, None if by_hour else DAYS):
        source = part.source
        sql = (
            f"SELECT key_id, substr(max({source.moment}), 1, {HOUR_DIGITS}) FROM {source.table}"  # noqa: S608
            f" WHERE workspace = ? AND {source.moment} >= ? AND {source.moment} < ? GROUP BY key_id"
        )
        for key, moment in ledger.execute(sql, (workspace, part.begin, part.end)):
            found[key] = max(found.get(key, ""), moment)
    return found
