"""``/workspaces/ID``: settings, keys, limits, wallet and use of one workspace."""

import re
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from rig.console_html import render_page
from rig.console_reading import NOW, load_page, open_new_ledger
from rig.ledger import make_row
from rig.rollups import build_all, write
from rig.settings_files import ACME, BETA, HASH_A, edit, write_files
from rig.written_rows import write_entry

from addon.console.query import ParameterError
from addon.console.view import NotFoundError, View
from addon.console.views.workspace import ENTRY_ROWS
from addon.console.views.workspace_keys import KEY_ROWS
from addon.store.money.sqlite.recount import write_counters
from addon.store.protocol import WalletEntry
from policies.utc_time import format_utc

MINUTE = "2026-01-31T14:10:00.000+00:00"
MORE = f"""
expires_at = 2026-02-01T00:00:00Z
label = "Build <server>"
models = ["gpt-4o*"]
spend_cap_usd = "3"
spend_reset = "monthly"
request_cap = 10
tpm = 5_000
previous_hash = "sha256:{"d" * 64}"
previous_until = 2026-02-01T00:00:00Z
"""
ROUTING = """
monthly_spend_cap_usd = "2"
rpm_override = 7
tpm = 200_000
rules = [{ keywords = ["sql", "table"], model = "gpt-4o-mini" }]
heuristics = [{ when = "prompt_tokens_above", threshold_tokens = 99, model = "gpt-4o-mini" }]
aliases = [{ name = "claude-haiku-*", model = "gpt-4o-mini" }]
budgets = [{ for = "user", rpm = 20, tpm = 9_000, required = true }]
byok.OPENAI = { secret = "env:OWN_KEY", routing = true }
"""


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    conf_file = write_files(tmp_path)
    edit(tmp_path / ACME, 'default_model = "gpt-4o-mini"', f'default_model = "gpt-4o-mini"{ROUTING}')
    edit(tmp_path / ACME, "active = true", f"active = true{MORE}")
    with open_new_ledger(tmp_path / "var" / "tollgate.db") as ledger:
        write(ledger, make_row("a", created_at=MINUTE, retail_nanousd=70, model_slug="gpt-4o-mini"))
        write(ledger, make_row("b", created_at=MINUTE, status=502, retail_nanousd=0))
        write(ledger, make_row("c", created_at=MINUTE, workspace="gone", retail_nanousd=300))
        write(ledger, make_row("d", created_at="2026-01-05T09:00:00.000+00:00", key_id="laptop"))
        build_all(ledger)
        ledger.execute(
            "INSERT INTO refusals (hour, workspace, key_id, code, count)"
            " VALUES ('2026-01-31T14', 'acme', 'ci', 'payment_required', 3)"
        )
        for number in range(2 * ENTRY_ROWS + 1):
            moment = NOW - timedelta(seconds=number // 3)
            write_entry(ledger, WalletEntry(f"beta/{number:03}", moment, "beta", 10, f"{number:03}"))
        write_counters(ledger)
    return conf_file


def load(conf_file: Path, workspace: str, query: str = "") -> View:
    return load_page(conf_file, f"/workspaces/{workspace}?{query}")


def records(view: View, table: str) -> list[dict[str, Any]]:
    return view.tables[table].records()


def test_the_settings_are_those_in_force(conf_file: Path) -> None:
    view = load(conf_file, "acme")
    assert view.values["state"] == "served"
    assert view.values["file"] == str(conf_file.parent / ACME)
    settings = view.values["settings"]
    assert (settings["plan"], settings["limit_rpm"], settings["default_model"]) == ("pro", 7, "gpt-4o-mini")
    assert ("Tokens a minute", "200,000") in view.shown["facts"]
    assert records(view, "budget_limits") == [
        {
            **{"budget": "user", "spend_cap_nanousd": None, "spend_reset": "never", "rpm": 20},
            **{"tpm": 9_000, "required": True},
        }
    ]
    assert records(view, "rules") == [{"place": 1, "keywords": "sql, table", "model": "gpt-4o-mini"}]
    [heuristic] = records(view, "heuristics")
    assert (heuristic["when"], heuristic["threshold_tokens"]) == ("prompt_tokens_above", 99)
    assert records(view, "aliases") == [{"place": 1, "name": "claude-haiku-*", "model": "gpt-4o-mini"}]
    [own] = records(view, "byok")
    assert own == {
        "provider": "OPENAI",
        "secret": "not set",
        "unset_variable": "OWN_KEY",
        "routing": True,
    }
    assert "own_key_unset" in [row["kind"] for row in records(view, "warnings")]


def test_a_warning_is_not_cut_off(conf_file: Path) -> None:
    reasons = [row["reason"] for row in records(load(conf_file, "acme"), "warnings")]
    page = unescape(render_page(conf_file, "/workspaces/acme"))
    shown = [re.sub("<wbr/?>", "", text) for text in re.findall('<bdi class="whole">(.*?)</bdi>', page)]
    assert reasons
    assert set(reasons) <= set(shown)


def test_a_key_has_its_settings_its_use_and_its_last_call(conf_file: Path) -> None:
    ci, laptop = records(load(conf_file, "acme"), "keys")
    assert ci == {
        "key_id": "ci",
        "label": "Build <server>",
        "state": "active",
        "active": True,
        "expires_at": "2026-02-01T00:00:00.000+00:00",
        "previous_until": "2026-02-01T00:00:00.000+00:00",
        "models": "gpt-4o*",
        "spend_cap_nanousd": 3 * 10**9,
        "spend_reset": "monthly",
        "request_cap": 10,
        "request_reset": "never",
        "tpm": 5_000,
        "calls": 2,
        "failed_calls": 1,
        "retail_nanousd": 70,
        "refused_calls": 3,
        "last_call_hour": "2026-01-31T14",
    }
    assert (laptop["state"], laptop["calls"], laptop["last_call_hour"]) == ("not active", 0, "2026-01-05T09")


def test_the_limits_are_those_of_usage(conf_file: Path) -> None:
    rows = {row["limit"]: row for row in records(load(conf_file, "acme"), "limits")}
    assert set(rows) == {"monthly_spend_cap", "spend_cap", "request_cap"}
    assert rows["request_cap"]["requests"] == 2
    assert rows["spend_cap"]["left_nanousd"] == 3 * 10**9 - 70


def test_the_use_is_that_of_the_time(conf_file: Path) -> None:
    view = load(conf_file, "acme", "range=hour")
    assert [row["model_slug"] for row in records(view, "models")] == ["gpt-4o-mini", "tester-large"]
    assert [row["hour"] for row in records(view, "spend")] == ["2026-01-31T14"]
    assert (records(view, "refusals")[0]["code"], view.values["refused_calls"]) == ("payment_required", 3)
    assert [row["day"] for row in records(load(conf_file, "acme", "range=month"), "spend")] == [
        "2026-01-31",
        "2026-01-05",
    ]


def test_wallet_entries_come_in_pages_without_gap_or_repetition(conf_file: Path) -> None:
    seen, before = list[str](), ""
    while before is not None:
        view = load(conf_file, "beta", f"entries_before={before}")
        page = [row["id"] for row in records(view, "wallet_entries")]
        assert len(page) <= ENTRY_ROWS
        seen += page
        before = view.values["next_entries_before"]
    assert len(seen) == len(set(seen)) == 2 * ENTRY_ROWS + 1
    assert view.values["wallet"]["balance_nanousd"] == 10 * len(seen)


def test_keys_come_in_pages_in_the_order_of_the_file(conf_file: Path) -> None:
    ids = [f"many-{number}" for number in range(KEY_ROWS + 5)]
    tables = [f'[[keys]]\nid = "{one}"\nhash = "sha256:{place:064x}"\n' for place, one in enumerate(ids)]
    edit(conf_file.parent / BETA, "", "\n" + "\n".join(tables))
    first = load(conf_file, "beta")
    shown = [row["key_id"] for row in records(first, "keys")]
    rest = load(conf_file, "beta", f"keys_after={first.values['next_keys_after']}")
    assert [*shown, *(row["key_id"] for row in records(rest, "keys"))] == ["ci", *ids]
    assert rest.values["next_keys_after"] is None


@pytest.mark.parametrize("query", ["keys_after=x", "entries_before=x", "entries_before=/x"])
def test_a_wrong_place_is_named(conf_file: Path, query: str) -> None:
    with pytest.raises(ParameterError, match=f"{query.split('=')[0]}: must be the next_"):
        load(conf_file, "beta", query)


def test_a_deleted_workspace_still_has_its_calls(conf_file: Path) -> None:
    view = load(conf_file, "gone")
    assert (view.values["state"], view.values["settings"], view.values["file"]) == ("deleted", None, None)
    assert [row["retail_nanousd"] for row in records(view, "totals")] == [300]


def test_a_broken_file_is_shown_with_its_error(conf_file: Path) -> None:
    edit(conf_file.parent / BETA, 'name = "Beta"', "name = 7")
    values = load(conf_file, "beta").values
    assert values["state"] == "not served"
    assert "workspace beta is not served: " in values["file_fault"]
    assert values["file"] == str(conf_file.parent / BETA)


def test_an_unknown_workspace_is_not_found(conf_file: Path) -> None:
    with pytest.raises(NotFoundError, match='unknown workspace "acmee"; did you mean "acme"'):
        load(conf_file, "acmee")


def test_no_hash_of_a_key_is_in_any_value(conf_file: Path) -> None:
    view = load(conf_file, "acme")
    seen = str((view.values, {name: table.rows for name, table in view.tables.items()}, view.shown))
    assert format_utc(NOW)[:10] in seen
    assert not [one for one in (HASH_A, "c" * 64, "d" * 64) if one[:12] in seen]
