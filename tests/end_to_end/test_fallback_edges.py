"""The limits of a second attempt. It must not replace a provider that can serve, must not claim an answer that it did
not give, and must leave no row of a call that was never sent. The faults of providers are in ``test_fault_matrix``.
"""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, provider, workspace
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.money import holds
from rig.scripts import Received, Script, ordinary, whole
from rig.service_accounts import key_file
from rig.upstream import RefusingPort, Upstream

from policies.circuit_breaker import FAILURES

PATH = "/v1/chat/completions"
TOKEN = "fake-access-token-" + "3" * 24
OUT_OF_ORDER = whole({"error": {"message": "out of order"}}, 503)

GOOD = ("to_good", "to_good_too", "to_good_as_well")
"""Workspaces that fall back to ``good``: a provider is passed over for all once it failed two of them."""

type Ask = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, upstreams: dict[str, Any]) -> Iterator[Gateway]:
    """Yield a gateway whose workspaces each have their own fallback model. TOKENLESS gets no access token."""
    base = upstreams["TESTER"].base_url
    fallbacks = {
        **dict.fromkeys(GOOD, "good"),
        "to_failing": "failing",
        "to_tokened": "tokened",
        "to_tokenless": "tokenless-2",
        "to_dear": "dear",
    }
    # A customer's own key for NET, where the Safety Net finds an empty wallet, or a model that it may not serve.
    own = {
        "plan": "standard",
        "safety_net": True,
        "byok": {"NET": {"secret": "env:TEST_OWN_KEY", "routing": True}},
    }
    poor = {"overage_protection": True, "monthly_spend_cap_usd": "0.01"}
    keys = {name: new_key() for name in [*fallbacks, "own"]}
    google = {"auth": "google_service_account"}
    with RefusingPort() as refusing, Upstream() as minting:
        minting.behave(whole({"access_token": TOKEN, "expires_in": 3600}))
        made = start_gateway(
            providers={
                **{name: provider(base) for name in ("GOOD", "BROKEN", "LOST", "FAILING", "NET")},
                "TOKENED": provider(base, **google, platform_key="env:TEST_ACCOUNT"),
                "TOKENLESS": provider(base, **google, platform_key="env:TEST_LOST_ACCOUNT"),
                "SHUT": provider(f"http://127.0.0.1:{refusing.port}/v1"),
            },
            models={
                **{
                    name: model(provider=name.upper(), upstream_model_id=name)
                    for name in ("good", "broken", "lost", "failing", "tokened")
                },
                "net": model(provider="NET", upstream_model_id="failing"),
                "net-own": model(provider="NET", upstream_model_id="failing", byok_only=True),
                "shut": model(provider="SHUT"),
                "dear": model(provider="GOOD", input_price_per_m="1000"),
                **{f"tokenless-{n}": model(provider="TOKENLESS") for n in (1, 2)},
            },
            workspaces={
                "own": workspace(("ci", keys["own"], True), **own),
                **{
                    name.replace("_", "-"): workspace(
                        ("ci", keys[name], True), fallback_model=slug, **(poor if name == "to_dear" else {})
                    )
                    for name, slug in fallbacks.items()
                },
            },
            environment={
                "TEST_OWN_KEY": "customer-key",
                "TEST_ACCOUNT": key_file(f"http://127.0.0.1:{minting.port}/token"),
                "TEST_LOST_ACCOUNT": key_file(f"http://127.0.0.1:{refusing.port}/token"),
            },
        )
        made.keys = keys
        yield made


@pytest.fixture
def ask(gateway: Gateway, upstream: Upstream) -> Iterator[Ask]:
    """Make a call of one of the workspaces: ``ask("to_good", "broken", stream=True)``."""
    with httpx.Client(base_url=gateway.url, timeout=BOUND_S, trust_env=False) as client:

        def send(key: str, name: str, **body: Any) -> httpx.Response:
            headers = {"Authorization": f"Bearer {gateway.keys[key]}"}
            return client.post(PATH, json={"model": name, "messages": HELLO} | body, headers=headers)

        yield send
    assert upstream.failures == []
    gateway.wait_until(lambda: not holds(gateway.folder / "var" / "tollgate.db"))


def failing(*models: str) -> Callable[[Received], Script]:
    """Let every call of ``models`` fail."""
    return lambda request: OUT_OF_ORDER if request.json()["model"] in models else ordinary(request)


def open_circuit(gateway: Gateway, ask: Ask, upstream: Upstream, name: str) -> None:
    """Let calls for ``name`` fail until the circuit of its provider is open, also after the store's next upkeep."""
    *callers, witness = GOOD
    for caller in callers * FAILURES:
        assert ask(caller, name).json()["model"] == "good"

    def is_skipped() -> bool:
        upstream.requests.clear()
        assert ask(witness, name).json()["model"] == "good"
        return sent(upstream) == ["good"]

    gateway.wait_until(is_skipped)
    upstream.requests.clear()


