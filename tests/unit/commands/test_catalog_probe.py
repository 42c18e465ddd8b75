"""``tollgate catalog probe``: real calls through a gateway of its own, with rows, and never above the bound."""

import json
import os
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rig.bounds import BOUND_S
from rig.commands import tollgate
from rig.configuration import (
    PROVIDER_KEY,
    ROOT,
    TOLLGATE,
    Configuration,
    environment,
    model,
    new_key,
    provider,
    workspace,
)
from rig.gateway import Gateway
from rig.large import sampled
from rig.scripts import completion, whole
from rig.strict_vendors import answer, base_url
from rig.upstream import Upstream

from addon.commands.catalog_probe_calls import plan_calls
from addon.settings.settings import load_settings
from policies.money import format_nanousd

CATALOG = ROOT / "catalog_data"
SLUGS = ("mistral-large-3", "claude-haiku-4-5")
"""One model of a vendor that is called in its own words, and one of a vendor with another API."""
KEY = new_key()


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads((CATALOG / name).read_text(encoding="utf-8"))


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as upstream:
        upstream.behave(answer)
        yield upstream
        assert upstream.failures == []


@pytest.fixture
def configuration(upstream: Upstream) -> Configuration:
    """The configuration with strict providers, and one model without a platform key."""
    models = {slug: _table("models.toml")[slug] for slug in SLUGS}
    shipped = _table("providers.toml")
    providers = {
        name: provider(base_url(upstream.base_url, name), dialect=shipped[name]["dialect"])
        for name in {one["provider"] for one in models.values()}
    }
    keyless = provider("http://keyless.invalid/v1", platform_key="env:TEST_UNSET_KEY")
    return Configuration(
        providers=providers | {"KEYLESS": keyless},
        models=models | {"keyless": model(provider="KEYLESS", family="openai-chat")},
        families=_table("families.toml"),
        workspaces={"ops": workspace(("k", KEY, True), monthly_spend_cap_usd="5")},
    )


@pytest.fixture
def folder(tmp_path: Path, configuration: Configuration) -> Path:
    configuration.write(tmp_path)
    return tmp_path


def _probe(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = tollgate(folder, "catalog", "probe", "--workspace", "ops", *arguments)
    assert PROVIDER_KEY not in done.stdout + done.stderr
    assert "tg_" not in done.stdout + done.stderr
    return done


def _rows(folder: Path) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(folder / "var" / "tollgate.db")) as ledger:
        ledger.row_factory = sqlite3.Row
        return [dict(row) for row in ledger.execute("SELECT * FROM usage ORDER BY created_at, rowid")]


def test_each_model_is_called_whole_and_streamed_and_leaves_the_rows_of_any_call(folder: Path) -> None:
    done = _probe(folder, "--yes", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    shown = json.loads(done.stdout)
    called = [one for one in shown["calls"] if one["result"] != "skipped"]
    assert {(one["slug"], one["call"], one["result"], one["status"]) for one in called} == {
        (slug, kind, "ok", 200) for slug in SLUGS for kind in ("whole", "streamed")
    }
    assert all((one["cap_tokens"], one["cap_accepted"]) == (256, True) for one in called)
    rows = _rows(folder)
    assert [(row["id"], row["wholesale_nanousd"], row["usage_source"]) for row in rows] == [
        (one["id"], one["wholesale_nanousd"], "provider") for one in called
    ]
    assert {(row["workspace"], row["key_id"], row["mode"]) for row in rows} == {
        ("ops", "catalog-probe", "payg")
    }
    assert shown["wholesale_nanousd"] == sum(row["wholesale_nanousd"] for row in rows) > 0


def test_it_works_beside_a_running_gateway(configuration: Configuration, tmp_path: Path) -> None:
    with Gateway(configuration, tmp_path, {"ci": KEY}) as gateway:
        done = _probe(tmp_path, "--yes", "--model", SLUGS[0])
        assert done.returncode == 0, done.stderr
        assert [row["key_id"] for row in gateway.ledger_rows()] == ["catalog-probe"] * 2
    assert "skipped" not in done.stdout


def test_people_see_the_calls_and_why_a_model_is_skipped(folder: Path) -> None:
    lines = _probe(folder, "--yes").stdout.splitlines()
    assert lines[0].split()[:3] == ["slug", "call", "result"]
    assert "skipped, KEYLESS has no platform key (TEST_UNSET_KEY is not set): keyless" in lines
    assert lines[-1].startswith("4 calls, 0 failed, for 0.0000")


def test_a_model_without_a_key_is_skipped_with_the_reason(folder: Path) -> None:
    done = _probe(folder, "--model", "keyless", "--json")
    assert done.returncode == 0
    [one] = json.loads(done.stdout)["calls"]
    assert (one["result"], one["note"]) == (
        "skipped",
        "KEYLESS has no platform key (TEST_UNSET_KEY is not set)",
    )


def test_it_stops_before_the_bound_would_be_passed(folder: Path, upstream: Upstream) -> None:
    settings = load_settings(folder / "proxy.conf", {"TEST_PROVIDER_KEY": PROVIDER_KEY})
    _, streamed = plan_calls([settings.models[SLUGS[0]]], full_cap=False)
    first, _ = json.loads(_probe(folder, "--yes", "--model", SLUGS[0], "--json").stdout)["calls"]
    # What the first call cost, and the most that the second one may cost.
    enough_nanousd = first["retail_nanousd"] + streamed.most_nanousd
    for bound_nanousd, results in (
        (enough_nanousd, ["ok", "ok"]),
        (enough_nanousd - 1, ["ok", "not called"]),
    ):
        upstream.requests.clear()
        bound = format_nanousd(bound_nanousd)
        done = _probe(folder, "--yes", "--model", SLUGS[0], "--max-cost", bound, "--json")
        assert done.returncode == 0
        assert [one["result"] for one in json.loads(done.stdout)["calls"]] == results
        assert len(upstream.requests) == results.count("ok")


@sampled(every=2)
@pytest.mark.parametrize(("typed", "code", "calls"), [("n", 1, 0), ("y", 0, 2)])
def test_on_a_terminal_it_asks_first(
    folder: Path, upstream: Upstream, typed: str, code: int, calls: int
) -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, *TOLLGATE, "catalog", "probe", "--workspace", "ops", "--model", SLUGS[0]]
    with open(ours, "wb", buffering=0) as keyboard, open(theirs, "rb", buffering=0) as terminal:
        keyboard.write(f"{typed}\n".encode())
        done = subprocess.run(
            command,
            env=environment({}),
            cwd=folder,
            stdin=terminal,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )
    assert "Make up to 2 real calls, for 0.0" in done.stderr
    assert (done.returncode, len(upstream.requests)) == (code, calls)


