"""Several places where something else is in the way: own keys, tokens, a key's models, weights, and an edit."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import PROVIDER_KEY, model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.money import credit, holds
from rig.scripts import Gate, Received, Script, ordinary, whole
from rig.service_accounts import key_file
from rig.upstream import RefusingPort, Upstream

type Ask = Callable[..., httpx.Response]

OWN, OTHER_OWN = "customer-key", "customer-key-2"
BYOK = {
    "B": {"secret": "env:TEST_OWN_KEY", "routing": True},
    "C": {"secret": "env:TEST_OTHER_OWN_KEY", "routing": True},
}
NETTED: dict[str, Any] = {"byok": BYOK, "safety_net": True, "plan": "standard"}
WORKSPACES: dict[str, dict[str, Any]] = {
    "acme": {"fallback_model": "other"},
    "net": NETTED,
    "poor": NETTED,
    "barred": NETTED,
}


def places(provider: str, model_id: str, *others: tuple[str, str], **changes: Any) -> dict[str, Any]:
    deployments = [{"provider": name, "upstream_model_id": at} for name, at in others]
    first = {"order": "first", "deployments": deployments} if others else {}
    return model(provider=provider, upstream_model_id=model_id, **first | changes)


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, upstreams: dict[str, Any]) -> Iterator[Gateway]:
    base = upstreams["TESTER"].base_url
    keys = {name: new_key() for name in (*WORKSPACES, "narrow")}
    files = {name: workspace(("ci", keys[name], True), **own) for name, own in WORKSPACES.items()}
    files["narrow"] = workspace(("ci", keys["narrow"], True), fallback_model="other")
    files["narrow"]["keys"][0]["models"] = ["three", "one"]
    with RefusingPort() as refusing:
        made = start_gateway(
            providers={
                **{name: provider(base) for name in "ABCDE"},
                "TOKENLESS": provider(
                    base, auth="google_service_account", platform_key="env:TEST_LOST_ACCOUNT"
                ),
            },
            models={
                "three": places("A", "a", ("B", "b"), ("C", "c")),
                "own-only": places("B", "b", ("C", "c"), byok_only=True),
                "weightless": places("D", "last", ("D", "usual"), weight=0),
                "tokenless": places("TOKENLESS", "t", ("D", "d")),
                "leaving": places("E", "stays", ("E", "leaves")),
                "one": places("D", "one"),
                "other": places("E", "other"),
            },
            workspaces=files,
            environment={
                "TEST_OWN_KEY": OWN,
                "TEST_OTHER_OWN_KEY": OTHER_OWN,
                "TEST_LOST_ACCOUNT": key_file(f"http://127.0.0.1:{refusing.port}/token"),
            },
            sections={"upstream": {"retries": 1}},
        )
        made.keys = keys
        yield made


@pytest.fixture
def ask(gateway: Gateway, upstream: Upstream) -> Iterator[Ask]:
    with httpx.Client(base_url=gateway.url, timeout=BOUND_S, trust_env=False) as client:

        def send(key: str, name: str, **body: Any) -> httpx.Response:
            headers = {"Authorization": f"Bearer {gateway.keys[key]}"}
            asked = {"model": name, "messages": HELLO} | body
            return client.post("/v1/chat/completions", json=asked, headers=headers)

        yield send
    assert upstream.failures == []
    gateway.wait_until(lambda: not holds(gateway.folder / "var" / "tollgate.db"))


DOWN = whole({"error": {"message": "down"}}, 503)


def failing(is_down: Callable[[str, str], bool]) -> Callable[[Received], Script]:
    """Fail where ``is_down`` says so of an upstream model and a key."""

    def answer(request: Received) -> Script:
        key = (request.header("authorization") or "").removeprefix("Bearer ")
        return DOWN if is_down(request.json()["model"], key) else ordinary(request)

    return answer


def sent(upstream: Upstream) -> list[tuple[str, str]]:
    """Return the upstream model and the key of each request."""
    return [
        (request.json()["model"], (request.header("authorization") or "").removeprefix("Bearer "))
        for request in upstream.requests
    ]


def row(gateway: Gateway, answer: httpx.Response) -> tuple[Any, ...]:
    found = gateway.wait_for_row(answer.headers["x-request-id"])
    return tuple(found[name] for name in ("provider", "mode", "attempts", "fallback", "status"))


def test_the_safety_net_follows_all_places_with_own_keys_and_each_key_goes_to_its_place_alone(
    gateway: Gateway, ask: Ask, upstream: Upstream
) -> None:
    credit(gateway.folder / "var" / "tollgate.db", "net", "1")
    upstream.behave(failing(lambda _, key: key != PROVIDER_KEY))
    answer = ask("net", "three")
    assert sent(upstream) == [("b", OWN), ("c", OTHER_OWN), ("a", PROVIDER_KEY)]
    assert answer.headers["x-gateway-fallback"] == "true"
    assert row(gateway, answer) == ("A", "payg", 3, 1, 200)
    found = gateway.wait_for_row(answer.headers["x-request-id"])
    assert found["retail_nanousd"] > 0


def test_another_place_with_an_own_key_is_no_fallback_and_is_free(
    gateway: Gateway, ask: Ask, upstream: Upstream
) -> None:
    upstream.behave(failing(lambda _, key: key == OWN))
    answer = ask("poor", "three")
    assert "x-gateway-fallback" not in answer.headers
    assert row(gateway, answer) == ("C", "byok", 2, 0, 200)


def test_an_empty_wallet_bars_the_safety_net_once_all_own_places_failed(
    gateway: Gateway, ask: Ask, upstream: Upstream
) -> None:
    upstream.behave(failing(lambda *_: True))
    answer = ask("poor", "three")
    assert (answer.status_code, sent(upstream)) == (402, [("b", OWN), ("c", OTHER_OWN)])
    assert "cannot use the Safety Net fallback" in answer.json()["error"]["message"]
    assert "x-gateway-fallback" not in answer.headers
    assert row(gateway, answer)[1:] == ("byok", 2, 0, 402)


def test_a_model_for_own_keys_alone_never_uses_the_platforms(
    gateway: Gateway, ask: Ask, upstream: Upstream
) -> None:
    upstream.behave(failing(lambda *_: True))
    answer = ask("barred", "own-only")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "byok_required")
    assert sent(upstream) == [("b", OWN), ("c", OTHER_OWN)]
    assert row(gateway, answer)[1:] == ("byok", 2, 0, 403)


def test_a_place_without_an_access_token_is_passed_and_that_is_no_fallback(
    gateway: Gateway, ask: Ask, upstream: Upstream
) -> None:
    answer = ask("acme", "tokenless")
    assert sent(upstream) == [("d", PROVIDER_KEY)]
    assert "x-gateway-fallback" not in answer.headers
    assert row(gateway, answer) == ("D", "payg", 1, 0, 200)


def test_a_key_that_may_not_use_the_fallback_never_gets_it_and_is_retried_where_there_is_one_place(
    gateway: Gateway, ask: Ask, upstream: Upstream
) -> None:
    upstream.behave(failing(lambda name, _: name != "other"))
    answer = ask("narrow", "three")
    assert (answer.status_code, [name for name, _ in sent(upstream)]) == (503, ["a", "b", "c"])
    upstream.requests.clear()
    answer = ask("narrow", "one")
    assert (answer.status_code, [name for name, _ in sent(upstream)]) == (503, ["one", "one"])
    assert row(gateway, answer) == ("D", "payg", 2, 0, 503)


def test_a_place_of_weight_0_serves_if_the_others_can_not(ask: Ask, upstream: Upstream) -> None:
    ask("acme", "weightless")
    upstream.behave(failing(lambda name, _: name == "usual"))
    assert ask("acme", "weightless").status_code == 200
    assert [name for name, _ in sent(upstream)] == ["usual", "usual", "last"]


@pytest.mark.parametrize("stream", [False, True])
def test_if_all_places_keep_failing_each_call_still_tries_them(
    gateway: Gateway, ask: Ask, upstream: Upstream, stream: bool
) -> None:
    # The circuits of all of them open on the way.
    upstream.behave(failing(lambda *_: True))
    answers = [ask("acme", "three", stream=stream) for _ in range(6)]
    assert {answer.status_code for answer in answers} == {503}
    assert all("x-gateway-fallback" not in answer.headers for answer in answers)
    counts = [row(gateway, answer)[2:] for answer in answers]
    assert all(1 <= attempts <= 3 and fallback == 0 for attempts, fallback, _ in counts)
    assert len(upstream.requests) == sum(attempts for attempts, *_ in counts)


def test_a_call_keeps_its_places_when_an_edit_removes_one(
    gateway: Gateway, ask: Ask, upstream: Upstream
) -> None:
    gate = Gate()
    upstream.behave(
        lambda request: (gate, *DOWN) if request.json()["model"] == "stays" else ordinary(request)
    )
    file = gateway.folder / "catalog_data" / "models.toml"
    before = sum(line["message"].startswith("settings reloaded") for line in gateway.logs)
    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(ask, "acme", "leaving")
        upstream.wait_for_requests(1)
        text, count = re.subn(
            r'(\["?leaving"?\]\n(?:(?!\n\[).)*?)order = "first"\n(.*?)(\n\[\[.*?leaves"\n)',
            r"\1\2\n",
            file.read_text(),
            count=1,
            flags=re.DOTALL,
        )
        assert count == 1
        file.write_text(text)
        gateway.wait_until(
            lambda: sum(line["message"].startswith("settings reloaded") for line in gateway.logs) > before
        )
        gate.open()
        answer = called.result(BOUND_S)
    assert [name for name, _ in sent(upstream)] == ["stays", "leaves"]
    assert row(gateway, answer) == ("E", "payg", 2, 0, 200)
    upstream.requests.clear()
    upstream.behave(ordinary)
    assert ask("acme", "leaving").status_code == 200
    assert [name for name, _ in sent(upstream)] == ["stays"]
