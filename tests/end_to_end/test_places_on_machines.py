"""Two workers and another machine send each conversation to the same place, with the same platform key."""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.upstream import Upstream
from rig.workers import CALLERS, TWO, all_serve, workers_of_calls

CONVERSATIONS = 12
WEIGHTS = {"first": 1, "second": 3}


def settings(base: str, key: str, order: list[str]) -> dict[str, Any]:
    """Return the settings of a machine. ``order`` is that of the platform's keys in its file."""
    with_keys = provider(base, platform_keys=[f"env:{name}" for name in order])
    del with_keys["platform_key"]
    deployment = {"provider": "B", "upstream_model_id": "second", "weight": WEIGHTS["second"]}
    return {
        "providers": {"A": with_keys, "B": with_keys},
        "models": {"m": model(provider="A", upstream_model_id="first", deployments=[deployment])},
        "workspaces": {"acme": workspace(("ci", key, True))},
        "environment": {name: f"fake-{name}" for name in order},
    }


def test_workers_and_machines_choose_the_same_place_and_key(
    start_gateway: StartGateway, upstream: Upstream, tmp_path: Path
) -> None:
    key, names = new_key(), ["K_ONE", "K_TWO", "K_THREE"]
    pair = start_gateway(arguments=TWO, **settings(upstream.base_url, key, names))
    # The other machine has the same keys in another order.
    other = start_gateway(folder=tmp_path, **settings(upstream.base_url, key, names[::-1]))
    for gateway in (pair, other):
        gateway.keys = {"ci": key}
    pair.wait_until(lambda: all_serve(pair))
    upstream.requests.clear()
    calls = [
        (gateway, number % CONVERSATIONS)
        for gateway, count in ((pair, 2 * CALLERS), (other, CONVERSATIONS))
        for number in range(count)
    ]

    def call(gateway: Gateway, conversation: int) -> str:
        asked = {"model": "m", "messages": HELLO, "prompt_cache_key": f"{conversation}"}
        url = f"{gateway.url}/v1/chat/completions"
        answer = httpx.post(url, headers=gateway.headers, json=asked, timeout=BOUND_S, trust_env=False)
        assert answer.status_code == 200, answer.text
        return answer.headers["x-request-id"]

    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(lambda one: call(*one), calls))
    chosen: defaultdict[int, set[tuple[str, int]]] = defaultdict(set)
    for (gateway, conversation), id_ in zip(calls, ids, strict=True):
        row = gateway.wait_for_row(id_)
        order = names if gateway is pair else names[::-1]
        chosen[conversation].add((row["upstream_model_id"], order[row["platform_key"] - 1]))
    assert {len(found) for found in chosen.values()} == {1}
    places = {place for [(place, _)] in chosen.values()}
    assert places == set(WEIGHTS)
    assert len({name for [(_, name)] in chosen.values()}) > 1
    pair.wait_until(lambda: set(ids[: 2 * CALLERS]) <= workers_of_calls(pair).keys())
    assert {workers_of_calls(pair)[id_] for id_ in ids[: 2 * CALLERS]} == {1, 2}
