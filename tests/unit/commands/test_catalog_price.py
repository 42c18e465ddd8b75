"""``tollgate catalog price``: one price changes in models.toml, and the ledger says what that would have changed."""

import csv
import io
import json
import sqlite3
import tomllib
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rig.configuration import ROOT
from rig.ledger import make_row
from rig.settings_files import contents, edit
from rig.usage_report import write_rows

from addon.commands.catalog import catalog
from addon.commands.init import init
from addon.settings.settings import load_settings

YESTERDAY = (datetime.now(UTC) - timedelta(days=1)).isoformat(timespec="milliseconds")
TEN_DAYS_AGO = (datetime.now(UTC) - timedelta(days=10)).isoformat(timespec="milliseconds")
OWN = """
# The model of a customer.
["own"]  # agreed on 2026-11-01
provider = "GROQ"
upstream_model_id = "own-1"
family = "groq"
input_price_per_m = '1'          # per million
output_price_per_m = "2"
max_completion_tokens = 100

[["own".tiers]]                  # long prompts
above_prompt_tokens = 1000
input_price_per_m = "3"
"""
PRICED_TWICE = (
    OWN
    + '\n["other"]\nprovider = "GROQ"\nupstream_model_id = "other-1"\nfamily = "groq"\n'
    + ('input_price_per_m = "1"\noutput_price_per_m = "2"\nmax_completion_tokens = 100\n')
)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """The conf of a deployment folder whose overlay has a model of its own, with a markup of 4 percent."""
    assert CliRunner().invoke(init, [str(tmp_path / "deployed")]).exit_code == 0
    file = tmp_path / "deployed" / "proxy.conf"
    edit(file, 'database = "var/tollgate.db"', 'database = "var/ledger.db"')
    overlay_of(file).write_text(OWN, encoding="utf-8")
    return file


def overlay_of(conf: Path) -> Path:
    return conf.parent / "catalog" / "models.toml"


def run(conf: Path, *arguments: str | Path) -> Result:
    return CliRunner().invoke(catalog, ["price", *map(str, arguments), "--conf", str(conf)])


