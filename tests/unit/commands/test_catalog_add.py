"""``tollgate catalog add``: a whole table, from published prices or from options, that loads before it is written."""

import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rig.configuration import ROOT
from rig.settings_files import contents, edit

from addon.commands.catalog import catalog
from addon.commands.init import init
from addon.settings.settings import load_settings

UNKNOWN = ("GROQ", "Own/Model-1", "--family", "groq", "--max-completion-tokens", "100")
PRICES = ("--input-price", "1", "--output-price", "2.5")


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """The conf of a deployment folder."""
    assert CliRunner().invoke(init, [str(tmp_path / "deployed")]).exit_code == 0
    return tmp_path / "deployed" / "proxy.conf"


def add(conf: Path, *arguments: str) -> Result:
    return CliRunner().invoke(catalog, ["add", *arguments, "--conf", str(conf)])


def overlay_of(conf: Path) -> Path:
    return conf.parent / "catalog" / "models.toml"


def test_a_published_model_needs_only_its_largest_completion(conf: Path) -> None:
    comments = overlay_of(conf).read_text(encoding="utf-8")
    done = add(conf, "openai", "gpt-4-turbo", "--max-completion-tokens", "4096")
    assert done.exit_code == 0, done.output
    text = overlay_of(conf).read_text(encoding="utf-8")
    assert text.startswith(comments)
    assert text == f"{comments.rstrip()}\n\n{done.stdout.partition('\n\nadded to')[0]}\n"
    table = tomllib.loads(text)["gpt-4-turbo"]
    assert (table["provider"], table["upstream_model_id"]) == ("OPENAI", "gpt-4-turbo")
    assert (table["input_price_per_m"], table["output_price_per_m"]) == ("10", "30")
    assert (table["family"], table["max_completion_tokens"], table["byok_only"]) == (
        "openai-chat",
        4096,
        False,
    )
    assert table["context_window"] == 128_000
    assert "# prices: genai-prices " in text
    assert load_settings(conf, {}).models["gpt-4-turbo"].active
    assert CliRunner().invoke(catalog, ["check", "--conf", str(conf)]).exit_code == 0


@pytest.mark.parametrize("arguments", [("gpt-4-turbo", "--slug", "tg_Ab3dE6gH"), ("tg_Ab3dE6gH",)])
def test_a_key_in_the_place_of_a_name_is_neither_written_nor_shown(
    conf: Path, arguments: tuple[str, ...]
) -> None:
    before = contents(conf.parent)
    refused = add(conf, "openai", *arguments, "--max-completion-tokens", "4096", *PRICES)
    assert (refused.exit_code, "looks like a credential" in refused.output) == (1, True)
    assert "tg_" not in refused.output
    assert contents(conf.parent) == before


def test_an_unpublished_model_needs_its_prices_too(conf: Path) -> None:
    before = contents(conf.parent)
    refused = add(conf, "GROQ", "own-1")
    assert refused.exit_code == 2
    said = " ".join(refused.stderr.split())
    assert (
        "Error: --input-price, --output-price, --max-completion-tokens must be given: genai-prices " in said
    )
    assert contents(conf.parent) == before
    done = add(
        conf,
        *(*UNKNOWN, *PRICES, "--cached-input-price", "0.5", "--cache-write-price", "1.25", "--byok-only"),
        *("--context-window", "1000"),
    )
    assert done.exit_code == 0, done.output
    assert tomllib.loads(overlay_of(conf).read_text(encoding="utf-8"))["own/model-1"] == {
        "provider": "GROQ",
        "upstream_model_id": "Own/Model-1",
        "family": "groq",
        "input_price_per_m": "1",
        "output_price_per_m": "2.5",
        "cached_input_price_per_m": "0.5",
        "cache_write_price_per_m": "1.25",
        "max_completion_tokens": 100,
        "context_window": 1000,
        "byok_only": True,
        "active": True,
    }


def test_a_published_window_that_does_not_hold_the_completion_is_not_written(conf: Path) -> None:
    assert add(conf, "openai", "gpt-4-turbo", "--max-completion-tokens", "128001").exit_code == 0
    assert "context_window" not in tomllib.loads(overlay_of(conf).read_text(encoding="utf-8"))["gpt-4-turbo"]


REFUSED = {
    "a window smaller than the completion": (
        (*UNKNOWN, *PRICES, "--context-window", "99"),
        "must be at least max_completion_tokens, which is 100",
    ),
    "an existing slug": ((*UNKNOWN, *PRICES, "--slug", "GPT-4o"), 'the model "gpt-4o" exists already'),
    "an unknown provider": (("GROK", "x"), 'unknown provider "GROK"; did you mean "GROQ"?'),
    "an unknown family": (
        ("GROQ", "x", *PRICES, "--family", "no-family", "--max-completion-tokens", "9"),
        "unknown family",
    ),
    "a price that is none": (
        (*UNKNOWN, "--input-price", "free", "--output-price", "1"),
        "is not a plain decimal",
    ),
    "a slug with a quote": ((*UNKNOWN, *PRICES, "--slug", 'a"b'), "must be a slug of printable ASCII"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_table_that_does_not_load_is_not_written(conf: Path, case: str) -> None:
    arguments, reason = REFUSED[case]
    before = contents(conf.parent)
    refused = add(conf, *arguments)
    assert refused.exit_code == 1
    assert reason in refused.stderr
    assert contents(conf.parent) == before


def test_without_an_overlay_the_catalog_of_the_folder_gets_the_table(tmp_path: Path, conf: Path) -> None:
    edit(conf, 'catalog_overlay = "catalog"', 'catalog_overlay = ""')
    refused = add(conf, *UNKNOWN, *PRICES)
    assert refused.exit_code == 1
    assert (
        "the catalog is the shipped one, which an upgrade replaces; set [paths] catalog_overlay"
        in refused.stderr
    )
    own = conf.parent / "own"
    own.mkdir()
    for name in ("models", "providers", "families"):
        (own / f"{name}.toml").write_bytes((ROOT / "catalog_data" / f"{name}.toml").read_bytes())
    edit(conf, 'catalog = ""', 'catalog = "own"')
    done = add(conf, *UNKNOWN, *PRICES)
    assert done.exit_code == 0, done.output
    assert "own/model-1" in tomllib.loads((own / "models.toml").read_text(encoding="utf-8"))


def test_a_missing_models_file_of_the_overlay_is_made(conf: Path) -> None:
    overlay_of(conf).unlink()
    assert add(conf, *UNKNOWN, *PRICES).exit_code == 0
    assert overlay_of(conf).stat().st_mode & 0o777 == 0o600
