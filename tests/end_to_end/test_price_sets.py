"""Each row names what priced it, whichever way its call took: a real gateway, both stores, figures by hand."""

import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.commands import tollgate
from rig.configuration import model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.money import select
from rig.scripts import CLOSE, Gate, Received, Script, chunk, chunked, completion, event, whole
from rig.toml_text import toml_text
from rig.upstream import Upstream

from policies.price_set import hash_content

OTHER_PRICES = "The catalog of today has other prices"
OWN = "fake-key-of-the-customer"
LARGE = model(
    upstream_model_id="large",
    input_price_per_m="2.5",
    output_price_per_m="15",
    cached_input_price_per_m="0.25",
    max_completion_tokens=128_000,
    tiers=[
        {
            "above_prompt_tokens": 272_000,
            "input_price_per_m": "5",
            "output_price_per_m": "22.5",
            "cached_input_price_per_m": "0.5",
        }
    ],
    service_tiers={"flex": {"input_price_per_m": "1.25", "output_price_per_m": "7.5"}},
)
PART = model(
    upstream_model_id="part",
    input_price_per_m="1",
    output_price_per_m="2",
    tiers=[
        {
            "above_prompt_tokens": 1_000,
            "whole_call": False,
            "input_price_per_m": "3",
            "output_price_per_m": "6",
        }
    ],
)
MODELS = {
    "large": LARGE,
    "part": PART,
    "plain": model(upstream_model_id="plain"),
    "reported": model(upstream_model_id="reported", cost="reported"),
    "broken": model(
        provider="BROKEN",
        upstream_model_id="broken",
        input_price_per_m="8",
        dated=[{"from_date": date(2026, 1, 1), "input_price_per_m": "9"}],
    ),
    "dated": model(
        upstream_model_id="dated", dated=[{"from_date": date(2026, 1, 1), "input_price_per_m": "0.2"}]
    ),
    "own": model(provider="OWNED", upstream_model_id="own", input_price_per_m="4", cost="reported"),
}


class Vendor:
    """The upstream: answers with ``usage``, fails for the model ``broken``, and for the customer's key if told so."""

    def __init__(self) -> None:
        self.answer: Any = completion()
        self.script: Script | None = None
        self.refuses_own_key = False

    def __call__(self, request: Received) -> Script:
        is_own = request.header("authorization") == f"Bearer {OWN}"
        if request.json()["model"] == "broken" or (is_own and self.refuses_own_key):
            return whole({"error": {"message": "out of order"}}, 503)
        return self.script or whole(self.answer)


