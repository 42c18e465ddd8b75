"""``tollgate ledger reconcile`` on files and a ledger: its forms of output, its status, and the errors of bad input."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rig.ledger import make_priced_row, make_row
from rig.reconciled import LEDGERS, PRICES
from rig.settings_files import write_files
from rig.usage_report import write_rows
from rig.vendor_exports import MAPPING_TEXTS, SAMPLES, SAMPLES_READ

from addon.commands.ledger import ledger
from addon.reconcile.export_line import Tokens
from addon.reconcile.ledger_call import LedgerCall
from policies.ledger_row import PRICE_SET_CONTENT
from policies.prices import Prices

COSTS, USAGE = SAMPLES / "openai_costs.json", SAMPLES / "openai_usage_completions.json"


MODELS = """
["terra"]
provider = "OPENAI"
upstream_model_id = "gpt-5.6-terra"
family = "chat"
input_price_per_m = "2"
cached_input_price_per_m = "0.2"
cache_write_price_per_m = "2.5"
output_price_per_m = "12"
max_completion_tokens = 1000
byok_only = false
active = true

["gpt"]
provider = "OPENAI"
upstream_model_id = "gpt-5.4"
family = "chat"
input_price_per_m = "2.5"
output_price_per_m = "15"
max_completion_tokens = 1000
byok_only = false
active = true
"""


def row(
    call_id: str, slug: str, model: str, counts: tuple[int, int, int, int], cost: int, **more: Any
) -> dict[str, Any]:
    prompt, cached, written, output = counts
    facts = {
        "created_at": "2026-10-14T12:00:00.000+00:00",
        "model_slug": slug,
        "upstream_model_id": model,
        "provider": "OPENAI",
        "prompt_tokens": prompt,
        "cached_tokens": cached,
        "cache_write_tokens": written,
        "completion_tokens": output,
        "wholesale_nanousd": cost,
    }
    return make_row(call_id, **facts | more)


CALLS = [
    row("terra-a", "terra", "gpt-5.6-terra", (2_200_000, 800_000, 200_000, 150_000), 4_860_000_000),
    row("terra-b", "terra", "gpt-5.6-terra", (50_000, 0, 0, 10_000), 440_000_000),
    # At the prices of short prompts.
    row("long", "gpt", "gpt-5.4", (300_000, 0, 0, 1_000), 765_000_000),
    row("own", "gpt", "gpt-5.4", (9, 0, 0, 9), 0, mode="byok", retail_nanousd=0),
    row("before", "gpt", "gpt-5.4", (9, 0, 0, 9), 9, created_at="2026-10-13T23:00:00.000+00:00"),
]


def conf_with(models: str, folder: Path) -> Path:
    """Write the files of an operator, with more models."""
    file = write_files(folder)
    file.write_text(f'{file.read_text()}\n[paths]\ndatabase = "var/ledger.db"\n')
    catalog = folder / "catalog_data" / "models.toml"
    catalog.write_text(catalog.read_text() + models)
    return file


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    file = conf_with(MODELS, tmp_path)
    write_rows(file, CALLS)
    return file


def run(conf: Path, *arguments: str | Path) -> Result:
    words = ["reconcile", "--provider", "OPENAI", "--conf", str(conf), *map(str, arguments)]
    return CliRunner().invoke(ledger, words, env={"OPENAI_KEY": "sk-fake", "GROQ_KEY": "gsk-fake"})


def test_people_get_each_difference_the_sums_and_the_verdict(conf: Path) -> None:
    result = run(conf, COSTS, USAGE)
    assert result.exit_code == 1
    assert result.stdout == EXPECTED


EXPECTED = """\
OPENAI, 2026-10-14 to 2026-10-15 (UTC): 2 days and models

Differences

day         model    export  ledger  difference  cause        cause
                        usd     usd         usd                 usd
----------  -------  ------  ------  ----------  ----------  ------
2026-10-14  gpt-5.4  1.5225   0.765      0.7575  wrong tier  0.7575

By cause

cause       groups  difference
                           usd
----------  ------  ----------
wrong tier       1      0.7575

