"""``/models``: prices, margins and states of the catalog, and the use of each model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rig.console_reading import load_page, open_new_ledger, open_reading
from rig.ledger import make_row
from rig.rollups import write
from rig.settings_files import MODELS, edit, write_files

from addon.console.query import ParameterError
from addon.console.views.loaders import load_view

MINUTE = "2026-01-31T14:10:00.000+00:00"
YESTERDAY = "2026-01-30T10:00:00.000+00:00"
HOSTILE = "<script>\u202e"


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    conf_file = write_files(tmp_path)
    mini = {"created_at": MINUTE, "model_slug": "gpt-4o-mini", "provider": "OPENAI"}
    with open_new_ledger(tmp_path / "var" / "tollgate.db") as ledger:
        write(ledger, make_row("a", **mini, retail_nanousd=104, wholesale_nanousd=100))
        write(ledger, make_row("b", **mini, status=502, retail_nanousd=0, wholesale_nanousd=0))
        write(ledger, make_row("c", **mini, workspace="beta", retail_nanousd=52, wholesale_nanousd=50))
        write(ledger, make_row("d", **mini | {"created_at": YESTERDAY}, retail_nanousd=1_000))
        write(ledger, make_row("e", created_at=MINUTE, model_slug=HOSTILE, provider="GROQ", retail_nanousd=1))
        write(
            ledger, make_row("f", created_at=MINUTE, model_slug=HOSTILE, provider="OPENAI", retail_nanousd=1)
        )
    return conf_file


def rows(conf_file: Path, url: str) -> list[dict[str, Any]]:
    return load_page(conf_file, url).tables["models"].records()


def test_a_model_of_embeddings_has_no_most_output(conf_file: Path) -> None:
    models = conf_file.parent / MODELS
    edit(
        models,
        'output_price_per_m = "2"\nmax_completion_tokens = 100\nbyok_only = true',
        'serves = "embeddings"',
    )
    [found] = [row for row in rows(conf_file, "/models") if row["model_slug"] == "openai/gpt-oss-20b"]
    assert (found["max_completion_tokens"], found["output_microusd_per_mtok"]) == (None, 0)


def slugs(conf_file: Path, url: str) -> Sequence[str]:
    return [row["model_slug"] for row in rows(conf_file, url)]


def test_a_row_has_prices_margin_state_and_use(conf_file: Path) -> None:
    [found] = [row for row in rows(conf_file, "/models?range=hour") if row["model_slug"] == "gpt-4o-mini"]
    expected = {
        "provider": "OPENAI",
        "family": "chat",
        "upstream_model_id": "gpt-4o-mini-2024",
        "max_completion_tokens": 16384,
        "input_microusd_per_mtok": 156_000,
        "cached_input_microusd_per_mtok": 78_000,
        "cache_write_microusd_per_mtok": None,
        "output_microusd_per_mtok": 624_000,
        "wholesale_input_microusd_per_mtok": 150_000,
        "wholesale_output_microusd_per_mtok": 600_000,
        "margin_percent": 3.8462,
        "active": True,
        "in_catalog": True,
        "calls": 3,
        "failed_calls": 1,
        "error_rate": 0.333333,
        "retail_nanousd": 156,
        "wholesale_nanousd": 150,
        "margin_nanousd": 6,
    }
    assert {name: found[name] for name in expected} == expected


def test_a_state_says_whether_a_platform_key_serves_the_model(conf_file: Path) -> None:
    url = "/models?range=hour"
    assert {row["model_slug"]: row["state"] for row in rows(conf_file, url)} == {
        "gpt-4o-mini": "no platform key",
        "openai/gpt-oss-20b": "BYOK only",
        "sandbox-chat": "sandbox",
        HOSTILE: "not in the catalog",
    }
    with open_reading(conf_file, url, env={"OPENAI_KEY": "sk-obviously-fake"}) as (page, reading):
        records = load_view(page, reading).tables["models"].records()
    [mini] = [row for row in records if row["model_slug"] == "gpt-4o-mini"]
    assert mini["state"] == "active"
    assert "fake" not in str(records)


def test_a_model_outside_the_catalog_is_one_row(conf_file: Path) -> None:
    [found] = [row for row in rows(conf_file, "/models?range=hour") if not row["in_catalog"]]
    assert (found["model_slug"], found["calls"]) == (HOSTILE, 2)
    assert found["input_microusd_per_mtok"] is None


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("", ["gpt-4o-mini", HOSTILE, "openai/gpt-oss-20b", "sandbox-chat"]),
        ("&sort=model_slug", [HOSTILE, "gpt-4o-mini", "openai/gpt-oss-20b", "sandbox-chat"]),
        (
            "&sort=-input_microusd_per_mtok",
            ["openai/gpt-oss-20b", "sandbox-chat", "gpt-4o-mini", HOSTILE],
        ),
        ("&q=GPT", ["gpt-4o-mini", "openai/gpt-oss-20b"]),
        ("&q=gpt%20reasoning", ["openai/gpt-oss-20b"]),
        ("&q=nothing", []),
        ("&provider=SANDBOX", ["sandbox-chat"]),
    ],
)
def test_models_are_sorted_and_found(conf_file: Path, parameters: str, expected: Sequence[str]) -> None:
    assert slugs(conf_file, f"/models?range=hour{parameters}".replace("%20", " ")) == expected


def test_a_workspace_narrows_the_use(conf_file: Path) -> None:
    view = load_page(conf_file, "/models?range=hour&workspace=beta")
    assert view.values["totals"]["retail_nanousd"] == 52


def test_a_wrong_sort_is_named(conf_file: Path) -> None:
    with pytest.raises(ParameterError, match="sort: must be one of model_slug,"):
        rows(conf_file, "/models?sort=price")
