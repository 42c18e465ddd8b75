"""The cost of a call in Python function calls: a number that no other program on the machine can change.

The gateway counts the calls of all Python functions, its own and those of the libraries, in a file that the test reads.
"""

import json
import mmap
import struct
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from conftest import HELLO, StartGateway
from rig.gateway import Gateway
from rig.raw_clients import RawClient, request_bytes
from rig.scripts import DONE, USAGE, Gate, chunk, chunked, completion, event, whole
from rig.upstream import Upstream

MAX_CALLS = 470
MAX_CALLS_PER_CHUNK = 25
CALLS = 50
CHUNKS = 60

COUNTED = """
import mmap, os, sys, threading

with open(os.environ["COUNT_FILE"], "r+b") as file:
    count = memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")

def note(frame, event, argument):
    if event == "call":
        count[0] += 1

from addon.cli import main
threading.setprofile(note)
sys.setprofile(note)
main()
"""


class Counter:
    """The calls of Python functions in a gateway until now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(8))

    def read(self) -> int:
        with self.path.open("rb") as file, mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ) as cell:
            return int(struct.unpack("=Q", cell)[0])


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Counter:
    return Counter(tmp_path_factory.mktemp("count") / "calls")


@pytest.fixture(scope="module")
def counted(start_gateway: StartGateway, counter: Counter) -> Gateway:
    """A gateway with everything on that counts its calls of Python functions."""
    variables = {"COUNT_FILE": str(counter.path)}
    return start_gateway(program=("-c", COUNTED), environment=variables)


def chat_request(gateway: Gateway, **fields: Any) -> bytes:
    body = json.dumps({"messages": HELLO} | fields).encode()
    return request_bytes("POST", "/v1/chat/completions", gateway.headers.items(), body)


def test_a_plain_whole_call_runs_few_python_functions(
    counted: Gateway, counter: Counter, upstream: Upstream
) -> None:
    upstream.behave(whole(completion("Hello! How can I help you today?")))
    request = chat_request(counted)
    with RawClient(counted.url) as client:

        def call_often() -> float:
            before = counter.read()
            for _ in range(CALLS):
                client.send(request)
                assert client.read_answer().status == 200
            return (counter.read() - before) / CALLS

        call_often()
        assert min(call_often() for _ in range(3)) <= MAX_CALLS


def test_a_relayed_chunk_runs_few_python_functions(
    counted: Gateway, counter: Counter, upstream: Upstream
) -> None:
    gates = [Gate() for _ in range(CHUNKS)]
    parts = (part for gate in gates for part in (event(chunk("word ")), gate))
    upstream.behave(chunked(*parts, event(chunk(finish="stop")), event(chunk(usage=USAGE)), DONE))
    request = chat_request(counted, stream=True)
    counts = []
    with RawClient(counted.url) as client:
        client.send(request)
        client.read_head()
        for gate in gates:
            client.read_chunks_until(b"word ")
            counts.append(counter.read())
            gate.open()
        client.read_chunks_until(b"[DONE]")
    # The median, because a timer of the gateway may fire between two chunks.
    calls = [after - before for before, after in pairwise(counts[5:])]
    assert median(calls) <= MAX_CALLS_PER_CHUNK