def test_a_bound_below_the_first_call_makes_none(folder: Path, upstream: Upstream) -> None:
    done = _probe(folder, "--yes", "--model", "mistral*", "--max-cost", "0.000001")
    assert done.returncode == 0
    assert (
        "2 calls not made: the next might pass 0.000001 USD. The first is mistral-large-3, whole."
        in done.stdout
    )
    assert upstream.requests == []


def test_a_refused_cap_is_a_failure_with_the_words_of_the_vendor(folder: Path, upstream: Upstream) -> None:
    upstream.behave(whole({"error": {"message": "max_tokens is too large", "type": "invalid"}}, 400))
    done = _probe(folder, "--yes", "--model", "mistral*", "--json")
    assert done.returncode == 1
    calls = json.loads(done.stdout)["calls"]
    assert [(one["result"], one["status"], one["cap_accepted"]) for one in calls] == [
        ("failed", 400, False),
        ("failed", 400, False),
    ]
    assert all("max_tokens is too large" in one["note"] for one in calls)


def test_an_answer_without_usage_is_a_failure(folder: Path, upstream: Upstream) -> None:
    said = completion()
    del said["usage"]
    upstream.behave(whole(said))
    done = _probe(folder, "--yes", "--model", "mistral*")
    assert done.returncode == 1
    assert "mistral-large-3, whole: the answer has no usage, so its cost is estimated" in done.stdout


def test_without_a_terminal_it_asks_for_yes_and_calls_nobody(folder: Path, upstream: Upstream) -> None:
    done = _probe(folder)
    assert done.returncode == 2
    assert "confirm with --yes" in done.stderr
    assert upstream.requests == []


def test_the_full_cap_asks_for_what_the_model_may_answer(folder: Path, upstream: Upstream) -> None:
    done = _probe(folder, "--yes", "--model", "mistral*", "--full-cap", "--max-cost", "10", "--json")
    largest = _table("models.toml")["mistral-large-3"]["max_completion_tokens"]
    assert done.returncode == 0, done.stdout
    assert {one["cap_tokens"] for one in json.loads(done.stdout)["calls"]} == {largest}
    sent = [request.json()["max_tokens"] for request in upstream.requests]
    assert len(sent) == 2
    assert all(256 < cap <= largest for cap in sent)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--workspace", "opz"), "unknown workspace"),
        (("--workspace", "ops", "--model", "nothing-*"), "no model of the catalog matches nothing-*"),
        (("--workspace", "ops", "--max-cost", "much"), "--max-cost"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    done = tollgate(folder, "catalog", "probe", "--yes", *arguments)
    assert done.returncode in (1, 2)
    assert said in done.stderr
