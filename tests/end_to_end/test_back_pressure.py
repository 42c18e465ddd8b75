"""A client that reads slowly stops the reading from its provider. The tests count what the provider can write.

These gateways cut off a client that reads nothing for half a second. The count is final then.
"""

import json
import ssl
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, workspace
from rig.gateway import Gateway
from rig.large import sampled
from rig.memory import resident_bytes
from rig.raw_clients import RawClient
from rig.raw_http2_client import RawHttp2Client
from rig.scripts import UNTIL_CLIENT_LEAVES, Received, Step, chunk, event, http_chunk, ordinary, response_head

PATH = "/v1/chat/completions"
MIB = 1 << 20
PIECE = http_chunk(event(chunk("x" * 65_536)))
OFFERED_BYTES = 96 * MIB
MAX_WRITTEN_BYTES = 24 * MIB
"""The most that the kernel (4 and 6 MiB a socket on Linux) and the gateway keep together."""
MAX_KEPT_BYTES = 6 * MIB

IMPATIENT = """
import functools
import addon.gateway.addon as gateway
gateway.WireSettings = functools.partial(gateway.WireSettings, write_timeout_s=0.5)
from addon.cli import main
main(prog_name="tollgate")
"""


class Firehose:
    """A provider that writes as fast as the gateway reads, and counts the bytes that it could write."""

    def __init__(self) -> None:
        self.written_bytes = 0

    def __call__(self, _request: Received) -> Iterator[Step]:
        yield response_head(200, [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")])
        yield http_chunk(event(chunk("yes")))
        while self.written_bytes < OFFERED_BYTES:
            yield PIECE
            self.written_bytes += len(PIECE)
        yield UNTIL_CLIENT_LEAVES


@pytest.fixture(scope="module")
def gateways(start_gateway: StartGateway, secure_sections: dict[str, Any]) -> dict[str, Gateway]:
    """Yield a gateway without TLS and one with TLS."""
    key = new_key()
    settings: dict[str, Any] = {
        "program": ("-c", IMPATIENT),
        "models": {"TESTER": model(), "SECURE": model(provider="SECURE")},
        "workspaces": {"acme": workspace(("ci", key, True))},
    }
    made = {"plain": start_gateway(**settings), "TLS": start_gateway(**settings, sections=secure_sections)}
    for gateway in made.values():
        gateway.keys = {"ci": key}
    return made


@pytest.fixture(autouse=True)
def clean(upstreams: dict[str, Any]) -> Iterator[None]:
    """Yield providers that have received nothing yet. Restore their default answer afterwards."""
    for name in ("TESTER", "SECURE"):
        upstreams[name].reset()
    yield
    for name in ("TESTER", "SECURE"):
        upstreams[name].reset()


@sampled(every=3)
@pytest.mark.parametrize("provider", ["TESTER", "SECURE"])
@pytest.mark.parametrize("client", ["plain", "TLS", "HTTP/2"])
def test_a_client_that_does_not_read_stops_the_reading_of_the_provider(
    gateways: dict[str, Gateway],
    upstreams: dict[str, Any],
    trusting: ssl.SSLContext,
    provider: str,
    client: str,
) -> None:
    gateway, upstream, firehose = (
        gateways["plain" if client == "plain" else "TLS"],
        upstreams[provider],
        Firehose(),
    )
    user = f"{client} {provider}"
    upstream.behave(ordinary)
    # The first call loads code into memory, which stays there.
    warm = httpx.post(
        gateway.url + PATH,
        json={"model": provider, "messages": HELLO, "stream": True},
        headers=gateway.headers,
        timeout=BOUND_S,
        trust_env=False,
        verify=False,
    )
    assert warm.status_code == 200
    upstream.behave(firehose)
    before = resident_bytes(gateway.pid)
    if client == "HTTP/2":
        body = json.dumps({"messages": HELLO, "model": provider, "stream": True, "user": user}).encode()
        with RawHttp2Client(gateway.url, trusting) as one:
            headers = [(name.lower(), value) for name, value in gateway.headers.items()]
            one.post_without_reading(PATH, headers, body)
            row = gateway.wait_for_row(lambda row: row["end_user"] == user)
    else:
        with RawClient(gateway.url, trusting if client == "TLS" else None) as raw:
            raw.send(gateway.chat_bytes(model=provider, stream=True, user=user))
            row = gateway.wait_for_row(lambda row: row["end_user"] == user)
    assert (row["status"], row["error_code"]) == (499, "client_disconnected")
    assert upstream.last.client_left.wait(BOUND_S)
    assert MIB / 16 < firehose.written_bytes < MAX_WRITTEN_BYTES
    assert resident_bytes(gateway.pid) - before < MAX_KEPT_BYTES
