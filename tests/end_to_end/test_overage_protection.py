"""Overage protection with its defaults: twenty calls at once on a small wallet, and the errors of refused calls."""

import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from openai import OpenAI
from rig.bounds import BOUND_S
from rig.configuration import FAMILIES, ROOT, model, new_key, workspace
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.money import USD, credit, spent
from rig.scripts import Gate, Received, Script, completion, whole
from rig.upstream import Upstream

from addon.settings.settings import load_settings
from policies.estimate import estimate_prompt_tokens
from policies.limits import Limit, wallet_counter
from policies.model import Model
from policies.spend import CounterUse, Hold, compute_max_cost, place_hold

PATH = "/v1/chat/completions"
WALLET = Limit("wallet", wallet_counter("acme"), 0)
KEYS = {
    name: new_key()
    for name in ("burst", "rated", "daily", "never", "empty", "hops", "exposed", "said", "helped", "padded")
}


@cache
def catalog() -> dict[str, Model]:
    """Return the shipped models by slug."""
    with TemporaryDirectory() as folder:
        conf = Path(folder) / "proxy.conf"
        conf.with_name("none").mkdir()
        conf.write_text(
            f'[paths]\ncatalog = "{ROOT / "catalog_data"}"\nworkspaces = "none"\n', encoding="utf-8"
        )
        return dict(load_settings(conf, {}).models)


def dearest() -> Model:
    metered = (one for one in catalog().values() if one.active and not one.byok_only)
    return max(metered, key=lambda one: (one.retail.output_microusd_per_mtok, one.max_completion_tokens))


def refused_of_twenty(one: Model, wallet_usd: int) -> int:
    """Return the number of refused calls, of twenty calls at once without a cap."""
    prompt_tokens = estimate_prompt_tokens({"messages": HELLO}, one.family.estimator)
    assert one.max_completion_tokens is not None
    max_cost = compute_max_cost(
        one.retail,
        prompt_tokens,
        one.max_completion_tokens,
        1,
        is_protected=True,
        names_cap=False,
        service_tier=one.provider.service_tier,
        rare_kinds=(),
        max_searches=one.max_unasked_searches,
    )
    held: list[int] = []
    for _ in range(20):
        used = CounterUse(-wallet_usd * USD, 0, sum(held), len(held))
        decided = place_hold(max_cost, [WALLET], {WALLET.counter: used})
        if isinstance(decided, Hold):
            held.append(decided.amount_nanousd)
    assert sum(held) <= wallet_usd * USD
    return 20 - len(held)


def test_the_page_has_the_number_of_refused_calls_of_twenty_at_once() -> None:
    page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    documented = re.findall(
        r"^\| `([^`]+)` \| [^|]* \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE
    )
    found = {
        slug: [refused_of_twenty(catalog()[slug], usd) for usd in (1, 5, 20, 100)] for slug, *_ in documented
    }
    assert {slug: [int(number) for number in numbers] for slug, *numbers in documented} == found
    assert dearest().slug in found


# --- over a gateway ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def limited(start_gateway: StartGateway) -> Gateway:
    """A gateway whose model has the price of the dearest model of the catalog."""
    dear = dearest()
    prices = {
        "input_price_per_m": str(dear.wholesale.input_microusd_per_mtok / 1e6),
        "output_price_per_m": str(dear.wholesale.output_microusd_per_mtok / 1e6),
    }
    capped: dict[str, Any] = {"request_cap": 1}
    made = {
        "burst": {"plan": "standard"},
        "rated": {"rpm_override": 1},
        "daily": {"monthly_spend_cap_usd": "0.000001"},
        "never": {},
        "empty": {"plan": "standard"},
        "hops": {"fallback_model": "other"},
        "exposed": {"plan": "standard", "overage_protection": False},
        "said": {"overage_protection": True},
        "helped": {"plan": "standard"},
        "padded": {"plan": "standard"},
    }
    workspaces = {name: workspace((name, KEYS[name], True), **changes) for name, changes in made.items()}
    workspaces["never"]["keys"][0] |= capped
    gateway = start_gateway(
        models={
            "dear": model(**prices, max_completion_tokens=dear.max_completion_tokens),
            "other": model(upstream_model_id="other"),
        },
        families={"openai-chat": FAMILIES["openai-chat"] | {"extra": ["chat_template_kwargs"]}},
        workspaces=workspaces,
    )
    credit(gateway.folder / "var" / "tollgate.db", "padded", "0.01")
    for name in ("burst", "helped"):
        credit(gateway.folder / "var" / "tollgate.db", name, "20")
    return gateway


def ask(gateway: Gateway, name: str, **body: Any) -> httpx.Response:
    asked = {"model": "dear", "messages": HELLO} | body
    headers = {"Authorization": f"Bearer {KEYS[name]}"}
    return httpx.post(gateway.url + PATH, json=asked, headers=headers, timeout=BOUND_S, trust_env=False)


