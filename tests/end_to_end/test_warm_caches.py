"""A conversation of ten turns with several platform keys, at a vendor whose prompt cache is by key, as OpenAI's is.

Source: OpenAI, "Prompt caching": caches are not shared between organizations; a prompt of 1,024 tokens or more is
cached by its beginning.
"""

import json
from typing import Any

import httpx
import pytest
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.scripts import Received, Script, whole
from rig.upstream import Upstream

KEY = new_key()
COUNTS = (1, 2, 4, 8)
SYSTEM = {"role": "system", "content": "Answer in one sentence. " * 400}
TURNS = 10


class CachingVendor:
    """Counts as cached what an earlier prompt with the same key began with: a token is four characters."""

    def __init__(self) -> None:
        self._seen: dict[str, list[str]] = {}

    def __call__(self, request: Received) -> Script:
        prompt = json.dumps(request.json()["messages"])
        seen = self._seen.setdefault(request.header("authorization") or "", [])
        cached = max((_shared_chars(prompt, earlier) for earlier in seen), default=0) // 4
        seen.append(prompt)
        cached -= cached % 128 if cached >= 1024 else cached
        usage = {
            "prompt_tokens": len(prompt) // 4,
            "completion_tokens": 20,
            "total_tokens": len(prompt) // 4 + 20,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        message = {"role": "assistant", "content": "A sidecar runs beside a program. " * 3}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return whole({"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage})


def _shared_chars(first: str, second: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), len(second))


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, upstreams: dict[str, Any]) -> Gateway:
    providers = {}
    for count in COUNTS:
        table = provider(
            upstreams["TESTER"].base_url, platform_keys=[f"env:K{count}_{n}" for n in range(count)]
        )
        del table["platform_key"]
        providers[f"KEYS_{count}"] = table
    return start_gateway(
        providers=providers,
        models={
            f"with-{count}": model(provider=f"KEYS_{count}", cached_input_price_per_m="0.015")
            for count in COUNTS
        },
        workspaces={"acme": workspace(("ci", KEY, True))},
        environment={f"K{count}_{n}": f"fake-key-{count}-{n}" for count in COUNTS for n in range(count)},
    )


def converse(client: httpx.Client, gateway: Gateway, slug: str) -> int:
    """Return the wholesale cost of a conversation, in nano-USD."""
    messages, cost_nanousd = [SYSTEM], 0
    for turn in range(TURNS):
        messages.append({"role": "user", "content": f"Question {turn}: what is a sidecar? " * 20})
        answer = client.post("/v1/chat/completions", json={"model": slug, "messages": messages})
        messages.append(answer.json()["choices"][0]["message"])
        cost_nanousd += gateway.wait_for_row(answer.headers["x-request-id"])["wholesale_nanousd"]
    return cost_nanousd


def test_a_conversation_costs_the_same_with_any_number_of_keys(gateway: Gateway, upstream: Upstream) -> None:
    upstream.behave(CachingVendor())
    headers = {"Authorization": f"Bearer {KEY}"}
    with httpx.Client(base_url=gateway.url, timeout=BOUND_S, trust_env=False, headers=headers) as client:
        costs = {count: converse(client, gateway, f"with-{count}") for count in COUNTS}
    assert all(cost <= costs[1] * 1.02 for cost in costs.values()), costs
