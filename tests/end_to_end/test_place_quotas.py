"""The quota of a place in a gateway with two workers: each uses its share, and no call is refused."""

from collections import Counter
from contextlib import ExitStack

from conftest import StartGateway
from rig.configuration import model, provider
from rig.gateway import Gateway
from rig.raw_clients import RawClient
from rig.scripts import DONE, Gate, chunk, chunked, event
from rig.upstream import Upstream
from rig.workers import CALLERS, TWO, all_serve, workers_of_calls


def make_call(gateway: Gateway, open_until: ExitStack) -> tuple[RawClient, str]:
    """Begin a streamed call on its own connection. Return it with the call's id, once it has an answer."""
    client = open_until.enter_context(RawClient(gateway.url))
    client.send(gateway.chat_bytes(stream=True))
    call_id = client.read_head().header("x-request-id")
    assert call_id
    return client, call_id


def test_two_workers_share_the_quota_of_a_place(start_gateway: StartGateway, upstream: Upstream) -> None:
    at_b = {"provider": "B", "upstream_model_id": "b"}
    first = {"provider": "A", "upstream_model_id": "a", "order": "first", "max_in_flight": 4}
    gateway = start_gateway(
        arguments=TWO,
        providers={name: provider(upstream.base_url) for name in "AB"},
        models={"tester-large": model(**first, deployments=[at_b])},
    )
    gateway.wait_until(lambda: all_serve(gateway))
    gate = Gate()
    upstream.behave(chunked(event(chunk("one")), gate, event(chunk("two", finish="stop")), DONE))
    with ExitStack() as open_until:
        calls = [make_call(gateway, open_until) for _ in range(CALLERS)]
        gate.open()
        for client, _ in calls:
            client.read_chunks_until(b"data: [DONE]\n\n")
    ids = {call_id for _, call_id in calls}
    gateway.wait_until(lambda: ids <= workers_of_calls(gateway).keys())
    lines = [line for line in gateway.logs if line.get("event") == "call" and line["id"] in ids]
    assert {line["status"] for line in lines} == {200}
    served = Counter((line["worker"], line["provider"]) for line in lines)
    workers = {line["worker"] for line in lines}
    # The first calls of each worker are at A, as many as its share; all others are at B.
    assert {worker: served[worker, "A"] for worker in workers} == dict.fromkeys(workers, 2)
    assert sum(count for (_, name), count in served.items() if name == "B") == CALLERS - 2 * len(workers)
