"""The quota of a place with two workers, and on two machines: each process uses its share, and no call is refused."""

from collections import Counter
from contextlib import ExitStack
from typing import Any

from conftest import StartGateway
from rig.configuration import model, provider
from rig.gateway import Gateway
from rig.raw_clients import RawClient
from rig.scripts import DONE, Gate, chunk, chunked, event
from rig.upstream import Upstream
from rig.workers import CALLERS, TWO, all_serve


def make_call(gateway: Gateway, open_until: ExitStack) -> tuple[RawClient, str]:
    """Begin a streamed call on its own connection. Return it with the call's id, once it has an answer."""
    client = open_until.enter_context(RawClient(gateway.url))
    client.send(gateway.chat_bytes(stream=True))
    call_id = client.read_head().header("x-request-id")
    assert call_id
    return client, call_id


AT_B = {"provider": "B", "upstream_model_id": "b"}


def quota_of(limit: int, upstream: Upstream) -> dict[str, Any]:
    """Return the settings of a model that is first at A, for ``limit`` calls at once, and then at B."""
    first = {"provider": "A", "upstream_model_id": "a", "order": "first", "max_in_flight": limit}
    return {
        "providers": {name: provider(upstream.base_url) for name in "AB"},
        "models": {"tester-large": model(**first, deployments=[AT_B])},
    }


def served_at_once(gateway: Gateway, upstream: Upstream, count: int) -> list[dict[str, Any]]:
    """Make ``count`` streamed calls, all in flight at once. Return their log lines, in their order."""
    gate = Gate()
    upstream.behave(chunked(event(chunk("one")), gate, event(chunk("two", finish="stop")), DONE))
    with ExitStack() as open_until:
        calls = [make_call(gateway, open_until) for _ in range(count)]
        gate.open()
        for client, _ in calls:
            client.read_chunks_until(b"data: [DONE]\n\n")
    ids = [call_id for _, call_id in calls]
    lines: dict[str, dict[str, Any]] = {}

    def find() -> bool:
        lines.update({line["id"]: line for line in list(gateway.logs) if line.get("event") == "call"})
        return lines.keys() >= set(ids)

    gateway.wait_until(find)
    return [lines[one] for one in ids]


def test_two_workers_share_the_quota_of_a_place(start_gateway: StartGateway, upstream: Upstream) -> None:
    gateway = start_gateway(arguments=TWO, **quota_of(4, upstream))
    gateway.wait_until(lambda: all_serve(gateway))
    lines = served_at_once(gateway, upstream, CALLERS)
    assert {line["status"] for line in lines} == {200}
    served = Counter((line["worker"], line["provider"]) for line in lines)
    workers = {line["worker"] for line in lines}
    # The first calls of each worker are at A, as many as its share; all others are at B.
    assert {worker: served[worker, "A"] for worker in workers} == dict.fromkeys(workers, 2)
    assert sum(count for (_, name), count in served.items() if name == "B") == CALLERS - 2 * len(workers)


def test_two_machines_of_one_ledger_share_the_quota_of_a_place(
    start_gateway: StartGateway, upstream: Upstream, redis_url: str, postgres_ledger_url: str
) -> None:
    sections = {
        "ledger": {"url": postgres_ledger_url},
        "state": {"backend": "redis", "redis_url": redis_url, "fleet": "tests"},
    }
    started = [start_gateway(sections=sections, **quota_of(2, upstream)) for _ in range(2)]
    # The second one knows the first since its start.
    lines = served_at_once(started[1], upstream, 3)
    assert [(line["provider"], line["status"]) for line in lines] == [("A", 200), ("B", 200), ("B", 200)]
    for gateway in started:
        assert gateway.stop() == 0