class Priced:
    """A gateway of one store, and its calls."""

    def __init__(self, start: StartGateway, upstream: Upstream, folder: Path, state: dict[str, Any]) -> None:
        base = upstream.base_url
        pair = provider(base, platform_keys=["env:KEY_ONE", "env:KEY_TWO"])
        del pair["platform_key"]
        self.keys = {name: new_key() for name in ("ci", "own")}
        own = {"safety_net": True, "byok": {"OWNED": {"secret": "env:TEST_OWN_KEY", "routing": True}}}
        (folder / "overlay").mkdir()
        self._settings: dict[str, Any] = {
            "folder": folder,
            "providers": {"TESTER": pair, "BROKEN": provider(base), "OWNED": provider(base)},
            "models": MODELS,
            "workspaces": {
                "acme": workspace(("ci", self.keys["ci"], True), fallback_model="plain"),
                "own": workspace(("own", self.keys["own"], True), **own),
            },
            "environment": {"KEY_ONE": "fake-key-1", "KEY_TWO": "fake-key-2", "TEST_OWN_KEY": OWN},
            "sections": {"state": state, "paths": {"catalog_overlay": "overlay"}},
        }
        self._start, self.folder = start, folder
        self.vendor = Vendor()
        upstream.behave(self.vendor)
        self.gateway: Gateway = start(**self._settings)

    def start_again(self) -> None:
        self.gateway = self._start(**self._settings)

    def post(self, slug: str, key: str = "ci", **fields: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.keys[key]}"}
        body = {"model": slug, "messages": HELLO, "max_tokens": 1_000} | fields
        return httpx.post(
            f"{self.gateway.url}/v1/chat/completions", headers=headers, json=body, timeout=BOUND_S
        )

    def call(
        self, slug: str, usage: dict[str, Any] | None = None, key: str = "ci", **answer: Any
    ) -> dict[str, Any]:
        """Make a call and return its row."""
        self.vendor.answer = completion(**({"usage": usage} if usage else {})) | answer
        return self.gateway.wait_for_row(self.post(slug, key).headers["x-request-id"])

    def prices_of(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the wholesale prices of the row's set. Its content has its name."""
        ledger = self.folder / "var" / "tollgate.db"
        [kept] = select(ledger, "SELECT * FROM prices WHERE hash = ?", row["price_set"])
        assert hash_content(kept["content"]) == kept["hash"]
        found: dict[str, Any] = json.loads(kept["content"])["wholesale"]
        return found

    def page(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return what the console says of a call."""
        answer = httpx.get(f"{self.gateway.admin_url}/api/v1/calls/{row['id']}", timeout=BOUND_S)
        found: dict[str, Any] = answer.json()
        return found

    def html(self, row: dict[str, Any]) -> str:
        return httpx.get(f"{self.gateway.admin_url}/calls/{row['id']}", timeout=BOUND_S).text

    def verify(self) -> tuple[int, str]:
        ended = tollgate(self.folder, "ledger", "verify")
        return ended.returncode, ended.stdout

    def assert_sound(self) -> None:
        status, said = self.verify()
        assert (status, "no discrepancies" in said, "not kept" in said) == (0, True, False), said


@pytest.fixture(params=["sqlite", "redis"])
def priced(
    request: pytest.FixtureRequest, start_gateway: StartGateway, upstream: Upstream, tmp_path: Path
) -> Iterator[Priced]:
    state = {"backend": request.param}
    if request.param == "redis":
        state["redis_url"] = request.getfixturevalue("redis_url")
    made = Priced(start_gateway, upstream, tmp_path, state)
    yield made
    made.gateway.stop()


def count(prompt: int, completed: int, **more: Any) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completed,
        "total_tokens": prompt + completed,
        **more,
    }


def test_every_way_of_a_call_names_its_prices(priced: Priced) -> None:
    """Wholesale in nano-USD, by hand: tokens × USD per million × 1,000."""
    plain = priced.call("plain", count(1_000, 100))
    assert (plain["wholesale_nanousd"], plain["retail_nanousd"]) == (210_000, 218_400)
    assert priced.prices_of(plain) == {"cached_input": 150_000, "input": 150_000, "output": 600_000}
    long = priced.call("large", count(300_000, 1_000))
    assert long["wholesale_nanousd"] == 300_000 * 5_000 + 1_000 * 22_500
    flex = priced.call("large", count(1_000, 100), service_tier="flex")
    assert flex["wholesale_nanousd"] == 1_000 * 1_250 + 100 * 7_500
    assert flex["price_set"] == long["price_set"]
    scale = priced.call("large", count(1_000, 100), service_tier="scale")
    assert scale["wholesale_nanousd"] == 1_000 * 2_500 + 100 * 15_000
    part = priced.call("part", count(1_500, 10))
    assert part["wholesale_nanousd"] == 1_000 * 1_000 + 500 * 3_000 + 10 * 6_000
    reported = priced.call("reported", count(1_000, 100, cost=0.0005))
    assert (reported["wholesale_nanousd"], reported["retail_nanousd"]) == (500_000, 520_000)
    assert reported["price_set"] != plain["price_set"]  # Only the cost is another one.
    dated = priced.call("dated", count(1_000, 100))
    assert dated["wholesale_nanousd"] == 1_000 * 200 + 100 * 600
    assert priced.prices_of(dated)["input"] == 200_000
    # All are one conversation, so they have one of the keys of TESTER.
    used = {row["platform_key"] for row in (plain, long, flex, scale, part, reported)}
    assert used == {2}

    fallback = priced.call("broken", count(1_000, 100))
    assert (fallback["model_slug"], fallback["attempts"]) == ("plain", 2)
    assert (fallback["price_set"], fallback["wholesale_nanousd"]) == (plain["price_set"], 210_000)

    # Nothing is held for a customer's own key, and a cost that its provider reports is kept.
    own = priced.call("own", count(1_000, 100, cost=0.5), key="own")
    assert own["reported_nanousd"] == 500_000_000
    assert (own["mode"], own["price_set"], own["platform_key"], own["retail_nanousd"]) == (
        "byok",
        None,
        None,
        0,
    )
    priced.vendor.refuses_own_key = True
    net = priced.call("own", count(1_000, 100), key="own")
    assert (net["mode"], net["platform_key"], net["wholesale_nanousd"]) == (
        "payg",
        1,
        1_000 * 4_000 + 100 * 600,
    )
    assert priced.prices_of(net)["input"] == 4_000_000

    failed = priced.call("broken", key="own")
    assert (failed["status"], failed["usage_source"], failed["wholesale_nanousd"]) == (503, "none", 0)
    assert priced.prices_of(failed)["input"] == 9_000_000
    priced.vendor.script = whole({"error": {"message": "out of order"}}, 503)
    both = priced.call("broken")
    assert (both["model_slug"], both["attempts"], both["platform_key"]) == ("broken", 2, 1)
    assert both["price_set"] == failed["price_set"]
    priced.vendor.script = chunked(event(chunk("x" * 4_000)), CLOSE)
    cut = priced.gateway.wait_for_row(priced.post("plain", stream=True).headers["x-request-id"])
    assert (cut["usage_source"], cut["price_set"]) == ("estimated", plain["price_set"])
    assert cut["wholesale_nanousd"] == cut["prompt_tokens"] * 150 + 1_000 * 600
    priced.assert_sound()


def test_a_change_of_the_overlay_makes_a_second_set_and_changes_no_earlier_cost(priced: Priced) -> None:
    before = priced.call("plain", count(1_000, 100))
    table = MODELS["plain"] | {"input_price_per_m": "0.3"}
    (priced.folder / "overlay" / "models.toml").write_text(toml_text({"plain": table}))
    catalog = f"{priced.gateway.url}/v1/models/plain"
    priced.gateway.wait_until(
        lambda: httpx.get(catalog, timeout=BOUND_S).json()["inputPricePerMRetail"] == 0.312
    )
    after = priced.call("plain", count(1_000, 100))
    assert (before["wholesale_nanousd"], after["wholesale_nanousd"]) == (210_000, 360_000)
    assert [priced.prices_of(row)["input"] for row in (before, after)] == [150_000, 300_000]
    priced.assert_sound()
    pages = [priced.page(row) for row in (before, after)]
    inputs = [page["price_parts"][0]["wholesale_microusd_per_mtok"] for page in pages]
    assert inputs == [150_000, 300_000]
    assert [page["prices"]["are_of_today"] for page in pages] == [False, True]
    assert OTHER_PRICES in priced.html(before)
    assert OTHER_PRICES not in priced.html(after)


def test_a_call_whose_gateway_is_killed_names_its_prices_and_its_key(
    priced: Priced, upstream: Upstream
) -> None:
    priced.vendor.script = chunked(Gate())
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(priced.post, "large", user="killed")
        priced.gateway.wait_until(lambda: bool(upstream.requests))
        priced.gateway.kill()
        with suppress(httpx.HTTPError):
            answer.result(BOUND_S)
    priced.start_again()
    row = priced.gateway.wait_for_row(lambda row: row["end_user"] == "killed")
    assert (row["error_code"], row["retail_nanousd"], row["platform_key"]) == ("interrupted", 0, 2)
    assert priced.prices_of(row)["tiers"][0]["above_prompt_tokens"] == 272_000
    priced.assert_sound()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("", "The provider reported this cost. Spend is that with a markup of 4 %."),
        ("UPDATE usage SET price_set = 'not kept'", "The prices of this call were not kept"),
        ("UPDATE usage SET retail_nanousd = 7", "The row was changed later."),
        ("DELETE FROM prices", "the table of prices was changed"),
    ],
)
def test_the_page_of_a_call_says_what_priced_it(
    start_gateway: StartGateway, upstream: Upstream, tmp_path: Path, change: str, sentence: str
) -> None:
    priced = Priced(start_gateway, upstream, tmp_path, {"backend": "sqlite"})
    row = priced.call("reported", count(1_000, 100, cost=0.0005))
    with closing(sqlite3.connect(tmp_path / "var" / "tollgate.db", isolation_level=None)) as ledger:
        ledger.execute(change)
    assert sentence in priced.html(row)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE usage SET prompt_tokens = prompt_tokens + 1",
        "UPDATE usage SET wholesale_nanousd = wholesale_nanousd - 1",
        "UPDATE usage SET price_set = NULL",
        "UPDATE prices SET content = replace(content, '600000', '600001')",
    ],
)
def test_whoever_changes_a_count_a_cost_or_a_price_is_found(
    start_gateway: StartGateway, upstream: Upstream, tmp_path: Path, change: str
) -> None:
    priced = Priced(start_gateway, upstream, tmp_path, {"backend": "sqlite"})
    row = priced.call("plain", count(1_000_000, 100_000))
    priced.gateway.stop()
    with closing(sqlite3.connect(tmp_path / "var" / "tollgate.db", isolation_level=None)) as ledger:
        ledger.execute(change)
    status, said = priced.verify()
    assert status == 1
    assert f"call {row['id']}: " in said
