"""``/machines``: one row of a gateway by itself, else one of each that shares the ledger, and their differences."""

import json
import re
from datetime import datetime
from pathlib import Path

import psycopg
from pydantic import SecretStr
from rig.console_html import render_page
from rig.console_reading import NOW, load_page, make_live, open_new_ledger
from rig.settings_files import CONF, edit, write_files

from addon.console.frame import Frame
from addon.console.page_process.maker import render_page as render
from addon.console.pages import PAGES
from addon.console.query import Query
from addon.console.view import Reading
from addon.console.views.machines import load_machines
from addon.fleet.tables import DESCRIBE, FORGET_MACHINES
from addon.settings.settings import SettingsFiles
from addon.store.money.postgres.ledger import PostgresPlace, translate
from addon.store.money.postgres.money import PostgresMoney
from addon.telemetry.metric_families import Sample


def test_a_gateway_with_a_ledger_in_a_file_is_the_only_one(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    with open_new_ledger(tmp_path / "var" / "tollgate.db"):
        pass
    in_use = (Sample({"resource": "calls"}, 3.0), Sample({"resource": "bodies"}, 9.0))
    view = load_page(conf_file, "/machines", gauges={"tollgate_in_use": in_use})
    [row] = view.tables["machines"].records()
    assert row["machine"].endswith(f":{tmp_path}")
    assert (row["workers"], row["calls"], row["state"], row["differing_files"]) == (1, 3, "alive", 0)
    assert (row["seen_at"][:19], len(row["settings"])) == ("2026-01-31T14:20:00", 16)
    assert (view.values, view.tables["files"].rows) == ({"is_shared": False}, [])
    shown = render_page(conf_file, "/machines")
    assert "this gateway is the only one" in shown
    assert "Files that differ" not in shown


async def test_machines_that_share_a_ledger_are_there_with_what_differs(
    tmp_path: Path, postgres_url: str
) -> None:
    money = PostgresMoney(SecretStr(postgres_url))
    await money.check()
    await money.close()
    state = '[state]\nbackend = "redis"\nfleet = "tests"\n'
    edit(write_files(tmp_path) and tmp_path / CONF, "", f'{state}[ledger]\nurl = "{postgres_url}"\n')
    settings = SettingsFiles(tmp_path / CONF, {}).load()
    ages = {"gw-1": 0, "gw-2": 5, "gw-3": 90, "gw-4": 8 * 86_400}
    with psycopg.connect(postgres_url, autocommit=True) as ledger:
        for name, age_s in ages.items():
            files = {"acme.toml": "1", "models.toml": "2" if name == "gw-2" else "1"}
            ledger.execute(translate(DESCRIBE).encode(), (name, "0.1.0", "f" * 16, 2, 7, json.dumps(files)))
            sql = "UPDATE machines SET seen_at = seen_at - %s * interval '1 second' WHERE name = %s"
            ledger.execute(sql, (age_s, name))
            ledger.execute("INSERT INTO key_claims VALUES (%s, 'acme', %s)", (f"{age_s:064}", name))
        ledger.execute(FORGET_MACHINES)
        left = ledger.execute("SELECT machine FROM key_claims ORDER BY machine").fetchall()
        assert left == [("gw-1",), ("gw-2",), ("gw-3",)]
    with PostgresPlace(SecretStr(postgres_url)).read() as reading:
        read = Reading(settings, reading, make_live(), NOW, Query.parse({}, frozenset()))
        view = load_machines(read)
        [page] = [one for one in PAGES if one.name == "machines"]
        html = render(page, Frame("/machines", read.query), read, view).decode()
    rows = view.tables["machines"].records()
    shown = [(row["machine"], row["state"], row["calls"], row["differing_files"]) for row in rows]
    assert shown == [("gw-1", "alive", 7, 0), ("gw-2", "alive", 7, 1), ("gw-3", "silent", 7, 0)]
    assert view.tables["files"].rows == [("gw-2", "models.toml")]
    assert re.findall(r"silent|models\.toml", html) == ["silent", "models.toml"]
    assert datetime.fromisoformat(rows[0]["seen_at"]).utcoffset() is not None
    assert len(rows[0]["seen_at"]) == len("2026-01-31T14:20:00.000+00:00")
