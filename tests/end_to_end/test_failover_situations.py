"""The sixteen situations of Failover Bench, with a fallback model and with two places of the model.

A situation is passed, or the contract says why it ends otherwise: see ``OTHERWISE``.
"""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, provider, workspace
from rig.failover import SITUATIONS, Seen, healthy
from rig.gateway import Gateway
from rig.money import holds
from rig.scripts import Received, Script
from rig.upstream import Upstream

KEYS = {"fallback": new_key(), "places": new_key(), "alone": new_key()}
OTHERWISE = {
    # A failure is retried only where nothing else may serve the call: another place is faster than a wait.
    "S01": "partial",
    "S03": "partial",
    # No attempt follows once the client has a byte, and an answer that breaks then ends in one error event.
    "S08": "safe",
    "S09": "safe",
    "S10": "safe",
    "S14": "safe",
}
PASSED_ALONE = ("S01", "S03", "S11", "S13")
"""What a model with one place and no fallback passes: a retry cures it, or there is nothing to cure."""


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, upstreams: dict[str, Any]) -> Gateway:
    base = upstreams["TESTER"].base_url
    names = [f"{number}-{way}" for number in SITUATIONS for way in KEYS]
    provider_of = {name: name.upper().replace("-", "_") for name in names}
    long = {"context_window": 200_000}
    other = {"provider": "SECOND", "upstream_model_id": "healthy", **long}
    second = {"order": "first", "deployments": [other]}
    return start_gateway(
        providers={name: provider(base) for name in ("SECOND", *provider_of.values())},
        models={
            "healthy": model(provider="SECOND", upstream_model_id="healthy", **long),
            **{
                name: model(
                    provider=provider_of[name],
                    upstream_model_id=name,
                    context_window=100_000,
                    **(second if name.endswith("places") else {}),
                )
                for name in names
            },
        },
        workspaces={
            "one": workspace(("ci", KEYS["fallback"], True), fallback_model="healthy"),
            "two": workspace(("places", KEYS["places"], True), ("alone", KEYS["alone"], True)),
        },
        sections={"upstream": {"retries": 1, "first_byte_timeout_s": 1, "idle_timeout_s": 1}},
    )


class FailingProvider:
    """Fails as each situation says, and notes the attempts of each call."""

    def __init__(self) -> None:
        self.sent: dict[str, list[str]] = {}

    def __call__(self, request: Received) -> Script:
        asked = request.json()
        name = asked["messages"][0]["content"]
        sent = self.sent.setdefault(name, [])
        sent.append(asked["model"])
        if asked["model"] == "healthy":
            return healthy(request)
        return SITUATIONS[name.partition("-")[0]].fault(len(sent)) or healthy(request)


@pytest.fixture(scope="module")
def seen(gateway: Gateway, upstreams: dict[str, Any]) -> dict[str, Seen]:
    """What was seen of each situation. All run at the same time, for those that wait for a timeout."""
    upstream: Upstream = upstreams["TESTER"]
    fails = FailingProvider()
    upstream.reset()
    upstream.behave(fails)
    names = [f"{number}-{way}" for number in SITUATIONS for way in KEYS]
    with ThreadPoolExecutor(len(names)) as pool:
        found = dict(zip(names, pool.map(lambda name: meet(gateway, fails, name), names), strict=True))
    assert upstream.failures == []
    upstream.reset()
    return found


def meet(gateway: Gateway, provider: FailingProvider, name: str) -> Seen:
    """Make the call of a situation, and then a healthy one."""
    headers = {"Authorization": f"Bearer {KEYS[name.partition('-')[2]]}"}
    asked = {"stream": True, "stream_options": {"include_usage": True}}
    with httpx.Client(base_url=gateway.url, timeout=BOUND_S, trust_env=False, headers=headers) as client:

        def ask(slug: str, **body: Any) -> httpx.Response:
            messages = [{"role": "user", "content": name if slug == name else "alive"}]
            return client.post("/v1/chat/completions", json={"model": slug, "messages": messages} | body)

        answer = ask(name, **asked)
        is_alive = ask("healthy").status_code == 200
    if answer.status_code != 200:
        error = answer.json()["error"]
        return Seen(answer.status_code, "", False, error, None, None, tuple(provider.sent[name]), is_alive)
    events = re.findall(r"^data: (.*)$", answer.text, re.MULTILINE)
    chunks = [json.loads(one) for one in events if one != "[DONE]"]
    deltas = [one["choices"][0]["delta"] for one in chunks if one.get("choices")]
    return Seen(
        status=200,
        text="".join(delta.get("content") or "" for delta in deltas),
        is_done=events[-1] == "[DONE]",
        error=next((one["error"] for one in chunks if "error" in one), None),
        model=next((one["model"] for one in chunks if "model" in one), None),
        usage=next((one["usage"] for one in chunks if one.get("usage")), None),
        sent=tuple(provider.sent[name]),
        is_alive=is_alive,
    )


@pytest.mark.parametrize("way", ["fallback", "places"])
@pytest.mark.parametrize("number", SITUATIONS)
def test_a_situation_is_passed_or_ends_as_the_contract_says(
    seen: dict[str, Seen], number: str, way: str
) -> None:
    met = seen[f"{number}-{way}"]
    assert SITUATIONS[number].judge(met) == OTHERWISE.get(number, "pass"), met


@pytest.mark.parametrize("number", SITUATIONS)
def test_with_nothing_else_to_serve_it_is_passed_by_a_retry_or_ends_in_one_clean_error(
    seen: dict[str, Seen], number: str
) -> None:
    met = seen[f"{number}-alone"]
    assert SITUATIONS[number].judge(met) == ("pass" if number in PASSED_ALONE else "safe"), met
    assert len(met.sent) <= 2


def test_a_fallback_model_is_named_and_another_place_of_the_model_is_not(seen: dict[str, Seen]) -> None:
    assert (seen["S16-fallback"].model, seen["S16-places"].model) == ("healthy", "S16-places")


def test_nothing_is_left_held(seen: dict[str, Seen], gateway: Gateway) -> None:
    gateway.wait_until(lambda: not holds(gateway.folder / "var" / "tollgate.db"))
