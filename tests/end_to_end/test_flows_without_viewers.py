"""``serve`` makes no flow and keeps no body, unless an addon looks at flows."""

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"
COUNTING = """
import atexit, os
from addon.gateway.flows import flow, observed_stream, recording
from mitmproxy.http import HTTPFlow
made = []
for kind in (HTTPFlow, recording.Recording, recording.RecordedBody, observed_stream.ObservedStream):
    def counting(self, *given, stock=kind.__init__, kind=kind, **named):
        made.append(kind.__name__)
        stock(self, *given, **named)
    kind.__init__ = counting
# In one write: the log's thread may write between two.
atexit.register(lambda: os.write(2, f"made for viewers: {' '.join(made)}\\n".encode()))
"""
SERVE = "from addon.cli import main; main()"
LOOK = """
from addon.gateway.addon import Gateway
stock = Gateway.start
async def start(self):
    from mitmproxy import ctx
    ctx.master.addons.add(type("Late", (), {"name": "late", "response": lambda self, flow: None})())
    await stock(self)
Gateway.start = start
"""


@pytest.mark.parametrize(
    ("code", "made"),
    [
        (COUNTING + SERVE, []),
        (
            COUNTING + LOOK + SERVE,
            ["Recording", "RecordedBody", "RecordedBody", "ObservedStream", "HTTPFlow"],
        ),
    ],
    ids=["no viewer", "an addon that came late"],
)
def test_serve_makes_no_flow_and_keeps_no_body(
    start_gateway: StartGateway, upstream: Upstream, code: str, made: list[str]
) -> None:
    gateway = start_gateway(program=("-c", code))
    for stream in (False, True):
        body = {"messages": HELLO, "stream": stream}
        answer = httpx.post(
            gateway.url + CHAT, headers=gateway.headers, json=body, timeout=BOUND_S, trust_env=False
        )
        assert answer.status_code == 200
    assert len(upstream.requests) == 2
    assert gateway.stop() == 0
    # The flow of the first call may be made when the second call has begun.
    [found] = [line for line in gateway.stderr_lines if line.startswith("made for viewers:")]
    assert sorted(found.removeprefix("made for viewers:").split()) == sorted(made * 2)