def run_json(conf: Path, *arguments: str | Path) -> Any:
    result = run(conf, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def row(call_id: str, prompt: int | None = 100, output: int | None = 10, **more: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {
        **{"created_at": YESTERDAY, "model_slug": "own", "provider": "GROQ", "upstream_model_id": "own-1"},
        **{"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": None},
        **{"wholesale_nanousd": 7, "retail_nanousd": 8},
    }
    return make_row(call_id, **facts | more)


def test_one_line_of_the_overlay_changes_and_all_others_stay(conf: Path) -> None:
    done = run(conf, "own", "--input", "1.25")
    assert done.exit_code == 0, done.output
    written = overlay_of(conf).read_text(encoding="utf-8")
    assert written == OWN.replace("input_price_per_m = '1' ", 'input_price_per_m = "1.25" ')
    assert load_settings(conf, {}).models["own"].wholesale.input_microusd_per_mtok == 1_250_000
    assert f"Written to {overlay_of(conf)}." in done.stdout
    assert "The ledger has no calls of this since " in done.stdout


OPTIONS = {
    "--input": "input",
    "--output": "output",
    "--cached-input": "cached_input",
    "--cache-write": "cache_write",
    "--cache-write-5m": "cache_write_5m",
    "--cache-write-1h": "cache_write_1h",
    "--reasoning": "reasoning",
    "--audio-input": "audio_input",
    "--cached-audio-input": "cached_audio_input",
    "--audio-output": "audio_output",
    "--image-input": "image_input",
    "--per-call": "per_call",
    "--per-search": "per_search",
}


def test_each_price_has_an_option(conf: Path) -> None:
    prices = {name: f"1.0{number}1" for number, name in enumerate(OPTIONS.values(), start=11)}
    arguments = [word for option, name in OPTIONS.items() for word in (option, prices[name])]
    assert run(conf, "own", *arguments).exit_code == 0
    before, after = (tomllib.loads(text)["own"] for text in (OWN, overlay_of(conf).read_text("utf-8")))
    assert after == before | {f"{name}_price_per_m": price for name, price in prices.items()}


def test_a_shipped_model_becomes_a_copy_of_its_whole_table(conf: Path) -> None:
    shipped = tomllib.loads((ROOT / "catalog_data" / "models.toml").read_text(encoding="utf-8"))["gpt-5.4"]
    found = run_json(conf, "GPT-5.4", "--input", "2.4")
    assert found["changes"] == [
        {
            **{"slug": "gpt-5.4", "key": "input_price_per_m", "before": "2.5", "after": "2.4"},
            **{"change": "-4.0 %", "retail_before": "2.6", "retail_after": "2.496"},
        }
    ]
    text = overlay_of(conf).read_text(encoding="utf-8")
    assert text.startswith(OWN)
    assert "# Prices set on " in text
    assert tomllib.loads(text)["gpt-5.4"] == shipped | {"input_price_per_m": "2.4"}


def test_a_tier_changes_or_is_added_by_its_bound(conf: Path) -> None:
    found = run_json(conf, "own", "--above", "1000", "--input", "1", "--output", "4")
    assert [(one["key"], one["before"], one["after"]) for one in found["changes"]] == [
        ("tiers[1000].input_price_per_m", "3", "1"),
        # Cached input has no price of its own: it follows the input.
        ("tiers[1000].cached_input_price_per_m", "3", "1"),
        ("tiers[1000].output_price_per_m", "2", "4"),
    ]
    assert run(conf, "own", "--above", "5000", "--output", "5").exit_code == 0
    assert tomllib.loads(overlay_of(conf).read_text("utf-8"))["own"]["tiers"] == [
        {"above_prompt_tokens": 1000, "input_price_per_m": "1", "output_price_per_m": "4"},
        {"above_prompt_tokens": 5000, "output_price_per_m": "5"},
    ]


def test_the_cost_of_last_week_is_computed_at_both_prices_by_mode(conf: Path) -> None:
    calls = [
        row("short", 100, 10),
        row("long", 2000, 50, reasoning_tokens=20),
        row("own-key", mode="byok", wholesale_nanousd=0, retail_nanousd=0),
        row("other", model_slug="gpt-5.4"),
        row("before", created_at=TEN_DAYS_AGO),
    ]
    write_rows(conf, calls)
    # 100 × 1 + 10 × 2, and 2000 × 3 + 50 × 2 above the bound: 120 and 6100 µUSD. Then 125 + 20, and the tier stays.
    expected = {
        ("byok", "wholesale"): (1, 0, 0, 0, 0),
        ("byok", "retail"): (1, 0, 0, 0, 0),
        ("payg", "wholesale"): (2, 14, 6_220_000, 6_245_000, 25_000),
        ("payg", "retail"): (2, 16, 6_468_800, 6_494_800, 26_000),
    }
    found = run_json(conf, "own", "--input", "1.25")
    amounts = ("calls", "recorded_nanousd", "before_nanousd", "after_nanousd", "difference_nanousd")
    assert {(one["mode"], one["cost"]): tuple(one[name] for name in amounts) for one in found["calls"]} == (
        expected
    )
    assert found["unknown"] == {}
    again = run_json(conf, "own", "--input", "1", "--since", "20d")
    assert [one["calls"] for one in again["calls"]] == [1, 1, 3, 3]


def test_what_is_not_known_is_said_with_the_number_of_calls(conf: Path) -> None:
    calls = [
        row("one", searches=None),
        row("estimate", usage_source="estimated"),
        row("nothing", None, None, usage_source="none", wholesale_nanousd=0, retail_nanousd=0),
        row("elsewhere", upstream_model_id="own-0"),
        row("own-key", mode="byok", wholesale_nanousd=0, retail_nanousd=0),
    ]
    write_rows(conf, calls)
    found = run_json(conf, "own", "--per-search", "10000", "--audio-input", "5")
    assert found["unknown"] == {
        "left out: own was another model of a provider then": 1,
        "no audio_input_tokens in the row: priced as input": 2,
        "no searches in the row: priced as if there were none": 2,
        "the counts are an estimate of the gateway": 1,
    }
    shown = run(conf, "own", "--per-search", "20000").stdout
    assert "\n  1 calls: left out: own was another model of a provider then\n" in shown
    assert "The same calls are assumed" in shown


def test_a_reported_cost_stays_whatever_the_prices_are(conf: Path) -> None:
    edit(overlay_of(conf), "max_completion_tokens", 'cost = "reported"\nmax_completion_tokens')
    write_rows(conf, [row("reported", reported_nanousd=1000), row("none")])
    found = run_json(conf, "own", "--input", "1.25")
    amounts = [(one["before_nanousd"], one["after_nanousd"]) for one in found["calls"]]
    assert amounts == [(121_000, 146_000), (1040 + 124_800, 1040 + 150_800)]
    assert found["unknown"] == {"no reported cost in the row: computed from its counts": 1}


def test_a_whole_overlay_is_tried_and_nothing_is_written(conf: Path, tmp_path: Path) -> None:
    overlay_of(conf).write_text(PRICED_TWICE, encoding="utf-8")
    write_rows(conf, [row("a"), row("b", model_slug="other", upstream_model_id="other-1")])
    tried = tmp_path / "tried.toml"
    tried.write_text(PRICED_TWICE.replace('output_price_per_m = "2"', 'output_price_per_m = "3"'), "utf-8")
    before = contents(conf.parent / "catalog")
    shown = run(conf, "--since", "7d", "--what-if", tried)
    assert shown.exit_code == 0, shown.output
    assert contents(conf.parent / "catalog") == before
    assert "\nall   " in shown.stdout
    assert "Written" not in shown.stdout
    found = run_json(conf, "--what-if", tried)
    wholesale = [one for one in found["calls"] if one["cost"] == "wholesale"]
    assert [(one["slug"], one["difference_nanousd"]) for one in wholesale] == [
        ("other", 10_000),
        ("own", 10_000),
    ]
    assert found["written_to"] is None
    listed = list(csv.DictReader(io.StringIO(run(conf, "--what-if", tried, "--csv").stdout)))
    assert [int(one["difference_nanousd"]) for one in listed] == [
        one["difference_nanousd"] for one in found["calls"]
    ]


def test_a_model_that_is_gone_has_no_price(conf: Path, tmp_path: Path) -> None:
    write_rows(conf, [row("a")])
    (tmp_path / "tried.toml").write_text("")
    found = run_json(conf, "--what-if", tmp_path / "tried.toml")
    assert found["unknown"] == {"left out: own has no price then": 1}
    assert [(one["slug"], one["after"]) for one in found["changes"]] == [("own", None)]


REFUSED = {
    "an unknown slug": (("owm", "--input", "1"), 1, 'unknown model "owm"; did you mean "own"?'),
    "a key as slug": (("tg_Ab3dE6gH", "--input", "1"), 1, "unknown model"),
    "no price": (("own",), 2, "give a SLUG and a price"),
    "no slug": (("--input", "1"), 2, "give a SLUG and a price"),
    "a price that is none": (("own", "--cached-input", "1,5"), 2, "'--cached-input': is not a plain decimal"),
    "too many digits": (("own", "--output", "0.1234567"), 2, "'--output': has 7 fractional digits"),
    "a negative price": (("own", "--per-call", "-1"), 2, "'--per-call': is negative"),
    "a price of a dollar a token": (("own", "--input", "123456789"), 2, "'--input': is too large"),
    "a bound of nothing": (("own", "--above", "0", "--input", "1"), 2, "'--above'"),
    "a time that is none": (("own", "--input", "9", "--since", "x"), 2, "'--since'"),
    "both": (("own", "--what-if", "x.toml"), 2, "no SLUG and no price beside it"),
    "a missing file": (("--what-if", "/nowhere/x.toml"), 1, "/nowhere/x.toml: no such file"),
    "a folder": (("--what-if", "/"), 1, "/: is a directory"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_named_and_writes_nothing(conf: Path, case: str) -> None:
    arguments, status, reason = REFUSED[case]
    before = contents(conf.parent)
    refused = run(conf, *arguments)
    assert refused.exit_code == status
    assert reason in " ".join(refused.stderr.split())
    assert "tg_Ab3" not in refused.output
    assert contents(conf.parent) == before


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            OWN.replace("'1'", '"free"').encode(),
            'own.input_price_per_m: is not a plain decimal number such as "0.15" (at line 7)',
        ),
        (b'["own"', "tried.toml"),
        (b"\xff", "tried.toml"),
    ],
)
def test_a_tried_file_that_does_not_load_is_named(
    conf: Path, tmp_path: Path, content: bytes, reason: str
) -> None:
    tried = tmp_path / "tried.toml"
    tried.write_bytes(content)
    refused = run(conf, "--what-if", tried)
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"Error: {tried}: ")
    assert reason in refused.stderr