@contextmanager
def opened_at_the_end(gate: Gate) -> Iterator[None]:
    try:
        yield
    finally:
        gate.open()


def test_of_twenty_calls_at_once_a_few_get_retry_after_one_second(
    limited: Gateway, upstream: Upstream
) -> None:
    gate = Gate()
    upstream.behave((gate, *whole(completion())))
    expected = refused_of_twenty(dearest(), 20)
    with ThreadPoolExecutor(20) as pool, opened_at_the_end(gate):
        calls: list[Future[httpx.Response]] = [pool.submit(ask, limited, "burst") for _ in range(20)]
        upstream.wait_for_requests(20 - expected)
        limited.wait_until(lambda: sum(call.done() for call in calls) == expected)
        gate.open()
        answers = [call.result() for call in calls]
    refused = [answer for answer in answers if answer.status_code != 200]
    assert len(refused) == expected
    for answer in refused:
        error = assert_error(answer, 402, "payment_required", "invalid_request_error")
        assert error["message"].startswith("Insufficient budget for this completion request")
        assert re.search(rf" {20 - expected} calls in flight hold \$(19|20)\.[0-9]{{2}}\.$", error["message"])
        assert (answer.headers["retry-after"], answer.headers["x-should-retry"]) == ("1", "true")
    assert spent(limited.folder / "var" / "tollgate.db", "wallet:burst")[0] < 0


def test_the_sdk_retries_and_is_served(limited: Gateway, upstream: Upstream) -> None:
    gate = Gate()

    def once_held(_request: Received) -> Script:
        return (gate, *whole(completion()))

    upstream.behave(once_held)
    expected = refused_of_twenty(dearest(), 20)
    with (
        OpenAI(base_url=f"{limited.url}/v1", api_key=KEYS["helped"], max_retries=5, timeout=BOUND_S) as sdk,
        ThreadPoolExecutor(20) as pool,
        opened_at_the_end(gate),
    ):
        create = sdk.chat.completions.create
        calls = [pool.submit(create, model="dear", messages=HELLO) for _ in range(20)]  # type: ignore[arg-type]
        upstream.wait_for_requests(20 - expected)
        gate.open()
        assert [call.result().choices[0].message.content for call in calls] == ["hello"] * 20


def test_the_hold_includes_each_field_that_is_sent(limited: Gateway, upstream: Upstream) -> None:
    padding = {"chat_template_kwargs": {"note": "a word or two " * 70_000}}
    answer = ask(limited, "padded", model="other", **padding)
    assert_error(answer, 402, "payment_required", "invalid_request_error")
    assert upstream.requests == []
    assert ask(limited, "padded", model="other").status_code == 200


@pytest.mark.parametrize(
    ("name", "code", "waits"),
    [
        ("rated", "rate_limit_exceeded", True),
        ("never", "rate_limit_exceeded", False),
        ("daily", "payment_required", True),
        ("empty", "payment_required", False),
    ],
)
def test_the_error_of_a_limit_has_retry_after(
    limited: Gateway, upstream: Upstream, name: str, code: str, waits: bool
) -> None:
    answer = next(answer for _ in range(2) if (answer := ask(limited, name)).status_code != 200)
    assert answer.json()["error"]["code"] == code
    if not waits:
        assert "retry-after" not in answer.headers
        assert answer.headers["x-should-retry"] == "false"
    elif name == "rated":
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert "x-should-retry" not in answer.headers
    else:
        assert 1 <= int(answer.headers["retry-after"]) <= 31 * 86_400


def test_retry_after_is_that_of_the_answered_failure(limited: Gateway, upstream: Upstream) -> None:
    def slower(request: Received) -> Script:
        after = "2" if request.json()["model"] == "other" else "1"
        return whole({"error": {"message": f"Slower, {after}."}}, 429, [("Retry-After", after)])

    upstream.behave(slower)
    answer = ask(limited, "hops")
    assert len(upstream.requests) == 2
    assert answer.json()["error"]["message"] == "Slower, 1."
    assert answer.headers["retry-after"] == "1"


def test_the_start_logs_workspaces_with_default_or_without_overage_protection(limited: Gateway) -> None:
    silent = limited.wait_for_log(lambda line: line.get("event") == "overage protection by default")
    assert "daily, empty, " in silent["message"]
    assert "said" not in silent["message"]
    assert "exposed" not in silent["message"]
    exposed = limited.wait_for_log(lambda line: line.get("event") == "overage protection off")
    assert (exposed["level"], "for exposed:" in exposed["message"]) == ("warning", True)
    assert "docs/limits.md" in exposed["message"]
