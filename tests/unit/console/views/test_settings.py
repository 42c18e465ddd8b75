"""``/settings``: the files, proxy.conf in force, providers, warnings; and no secret."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rig.console_reading import NOW, load_page, open_new_ledger, open_reading
from rig.ledger import make_row
from rig.rollups import write
from rig.settings_files import ACME, BETA, edit, write_files

from addon.console.view import View
from addon.console.views.loaders import load_view
from addon.settings.overview import find_file_warnings
from addon.settings.settings import SettingsFiles
from addon.telemetry.admin import Readiness
from addon.telemetry.metric_families import Sample


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    conf_file = write_files(tmp_path)
    with open_new_ledger(tmp_path / "var" / "tollgate.db") as ledger:
        write(ledger, make_row("a"))
    return conf_file


def records(view: View, table: str) -> list[dict[str, Any]]:
    return view.tables[table].records()


def find_conf(view: View) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["section"], row["key"]): row for row in records(view, "conf")}


def test_every_key_of_proxy_conf_is_shown_as_in_force(conf_file: Path) -> None:
    found = find_conf(load_page(conf_file, "/settings"))
    assert found["listen", "port"] == {
        "section": "listen",
        "key": "port",
        "value": "9000",
        "in_file": None,
        "is_default": False,
        "needs_restart": True,
    }
    assert (found["billing", "markup_percent"]["value"], found["metrics", "workspaces"]["value"]) == (
        "4",
        "false",
    )
    assert found["limits", "pro_rpm"]["is_default"]


def test_a_value_that_waits_for_a_restart_is_shown_next_to_that_in_force(conf_file: Path) -> None:
    files = SettingsFiles(conf_file, {})
    running = files.load().conf
    edit(conf_file, "port = 9000", "port = 9001")
    with open_reading(conf_file, "/settings") as (page, reading):
        in_force = replace(reading.settings, conf=running)
        view = load_view(page, replace(reading, settings=in_force))
    row = find_conf(view)["listen", "port"]
    assert (row["value"], row["in_file"], view.shown["differing"]) == ("9000", "9001", [row])


def test_no_secret_and_no_place_of_a_secret_is_shown(conf_file: Path) -> None:
    edit(
        conf_file,
        "",
        '\n[state]\nbackend = "redis"\n'
        'redis_url = "redis://someone:hunter-2-secret@redis.example:6379/3?password=other-secret"\n'
        '[ledger]\nurl = "postgresql://someone:hunter-3-secret@postgres.example/tollgate"\n'
        '[upstream]\nproxy = "env:PROXY_PLACE"\n[alerts]\nwebhook = "file:webhook.place"\n'
        '[admin]\nconsole_password = "env:PASSWORD_PLACE"\n',
    )
    (conf_file.parent / "webhook.place").write_text("https://hooks.example/webhook-secret")
    edit(conf_file.parent / ACME, "", '\n[byok.OPENAI]\nsecret = "env:OWN_PLACE"\n')
    env = {
        "OPENAI_KEY": "sk-platform-secret-1",
        "PROXY_PLACE": "http://user:proxy-secret@127.0.0.1:1",
        "PASSWORD_PLACE": "console-secret-of-many-characters",
        "OWN_PLACE": "sk-own-secret-2",
    }
    with open_reading(conf_file, "/settings", env=env) as (page, reading):
        view = load_view(page, reading)
    seen = str((view.values, {name: table.rows for name, table in view.tables.items()}, view.shown))
    assert find_conf(view)["state", "redis_url"]["value"] == "redis://redis.example:6379/3"
    state = view.values["state"]
    assert (state["redis_url"], state["database"]) == (
        "redis://redis.example:6379/3",
        "postgresql://postgres.example/tollgate",
    )
    assert find_conf(view)["upstream", "proxy"]["value"] == "a secret (env)"
    hidden = ("hunter", "someone", "other-secret", "webhook", "proxy-secret", "console-secret")
    hidden += ("platform-secret", "own-secret", "PROXY_PLACE", "PASSWORD_PLACE", "OWN_PLACE", "a" * 12)
    # The key of proxy.conf has this name, and is no secret.
    seen = seen.replace("'webhook', 'a secret (file)'", "")
    assert not [one for one in hidden if one in seen]


def test_the_files_are_those_that_were_read_with_their_state(conf_file: Path) -> None:
    edit(conf_file.parent / BETA, 'name = "Beta"', "name = 7")
    files = SettingsFiles(conf_file, {})
    files.load()
    view = load_page(conf_file, "/settings", files=files.find_changed_files())
    rows = {Path(row["file"]).name: row for row in records(view, "files")}
    assert rows.keys() >= {"proxy.conf", "providers.toml", "models.toml", "families.toml", "acme.toml"}
    assert {name for name, row in rows.items() if row["state"] == "error"} == {"beta.toml"}
    written = datetime.fromtimestamp(conf_file.stat().st_ctime, UTC)
    assert rows["proxy.conf"]["changed_at"][:19] == written.isoformat()[:19]
    [problem] = records(view, "problems")
    assert (problem["key"], problem["consequence"]) == ("name", "workspace beta is not served")


def test_the_warnings_are_those_of_check(conf_file: Path) -> None:
    view = load_page(conf_file, "/settings")
    expected = find_file_warnings(SettingsFiles(conf_file, {}).load())
    assert [(row["kind"], row["file"], row["key"], row["reason"]) for row in records(view, "warnings")] == [
        (one.kind, str(one.file), one.key, one.reason) for one in expected
    ]


def test_a_provider_has_its_keys_and_its_circuits(conf_file: Path) -> None:
    gauges = {
        "tollgate_platform_keys": (
            Sample({"provider": "OPENAI", "state": "resting"}, 1.0),
            Sample({"provider": "GROQ", "state": "ready"}, 1.0),
        ),
        "tollgate_circuits_open": (
            Sample({"provider": "OPENAI", "mode": "payg", "scope": "all"}, 1.0),
            Sample({"provider": "OPENAI", "mode": "byok", "scope": "workspace"}, 3.0),
        ),
    }
    with open_reading(conf_file, "/settings", env={"OPENAI_KEY": "sk-1"}, gauges=gauges) as (page, reading):
        rows = {row["provider"]: row for row in records(load_view(page, reading), "providers")}
    openai, groq = rows["OPENAI"], rows["GROQ"]
    assert (openai["keys_set"], openai["keys_resting"], openai["circuit"]) == (1, 1, "open")
    assert openai["circuits_of_workspaces"] == 3
    assert (groq["keys_set"], groq["unset_variables"], groq["circuit"]) == (0, "GROQ_KEY", "closed")
    assert rows["SANDBOX"]["base_url"] is None


def test_the_state_of_the_gateway_is_shown(conf_file: Path) -> None:
    live = {
        "file_fault": "acme.toml: broken",
        "readiness": Readiness(False, {"store": "unavailable: no disk"}),
        "settings_age_s": 12.0,
    }
    view = load_page(conf_file, "/settings", NOW, **live)
    assert (view.values["file_fault"], view.values["ready"]) == ("acme.toml: broken", False)
    assert records(view, "checks") == [{"check": "store", "result": "unavailable: no disk"}]
    assert {row["table"]: row["rows"] for row in records(view, "ledger")}["usage"] == 1
    assert view.values["ledger_bytes"] > 0
