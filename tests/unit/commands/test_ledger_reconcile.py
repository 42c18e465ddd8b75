"""``tollgate ledger reconcile`` on files and a ledger: its forms of output, its status, and the errors of bad input."""

import csv
import io
import json
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click import ClickException
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from rig.ledger import make_row
from rig.settings_files import write_files
from rig.usage_report import write_rows

from addon.commands.ledger import ledger
from addon.commands.ledger_reconcile_files import MAX_FILE_BYTES, read_exports
from addon.reconcile.export_line import Tokens
from addon.reconcile.ledger_call import LedgerCall
from unit.reconcile.test_comparison import LEDGERS, PRICES
from unit.reconcile.test_formats import MAPPING_TEXTS, SAMPLES, SAMPLES_READ

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


def test_bad_files_are_refused_by_name_place_and_cure(conf: Path, tmp_path: Path) -> None:
    cases: list[tuple[str, bytes, str]] = [
        ("empty.csv", b"", "the file is empty; export it again"),
        (
            "excel.csv",
            b"PK\x03\x04...",
            "is a ZIP archive or an Excel file; unpack it, or save the table as CSV",
        ),
        ("wide.csv", "a,b".encode("utf-16"), "is UTF-16; save it as UTF-8"),
        ("latin.csv", b"a,b\n\xe9,1\n", "line 2: byte 4 is no UTF-8; save it as UTF-8"),
        (
            "cents.csv",
            b"usage_date_utc,cost_usd\n2026-10-14,x\n",
            'line 2, column cost_usd: "x" is not an amount',
        ),
        ("page.json", b'{"data": [], "has_more": true}', "a format that is not known"),
        (
            "more.json",
            COSTS.read_bytes().replace(b'"has_more": false', b'"has_more": true'),
            "has_more is true",
        ),
    ]
    for name, content, reason in cases:
        file = tmp_path / name
        file.write_bytes(content)
        result = run(conf, file)
        assert result.exit_code == 1
        assert f"Error: {file}: " in result.stderr
        assert reason in result.stderr


def test_a_file_that_is_too_large_or_twice_there_is_refused(conf: Path, tmp_path: Path) -> None:
    large = tmp_path / "large.csv"
    with large.open("wb") as opened:
        opened.truncate(MAX_FILE_BYTES + 1)
    assert "is larger than 65536 KiB; export fewer days at once" in run(conf, large).stderr
    copy = tmp_path / "copy.json"
    copy.write_bytes(COSTS.read_bytes())
    assert f"{copy}: is the same as {COSTS}; name it once" in run(conf, COSTS, copy).stderr
    mapping = tmp_path / "columns.toml"
    mapping.write_text("[columns]\nx = 1\n")
    assert f"{mapping}: columns: must be a table of texts" in run(conf, COSTS, "--columns", mapping).stderr
    assert f"{tmp_path}: is a directory" in run(conf, tmp_path).stderr.lower()
    assert f"{tmp_path}/none.csv: no such file" in run(conf, tmp_path / "none.csv").stderr.lower()


@given(
    st.binary(max_size=60),
    st.sampled_from([b"", b"\xef\xbb\xbf", b"Date,Slug,Usage,Prompt Tokens\n", b'{"data": [']),
)
def test_no_bytes_make_the_command_fail(content: bytes, start: bytes) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "export"
        file.write_bytes(start + content)
        with suppress(ClickException):
            read_exports([file], None)
        with suppress(ClickException):
            read_exports([file], file)


WRONG_OPTIONS = {
    ("--provider", "OPENAY"): 'unknown provider "OPENAY"',
    ("--month", "2026-13"): "'2026-13' is not a month such as 2026-10",
    ("--month", "2026-1"): "is not a month",
    ("--month", "2026-09"): "nothing in it is of 2026-09; export that month",
    ("--tolerance", "-1"): "Invalid value for '--tolerance'",
    ("--alias", "x"): "must be VENDORS_NAME=UPSTREAM_MODEL_ID",
    ("--key", "key_zz"): 'no line has the key "key_zz"; the keys are key_a1, key_b2',
}


@pytest.mark.parametrize("options", WRONG_OPTIONS)
def test_wrong_options_are_refused_by_name(conf: Path, options: tuple[str, ...]) -> None:
    result = run(conf, COSTS, *options)
    assert result.exit_code != 0
    assert WRONG_OPTIONS[options] in result.stderr