export 6.8225 USD, ledger 6.065 USD, difference 0.7575 USD, of which unknown 0.00 USD
the sum of all differences but rounding, 0.7575 USD, is above the tolerance of 0.01 USD
"""


def test_programs_get_exact_integers(conf: Path) -> None:
    result = run(conf, COSTS, "--json")
    shown = json.loads(result.stdout)
    groups = shown.pop("groups")
    assert shown == {
        "provider": "OPENAI",
        "from": "2026-10-14",
        "to": "2026-10-15",
        "time_zone": "UTC",
        "export_nanousd": 6_822_500_000,
        "ledger_nanousd": 6_065_000_000,
        "difference_nanousd": 757_500_000,
        "causes": {"wrong tier": 757_500_000},
        "unsettled_nanousd": 757_500_000,
        "tolerance_nanousd": 10_000_000,
        "notes": [],
    }
    [long] = [group for group in groups if group["model"] == "gpt-5.4"]
    assert long["export_tokens"] == {"input": 300_000, "cached_input": 0, "cache_write": 0, "output": 1_000}
    assert (long["export_calls"], long["ledger_calls"]) == (None, 1)
    rows = list(csv.DictReader(io.StringIO(run(conf, COSTS, "--csv").stdout)))
    assert [(one["model"], one["cause"], one["cause_nanousd"]) for one in rows] == [
        ("gpt-5.4", "wrong tier", "757500000"),
        ("gpt-5.6-terra", "", "0"),
    ]


def test_the_tolerance_decides_the_status(conf: Path) -> None:
    assert run(conf, COSTS, "--tolerance", "0.757499999").exit_code == 1
    assert run(conf, COSTS, "--tolerance", "0.7575").exit_code == 0


def test_a_whole_month_has_the_days_that_the_export_lacks(conf: Path) -> None:
    shown = json.loads(run(conf, COSTS, "--month", "2026-10", "--json").stdout)
    assert (shown["from"], shown["to"]) == ("2026-10-01", "2026-10-31")
    assert shown["causes"] == {"wrong tier": 757_500_000, "not in the export": -9}


def test_keys_and_aliases_are_heard(conf: Path) -> None:
    shown = json.loads(run(conf, COSTS, "--key", "key_a1", "--json").stdout)
    assert shown["causes"]["did not pass the gateway"] == 1_522_500_000 + 440_000_000
    shown = json.loads(run(conf, COSTS, "--alias", "gpt-5.4-2026-03-05=gpt-5.5", "--json").stdout)
    assert shown["causes"] == {"did not pass the gateway": 1_522_500_000, "not in the export": -765_000_000}


def test_a_missing_ledger_is_said(tmp_path: Path) -> None:
    result = run(conf_with(MODELS, tmp_path), COSTS)
    assert result.exit_code == 1
    assert result.stderr == f"There is no ledger yet in {tmp_path}/var/ledger.db: nothing was recorded.\n"
    assert "did not pass the gateway" in result.stdout


def test_a_ledger_without_later_columns_is_read(conf: Path) -> None:
    """A gateway of an older version has used it last."""
    import sqlite3

    with sqlite3.connect(conf.parent / "var" / "ledger.db") as connection:
        connection.execute("ALTER TABLE usage DROP COLUMN resends")
    connection.close()
    assert json.loads(run(conf, COSTS, "--json").stdout)["causes"] == {"wrong tier": 757_500_000}


def table_of(model: str, prices: Tokens) -> str:
    """Return a table of models.toml."""
    names = ("input", "cached_input", "cache_write", "output")
    lines = [f'{name}_price_per_m = "{price / 10**6}"' for name, price in zip(names, prices, strict=True)]
    facts = 'family = "chat"\nmax_completion_tokens = 9\nbyok_only = false\nactive = true'
    named = f'["our-{model.replace("/", "-")}"]\nprovider = "OPENAI"\nupstream_model_id = "{model}"'
    return "\n".join(["", named, facts, *lines, ""])


@pytest.mark.parametrize("name", SAMPLES_READ)
def test_each_sample_agrees_with_a_ledger_that_was_made_for_it(name: str, tmp_path: Path) -> None:
    conf = conf_with("".join(map(table_of, PRICES, PRICES.values())), tmp_path)
    write_rows(conf, [row_of(f"call-{number}", call) for number, call in enumerate(LEDGERS[name])])
    mapping = tmp_path / "columns.toml"
    mapping.write_text(MAPPING_TEXTS.get(name, ""))
    options = ["--columns", mapping] if name in MAPPING_TEXTS else []
    result = run(conf, SAMPLES / name, *options, "--json")
    # The cost report has a search, which is none of the ledger's calls.
    searches = 120_000_000 if name == "anthropic_cost_report.json" else 0
    assert json.loads(result.stdout)["unsettled_nanousd"] == searches
    assert result.exit_code == (1 if searches else 0)


def row_of(call_id: str, call: LedgerCall) -> dict[str, Any]:
    facts = call._asdict() | {"model_slug": call.model_slug.replace("/", "-")}
    return make_row(call_id, provider="OPENAI", **facts)


def test_the_tiers_of_the_catalog_are_known(tmp_path: Path) -> None:
    """Anthropic's reports do not say which prompts were long."""
    base = table_of("claude-haiku-5-5", PRICES["claude-haiku-5-5"])
    tier = '[["our-claude-haiku-5-5".tiers]]\nabove_prompt_tokens = 100000\ninput_price_per_m = "0.5"\n'
    tier += 'output_price_per_m = "2.5"\n'
    conf = conf_with(base + tier, tmp_path)
    _, haiku = LEDGERS["anthropic_tokens.csv"]
    write_rows(conf, [row_of("haiku", haiku._replace(wholesale_nanousd=16_000_000))])
    files = SAMPLES / "anthropic_cost_report.json", SAMPLES / "anthropic_usage_messages.json"
    causes = json.loads(run(conf, *files, "--json").stdout)["causes"]
    assert causes["wrong tier"] == 64_000_000


