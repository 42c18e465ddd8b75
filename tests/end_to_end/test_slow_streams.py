"""Many open and silent streams: the memory of each in a worker, and the detection of a client that left."""

from contextlib import ExitStack
from typing import Any

from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.gateway import Gateway
from rig.large import large_only
from rig.memory import resident_bytes
from rig.raw_clients import RawClient
from rig.scripts import UNTIL_CLIENT_LEAVES, chunk, chunked, event

STREAMS = 100
MAX_BYTES = 125 * 1024
"""Of one stream from a plain client to a provider on TLS; 2,000 of them then take 250 MB."""
WARM = 10


def open_stream(gateway: Gateway) -> RawClient:
    client = RawClient(gateway.url)
    client.send(gateway.chat_bytes(model="secure-model", stream=True))
    client.read_head()
    client.read_chunks_until(b"yes")
    return client


@large_only
def test_a_silent_stream_costs_little_memory_and_ends_with_its_client(
    start_gateway: StartGateway, upstreams: dict[str, Any]
) -> None:
    gateway, provider = start_gateway(), upstreams["SECURE"]
    provider.reset()
    provider.behave(chunked(event(chunk("yes")), UNTIL_CLIENT_LEAVES))
    with ExitStack() as clients:
        for _ in range(WARM):
            clients.enter_context(open_stream(gateway))
        before = resident_bytes(gateway.pid)
        for _ in range(STREAMS):
            clients.enter_context(open_stream(gateway))
        each = (resident_bytes(gateway.pid) - before) // STREAMS
    assert each < MAX_BYTES
    # No bytes move on these connections, so only the end of the client can be noticed.
    assert all(request.client_left.wait(BOUND_S) for request in provider.requests)
    gateway.wait_until(lambda: len(gateway.ledger_rows()) == WARM + STREAMS)
    assert {row["error_code"] for row in gateway.ledger_rows()} == {"client_disconnected"}
    provider.reset()
