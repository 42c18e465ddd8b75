"""A prompt that is too long for its model: where it is sent after that, each model once, and what is answered."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.money import holds
from rig.scripts import Received, Script, ordinary, whole
from rig.upstream import Upstream

type Ask = Callable[..., httpx.Response]

TOO_LONG = whole(
    {"error": {"message": "maximum context length is 1000 tokens", "code": "context_length_exceeded"}}, 400
)
OWN = {"MINE": {"secret": "env:TEST_OWN_KEY", "routing": True}}
WORKSPACES: dict[str, dict[str, Any]] = {
    "same": {"context_fallback_model": "long", "fallback_model": "long"},
    "both": {"context_fallback_model": "long", "fallback_model": "longer"},
    "unknown": {"context_fallback_model": "unknown"},
    "placed": {"context_fallback_model": "placed"},
    "own": {"byok": OWN, "safety_net": True, "context_fallback_model": "long", "plan": "standard"},
}


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, upstreams: dict[str, Any]) -> Gateway:
    base = upstreams["TESTER"].base_url
    keys = {name: new_key() for name in WORKSPACES}
    windows = {"short": 100_000, "long": 200_000, "longer": 300_000, "unknown": None, "mine": 100_000}
    made = start_gateway(
        providers={name: provider(base) for name in ("A", "MINE")},
        models={
            **{
                name: model(provider="A", upstream_model_id=name)
                | ({"context_window": window} if window else {})
                for name, window in windows.items()
            },
            "mine": model(provider="MINE", upstream_model_id="mine", context_window=100_000, byok_only=True),
            "placed": model(
                provider="A",
                upstream_model_id="last",
                weight=0,
                context_window=200_000,
                deployments=[{"provider": "A", "upstream_model_id": "usual"}],
            ),
        },
        workspaces={name: workspace(("ci", keys[name], True), **own) for name, own in WORKSPACES.items()},
        environment={"TEST_OWN_KEY": "customer-key"},
        sections={"upstream": {"max_attempts": 10}},
    )
    made.keys = keys
    return made


@pytest.fixture
def ask(gateway: Gateway, upstream: Upstream) -> Iterator[Ask]:
    with httpx.Client(base_url=gateway.url, timeout=BOUND_S, trust_env=False) as client:

        def send(key: str, name: str = "short") -> httpx.Response:
            headers = {"Authorization": f"Bearer {gateway.keys[key]}"}
            return client.post(
                "/v1/chat/completions", json={"model": name, "messages": HELLO}, headers=headers
            )

        yield send
    assert upstream.failures == []
    gateway.wait_until(lambda: not holds(gateway.folder / "var" / "tollgate.db"))


def too_long_for(*places: str) -> Callable[[Received], Script]:
    return lambda request: TOO_LONG if request.json()["model"] in places else ordinary(request)


def sent(upstream: Upstream) -> list[str]:
    return [request.json()["model"] for request in upstream.requests]


@pytest.mark.parametrize(
    ("key", "too_long", "tried"),
    [
        ("same", ("short",), ["short", "long"]),
        ("same", ("short", "long"), ["short", "long"]),
        ("both", ("short", "long"), ["short", "long", "longer"]),
        ("unknown", ("short", "unknown"), ["short", "unknown"]),
        ("placed", ("short",), ["short", "usual"]),
    ],
)
def test_each_model_gets_a_prompt_that_is_too_long_for_another_once(
    gateway: Gateway, ask: Ask, upstream: Upstream, key: str, too_long: tuple[str, ...], tried: list[str]
) -> None:
    upstream.behave(too_long_for(*too_long))
    answer = ask(key)
    assert sent(upstream) == tried
    is_served = tried[-1] not in too_long
    assert answer.status_code == (200 if is_served else 400)
    assert answer.headers.get("x-gateway-fallback") == ("true" if is_served else None)
    row = gateway.wait_for_row(answer.headers["x-request-id"])
    assert (row["attempts"], row["fallback"]) == (len(tried), int(is_served))


def test_a_model_that_fails_is_not_sent_a_prompt_twice(ask: Ask, upstream: Upstream) -> None:
    down = whole({"error": {"message": "down"}}, 503)
    upstream.behave(lambda request: TOO_LONG if request.json()["model"] == "short" else down)
    assert (ask("same").status_code, sent(upstream)) == (400, ["short", "long"])


def test_a_model_that_bars_the_safety_net_does_not_hide_that_a_prompt_is_too_long(
    ask: Ask, upstream: Upstream
) -> None:
    # The workspace has no money for the model for long prompts.
    upstream.behave(too_long_for("mine"))
    answer = ask("own", "mine")
    assert (answer.status_code, sent(upstream)) == (400, ["mine"])
    assert "maximum context length" in answer.json()["error"]["message"]