def test_a_mapping_reads_another_vendors_file(conf: Path, tmp_path: Path) -> None:
    mapping, file = tmp_path / "columns.toml", tmp_path / "export.csv"
    mapping.write_text('[columns]\nday = "day"\nmodel = "name"\ncost_usd = "usd"\n')
    file.write_text("day,name,usd\n2026-10-14,gpt-5.4,0.765\n2026-10-14,gpt-5.6-terra,5.3\n")
    result = run(conf, file, "--columns", mapping)
    assert (result.exit_code, "Differences" in result.stdout) == (0, False)


@pytest.mark.parametrize(
    ("number", "causes"),
    [(2, {"wrong tier"}), (1, {"wrong tier", "did not pass the gateway", "stale price", "unknown"})],
)
def test_a_key_with_a_number_is_compared_with_the_calls_that_had_it(
    tmp_path: Path, number: int, causes: set[str]
) -> None:
    conf = conf_with(MODELS, tmp_path)
    first, second, long, *_ = CALLS
    numbers = {"terra-a": 1, "terra-b": number, "long": 2}
    write_rows(conf, [one | {"platform_key": numbers[one["id"]]} for one in (first, second, long)])
    result = run(conf, COSTS, "--key", "key_a1=1", "--key", "key_b2=2", "--json")
    groups = json.loads(result.stdout)["groups"]
    assert {group["key"] for group in groups} == {"key_a1", "key_b2"}
    assert {cause for group in groups for cause in group["causes"]} == causes


@pytest.mark.parametrize("key", ["key_a1=0", "key_a1=x", "key=b=1x"])
def test_an_equals_sign_may_be_a_part_of_a_name(conf: Path, key: str) -> None:
    assert f'no line has the key "{key}"' in run(conf, COSTS, "--key", key).stderr


@pytest.mark.parametrize(
    ("today", "words"),
    [("1.9", "still has the prices that the calls had"), ("2", "has other prices since then")],
)
def test_a_stale_price_is_that_of_the_calls_and_the_catalog_of_today_may_have_another(
    tmp_path: Path, today: str, words: str
) -> None:
    """1,200,000 tokens at $1.90 a million in place of $2: $0.12 too little."""
    conf = conf_with(
        MODELS.replace('input_price_per_m = "2"\n', f'input_price_per_m = "{today}"\n'), tmp_path
    )
    priced = make_priced_row(prices=Prices(1_900_000, 200_000, 12_000_000, 2_500_000))
    first, second, long, *_ = CALLS
    stale = first | {name: priced[name] for name in ("price_set", PRICE_SET_CONTENT)}
    # The set of most calls counts.
    stale_second = second | {"price_set": priced["price_set"]}
    write_rows(conf, [stale | {"wholesale_nanousd": 4_740_000_000}, stale_second, long])
    result = run(conf, COSTS)
    assert f"stale price: gpt-5.6-terra, 0.12 USD: the catalog {words}\n" in result.stdout
