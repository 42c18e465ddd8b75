"""Calls that end in all ways: clients that leave, a gateway that fails at a chosen step, and what is left."""

import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from rig.bounds import BOUND_S
from rig.chat_requests import HELLO
from rig.configuration import FAMILIES, model, new_key, workspace
from rig.gateway import Gateway
from rig.money import select
from rig.raw_clients import Answer, RawClient, request_bytes
from rig.raw_http2_client import RawHttp2Client

PATH = "/v1/chat/completions"

FAULTY = """
import contextvars, functools
import addon.gateway.addon as gateway
from addon.calls import attempt_runner, call, in_flight, reservation
from addon.upstream.connection import UpstreamConnection
from addon.cli import main

faulty = contextvars.ContextVar("faulty", default="")
gateway.WireSettings = functools.partial(gateway.WireSettings, write_timeout_s=0.3)
serve = gateway.serve

async def serve_faulty(one, stream, deps):
    faulty.set(stream.head.headers.get("x-faulty", ""))
    await serve(one, stream, deps)

gateway.serve = serve_faulty

def sabotage(owner, name):
    real = getattr(owner, name)
    @functools.wraps(real)
    def sabotaged(*arguments, **named):
        if faulty.get() == name:
            raise RuntimeError("sabotaged")
        return real(*arguments, **named)
    setattr(owner, name, sabotaged)

for owner, names in (
    (call, ("admit", "read_request", "find_route", "reserve_first")),
    (reservation, ("make_hold_request", "make_attempt")),
    (attempt_runner, ("origin_of", "open_reader")),
    (attempt_runner.AttemptRunner, ("_pass_on", "_end")),
    (UpstreamConnection, ("send", "take_head")),
    (in_flight, ("compute_outcome",)),
):
    for name in names:
        sabotage(owner, name)
main(prog_name="tollgate")
"""
"""A gateway that waits 0.3 s for a client that reads nothing, and fails at the step in a request's header."""

MODELS = {
    "chat": model(),
    "unseen": model(family="unseen"),
    "deaf": model(provider="DEAF"),
    "refusing": model(provider="REFUSING"),
}
UNSEEN = {
    "cap_field": "max_completion_tokens",
    "reasons_unseen": True,
    "tokens_per_s": 10_000,
    "estimator": {"completion_chars_per_token": 40.0},
}


def faulty_settings() -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings of a gateway of ``FAULTY``, and the keys of its clients."""
    keys = {"ci": new_key(), "net": new_key()}
    settings = {
        "program": ("-c", FAULTY),
        "families": {**FAMILIES, "unseen": UNSEEN},
        "models": MODELS,
        "workspaces": {
            "acme": workspace(("ci", keys["ci"], True), default_model="chat"),
            "net": workspace(("net", keys["net"], True), default_model="chat", fallback_model="unseen"),
        },
    }
    return settings, keys


WAYS = [
    ("HTTP/1", "close"),
    ("HTTP/1", "half-close"),
    ("HTTP/1", "reset"),
    ("HTTP/2", "close"),
    ("HTTP/2", "reset"),
]


@dataclass
class Caller:
    """A client of one gateway that makes a call and leaves it in a certain way."""

    gateway: Gateway
    way: str
    trusting: ssl.SSLContext

    def leave_within_body(self) -> None:
        """Send a part of a body, and leave."""
        length = [("Content-Length", "1000")]
        headers = [*self.gateway.headers.items(), *length]
        if self.gateway.url.startswith("https"):
            with RawHttp2Client(self.gateway.url, self.trusting) as client:
                client.begin(PATH, [(name.lower(), value) for name, value in headers], b"{")
                client.wait_until_read()
                self._leave_http2(client)
        else:
            with RawClient(self.gateway.url) as raw:
                raw.send(request_bytes("POST", PATH, headers, b"{"))
                self._leave(raw)

    def leave(self, *, seen: bytes, ready: Callable[[], object], **body: Any) -> None:
        """Make a call. Leave it when its answer has ``seen`` and ``ready`` has returned."""
        if self.gateway.url.startswith("https"):
            content = json.dumps({"messages": HELLO} | body).encode()
            headers = [(name.lower(), value) for name, value in self.gateway.headers.items()]
            with RawHttp2Client(self.gateway.url, self.trusting) as client:
                client.post_until(PATH, headers, content, seen, ready)
                self._leave_http2(client)
        else:
            with RawClient(self.gateway.url) as raw:
                raw.send(self.gateway.chat_bytes(**body))
                if seen:
                    raw.read_head()
                    raw.read_chunks_until(seen)
                ready()
                self._leave(raw)
        # A later request is answered later.
        models = f"{self.gateway.url}/v1/models"
        assert httpx.get(models, timeout=BOUND_S, trust_env=False, verify=False).status_code == 200

    def _leave_http2(self, client: RawHttp2Client) -> None:
        if self.way == "close":
            client.close()
        else:
            client.reset_and_wait()

    def _leave(self, raw: RawClient) -> None:
        if self.way == "reset":
            raw.reset()
        elif self.way == "half-close":
            raw.half_close()
            assert raw.is_closed_by_peer()


def holds_of(gateway: Gateway) -> list[Any]:
    return list(select(gateway.folder / "var" / "tollgate.db", "SELECT id FROM holds"))


def row_of(gateway: Gateway, user: str) -> dict[str, Any]:
    """Return the row of the call of ``user``. Check that its hold is gone."""
    row = gateway.wait_for_row(lambda row: row["end_user"] == user)
    assert row["id"] not in {hold["id"] for hold in holds_of(gateway)}
    return row


@contextmanager
def no_row(gateway: Gateway) -> Iterator[None]:
    """Check that the block leaves no row and no hold."""
    before = len(gateway.ledger_rows())
    yield
    gateway.wait_until(lambda: not holds_of(gateway))
    assert len(gateway.ledger_rows()) == before


def count_left_calls(gateway: Gateway) -> int:
    """Return how many calls ended before they were sent because their clients left."""
    lines = [line for line in gateway.logs if line.get("event") == "refusal"]
    return sum(line["error_code"] == "client_disconnected" for line in lines)


def ask(gateway: Gateway, key: str = "ci", faulty: str = "", **body: Any) -> Answer:
    headers = gateway.headers | {"Authorization": f"Bearer {gateway.keys[key]}", "X-Faulty": faulty}
    content = json.dumps({"messages": HELLO} | body).encode()
    with RawClient(gateway.url) as raw:
        raw.send(request_bytes("POST", PATH, headers.items(), content))
        return raw.read_answer()