def test_a_hidden_model_has_no_price_to_change(conf: Path) -> None:
    overlay_of(conf).write_text('["gpt-5.4"]\nactive = false\n', encoding="utf-8")
    refused = run(conf, "gpt-5.4", "--input", "1")
    assert (refused.exit_code, 'hides the model "gpt-5.4"' in refused.stderr) == (1, True)


def test_a_damaged_ledger_is_a_warning_where_prices_were_written(conf: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(write_rows(conf, [row("a")]))) as ledger, ledger:
        ledger.execute("PRAGMA legacy_alter_table = ON")
        ledger.execute("ALTER TABLE usage RENAME TO lost")
    done = run(conf, "own", "--input", "1.25")
    assert done.exit_code == 0, done.output
    assert "warning: what calls would have cost is not known: " in done.stderr
    assert 'input_price_per_m = "1.25"' in overlay_of(conf).read_text(encoding="utf-8")
    (tmp_path / "tried.toml").write_text(OWN)
    assert run(conf, "--what-if", tmp_path / "tried.toml").exit_code == 1


def test_a_catalog_without_an_overlay_is_edited_if_it_is_not_the_shipped_one(conf: Path) -> None:
    edit(conf, 'catalog_overlay = "catalog"', 'catalog_overlay = ""')
    refused = run(conf, "gpt-5.4", "--input", "1")
    assert (refused.exit_code, "set [paths] catalog_overlay" in refused.stderr) == (1, True)
    own = conf.parent / "own"
    own.mkdir()
    for name in ("models", "providers", "families"):
        (own / f"{name}.toml").write_bytes((ROOT / "catalog_data" / f"{name}.toml").read_bytes())
    edit(conf, 'catalog = ""', 'catalog = "own"')
    before = (own / "models.toml").read_text(encoding="utf-8")
    assert run(conf, "gpt-5.4", "--input", "1").exit_code == 0
    after = (own / "models.toml").read_text(encoding="utf-8")
    assert len(before.splitlines()) == len(after.splitlines())
    assert tomllib.loads(after)["gpt-5.4"]["input_price_per_m"] == "1"


def test_the_same_prices_write_nothing(conf: Path) -> None:
    edit(overlay_of(conf), "'1' ", '"1" ')
    before = contents(conf.parent)
    for slug, price in (("own", "1.00"), ("gpt-5.4", "2.5")):
        done = run(conf, slug, "--input", price)
        assert (done.exit_code, done.stdout) == (0, "No price changes.\n")
    assert contents(conf.parent) == before
