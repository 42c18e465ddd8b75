"""``/machines``: the gateways that share the ledger, as each last described itself, and the files in which they differ.

A ledger in a file has one: this gateway.
"""

from typing import Final

from addon import VERSION
from addon.console.view import Reading, View
from addon.fleet.machines import name_machine
from addon.fleet.tables import SeenMachine, read_machines
from addon.text.table import Table
from policies.fleet_files import find_differences
from policies.utc_time import format_utc

COLUMNS: Final = (
    *("machine", "version", "settings", "workers", "calls"),
    *("seen_at", "state", "differing_files"),
)


def load_machines(reading: Reading) -> View:
    """Return all machines by name, and each file that one has not as most of those that live."""
    is_shared = bool(reading.settings.conf.ledger.url)
    machines = read_machines(reading.ledger) if is_shared else [_describe_this(reading)]
    found = sorted(find_differences({one.name: one.files for one in machines if one.is_alive}))
    rows = [
        [
            *(one.name, one.version, one.settings, one.workers, one.calls, one.seen_at),
            "alive" if one.is_alive else "silent",
            sum(differing == one.name for differing, _ in found),
        ]
        for one in machines
    ]
    tables = {"machines": Table(COLUMNS, rows), "files": Table(("machine", "file"), found)}
    return View(tables, {"is_shared": is_shared})


def _describe_this(reading: Reading) -> SeenMachine:
    settings, in_use = reading.settings, reading.live.gauges.get("tollgate_in_use", ())
    return SeenMachine(
        name_machine(settings),
        VERSION,
        settings.fingerprint,
        settings.conf.listen.workers,
        round(sum(one.value for one in in_use if one.labels["resource"] == "calls")),
        format_utc(reading.now),
        is_alive=True,
        files={},
    )
