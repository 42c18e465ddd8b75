"""A streamed call over a ``RawClient``, for tests that look at the bytes of the stream."""

import json

from rig.chat_requests import HELLO
from rig.gateway import Gateway
from rig.raw_clients import RawClient, request_bytes
from rig.scripts import chunk, event

PATH = "/v1/chat/completions"
HI = event(chunk("hi"))
STREAMED = json.dumps({"messages": HELLO, "model": "tester-large", "stream": True}).encode()


def ask_for_stream(raw: RawClient, gateway: Gateway) -> None:
    raw.send(request_bytes("POST", PATH, gateway.headers.items(), STREAMED))
