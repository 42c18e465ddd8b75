"""``tollgate catalog price``: one price changes in models.toml, and the ledger says what that would have changed."""

import csv
import io
import json
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rig.configuration import ROOT
from rig.ledger import make_row
from rig.price_command import OWN, make_deployment, overlay_of
from rig.price_command import run_price as run
from rig.settings_files import contents, edit
from rig.usage_report import write_rows

from addon.settings.settings import load_settings


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """The conf of a deployment folder whose overlay has a model of its own."""
    return make_deployment(tmp_path / "deployed")


YESTERDAY = (datetime.now(UTC) - timedelta(days=1)).isoformat(timespec="milliseconds")


TEN_DAYS_AGO = (datetime.now(UTC) - timedelta(days=10)).isoformat(timespec="milliseconds")


PRICED_TWICE = (
    OWN
    + '\n["other"]\nprovider = "GROQ"\nupstream_model_id = "other-1"\nfamily = "groq"\n'
    + ('input_price_per_m = "1"\noutput_price_per_m = "2"\nmax_completion_tokens = 100\n')
)


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
    assert run(conf, "own", "--above", "5000", "--add-tier", "--output", "5").exit_code == 0
    assert tomllib.loads(overlay_of(conf).read_text("utf-8"))["own"]["tiers"] == [
        {"above_prompt_tokens": 1000, "input_price_per_m": "1", "output_price_per_m": "4"},
        {"above_prompt_tokens": 5000, "output_price_per_m": "5"},
    ]


def test_a_price_from_a_day_on_that_loses_the_tiers_is_not_written(conf: Path) -> None:
    refused = run(conf, "own", "--from", "2027-01-01", "--add-day", "--input", "5")
    assert refused.exit_code == 1
    assert "has no tiers, but the prices that it replaces have" in " ".join(refused.stderr.split())
    assert overlay_of(conf).read_text("utf-8") == OWN


def test_a_price_of_a_plain_model_from_a_day_on_is_added(conf: Path) -> None:
    plain = OWN.split("[[")[0]
    overlay_of(conf).write_text(plain, encoding="utf-8")
    write_rows(conf, [row("a")])
    found = run_json(conf, "own", "--from", "2099-01-01", "--add-day", "--input", "5")
    day = "dated[2099-01-01]"
    assert [(one["key"], one["before"], one["after"]) for one in found["changes"]] == [
        (f"{day}.input_price_per_m", "1", "5"),
        (f"{day}.cached_input_price_per_m", "1", "5"),
    ]
    assert {one["difference_nanousd"] for one in found["calls"]} == {0}
    begun = run_json(conf, "own", "--from", "2026-01-01", "--add-day", "--input", "4")
    assert [one["difference_nanousd"] for one in begun["calls"]] == [300_000, 312_000]
    written = tomllib.loads(overlay_of(conf).read_text("utf-8"))["own"]
    days = [one["from_date"].isoformat() for one in written["dated"]]
    assert days == ["2026-01-01", "2099-01-01"]
    assert overlay_of(conf).read_text("utf-8").startswith(plain.rstrip())


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
    assert "\n  1 call: left out: own was another model of a provider then\n" in shown
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


def test_calls_of_each_place_are_computed_at_its_own_prices(conf: Path) -> None:
    places = """
[["own".deployments]]
provider = "OPENAI"
upstream_model_id = "own-2"

[["own".deployments]]
provider = "OPENAI"
upstream_model_id = "own-3"
input_price_per_m = "0.5"
"""
    overlay_of(conf).write_text(OWN.split("[[")[0] + places, encoding="utf-8")
    at = [("GROQ", "own-1"), ("OPENAI", "own-2"), ("OPENAI", "own-3"), ("OPENAI", "gone")]
    write_rows(
        conf,
        [
            row(f"call-{number}", provider=name, upstream_model_id=model_id)
            for number, (name, model_id) in enumerate(at)
        ],
    )
    found = run_json(conf, "own", "--input", "2")
    # 100 tokens of prompt each. The third place has a wholesale price of its own, and retail is the model's everywhere.
    differences = {one["cost"]: one["difference_nanousd"] for one in found["calls"]}
    assert list(differences.values()) == [200_000, 312_000]
    assert "another model of a provider" in str(found)
