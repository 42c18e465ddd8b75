"""``tollgate catalog price`` refuses bad input by name, and writes nothing."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from rig.ledger import make_row
from rig.price_command import OWN, make_deployment, overlay_of
from rig.price_command import run_price as run
from rig.settings_files import contents
from rig.usage_report import write_rows


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """The conf of a deployment folder whose overlay has a model of its own."""
    return make_deployment(tmp_path / "deployed")


REFUSED = {
    "an unknown slug": (("owm", "--input", "1"), 1, 'unknown model "owm"; did you mean "own"?'),
    "a slug of two lines": (("o\nwn\x1b[1m", "--input", "1"), 1, r'unknown model "o\nwn\x1b[1m"'),
    "a key as slug": (("tg_Ab3dE6gH", "--input", "1"), 1, "unknown model"),
    "no price": (("own",), 2, "give a SLUG and a price"),
    "no slug": (("--input", "1"), 2, "give a SLUG and a price"),
    "a price that is none": (("own", "--cached-input", "1,5"), 2, "'--cached-input': is not a plain decimal"),
    "too many digits": (("own", "--output", "0.1234567"), 2, "'--output': has 7 fractional digits"),
    "a negative price": (("own", "--per-call", "-1"), 2, "'--per-call': is negative"),
    "a price of a dollar a token": (("own", "--input", "123456789"), 2, "'--input': is too large"),
    "a bound of nothing": (("own", "--above", "0", "--input", "1"), 2, "'--above'"),
    "a tier that is not there": (
        ("own", "--above", "10000", "--input", "1"),
        1,
        'the model "own" has no tier above 10000 (its bounds: 1000); add one with --add-tier',
    ),
    "a tier of a model without": (
        ("gpt-4o-mini", "--above", "9", "--input", "1"),
        1,
        'the model "gpt-4o-mini" has no tier above 9 (it has no tiers); add one with --add-tier',
    ),
    "a tier that is there already": (
        ("own", "--above", "1000", "--add-tier", "--input", "1"),
        1,
        'the model "own" has a tier above 1000 already; leave --add-tier out',
    ),
    "a new tier without a bound": (("own", "--add-tier", "--input", "1"), 2, "--add-tier needs --above"),
    "an unknown day": (
        ("own", "--from", "2027-01-01", "--input", "1"),
        1,
        'the model "own" has no prices from 2027-01-01 on (it has none from any day on); add them with --add-day',
    ),
    "a day that is none": (("own", "--from", "2027-13-01", "--input", "1"), 2, "'--from'"),
    "a day to add without a day": (
        ("own", "--add-day", "--input", "1"),
        2,
        "--add-day needs --from, the day",
    ),
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


def test_a_pipe_is_no_tried_file(conf: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tried")
    refused = run(conf, "--what-if", tmp_path / "tried")
    assert (refused.exit_code, f"{tmp_path}/tried: is not a regular file" in refused.stderr) == (1, True)


def test_a_hidden_model_has_no_price_to_change(conf: Path) -> None:
    overlay_of(conf).write_text('["gpt-5.4"]\nactive = false\n', encoding="utf-8")
    refused = run(conf, "gpt-5.4", "--input", "1")
    assert (refused.exit_code, 'hides the model "gpt-5.4"' in refused.stderr) == (1, True)


def test_a_damaged_ledger_is_a_warning_where_prices_were_written(conf: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(write_rows(conf, [make_row("a")]))) as ledger, ledger:
        ledger.execute("PRAGMA legacy_alter_table = ON")
        ledger.execute("ALTER TABLE usage RENAME TO lost")
    done = run(conf, "own", "--input", "1.25")
    assert done.exit_code == 0, done.output
    assert "warning: what calls would have cost is not known: " in done.stderr
    assert 'input_price_per_m = "1.25"' in overlay_of(conf).read_text(encoding="utf-8")
    (tmp_path / "tried.toml").write_text(OWN)
    assert run(conf, "--what-if", tmp_path / "tried.toml").exit_code == 1