def sent(upstream: Upstream) -> list[str]:
    return [request.json()["model"] for request in upstream.requests]


def row_of(gateway: Gateway, answer: httpx.Response) -> tuple[Any, ...]:
    row = gateway.wait_for_row(answer.headers["x-request-id"])
    return row["status"], row["model_slug"], row["attempts"], row["fallback"]


def test_a_provider_is_skipped_for_one_with_access_tokens_only_when_there_is_a_token(
    ask: Ask, gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(failing("broken"))
    open_circuit(gateway, ask, upstream, "broken")
    upstream.behave(ordinary)
    answer = ask("to_tokened", "broken")
    assert (answer.status_code, answer.json().get("model"), sent(upstream)) == (200, "tokened", ["tokened"])
    assert upstream.last.header("authorization") == f"Bearer {TOKEN}"
    assert row_of(gateway, answer) == (200, "tokened", 1, 1)
    upstream.requests.clear()
    answer = ask("to_tokenless", "broken")
    assert (answer.status_code, answer.json().get("model"), sent(upstream)) == (200, "broken", ["broken"])
    assert "x-gateway-fallback" not in answer.headers
    assert row_of(gateway, answer) == (200, "broken", 1, 0)


def test_a_fallback_that_failed_for_a_skipped_provider_served_no_call(
    ask: Ask, gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(failing("lost", "failing"))
    open_circuit(gateway, ask, upstream, "lost")
    answer = ask("to_failing", "lost")
    assert_error(answer, 503, "upstream_error", "api_error")
    assert sent(upstream) == ["failing"]
    assert row_of(gateway, answer) == (503, "failing", 1, 0)
    line = gateway.wait_for_log(lambda line: line.get("id") == answer.headers["x-request-id"])
    assert (line["fallback"], line["attempts"]) == (False, 1)
    served = ask("to_good", "lost")
    assert served.headers["x-gateway-fallback"] == "true"
    assert row_of(gateway, served) == (200, "good", 1, 1)


def test_a_call_of_which_nothing_could_be_sent_is_refused_and_has_no_row(
    ask: Ask, gateway: Gateway, upstream: Upstream
) -> None:
    answer = ask("to_tokenless", "tokenless-1")
    assert "access token" in assert_error(answer, 502, "upstream_error", "api_error")["message"]
    ended = {"id": answer.headers["x-request-id"], "event": "refusal"}
    gateway.wait_for_log(lambda line: line.items() >= ended.items())
    assert sent(upstream) == []
    made_good = ask("to_good", "tokenless-1")
    assert row_of(gateway, made_good) == (200, "good", 1, 1)
    failed = {"id": made_good.headers["x-request-id"], "event": "attempt failed", "provider": "TOKENLESS"}
    gateway.wait_for_log(lambda line: line.items() >= failed.items())
    assert ended["id"] not in {row["id"] for row in gateway.ledger_rows()}


def test_a_fallback_that_is_too_expensive_leaves_the_first_failure_and_a_log_line_with_the_reason(
    ask: Ask, gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(failing("failing"))
    answer = ask("to_dear", "failing", max_tokens=5)
    assert_error(answer, 503, "upstream_error", "api_error")
    assert row_of(gateway, answer) == (503, "failing", 1, 0)
    wanted = {"id": answer.headers["x-request-id"], "event": "no fallback"}
    line = gateway.wait_for_log(lambda line: line.items() >= wanted.items())
    assert "a limit has no room (budget_of_prompt)" in line["message"]


def test_the_log_has_the_details_of_a_failure_that_the_answer_omits(
    ask: Ask, gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(failing("failing", "broken"))
    for name, code in (("net", "payment_required"), ("net-own", "byok_required")):
        answer = ask("own", name)
        assert answer.json()["error"]["code"] == code
        gateway.wait_for_log(lambda line, answer=answer: line.items() >= failed(answer, "byok").items())
    answer = ask("to_failing", "broken")
    assert_error(answer, 503, "upstream_error", "api_error")
    for slug in ("broken", "failing"):
        wanted = failed(answer, "payg") | {"slug": slug}
        gateway.wait_for_log(lambda line, wanted=wanted: line.items() >= wanted.items())


def failed(answer: httpx.Response, mode: str) -> dict[str, Any]:
    return {"id": answer.headers["x-request-id"], "event": "attempt failed", "mode": mode, "status": 503}


def test_the_reason_for_a_missing_connection_is_only_in_the_log(ask: Ask, gateway: Gateway) -> None:
    answer = ask("to_good", "shut")
    assert answer.json()["model"] == "good"
    wanted = {"id": answer.headers["x-request-id"], "event": "no connection", "provider": "SHUT"}
    line = gateway.wait_for_log(lambda line: line.items() >= wanted.items())
    assert line["message"].startswith("SHUT could not be reached: ")
    assert "refused" in line["message"] or "Connect call failed" in line["message"]
