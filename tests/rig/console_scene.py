"""A gateway whose console has something to show: workspaces, calls, errors, refusals, a wallet, and hostile text."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from rig.bounds import BOUND_S
from rig.commands import tollgate
from rig.configuration import new_key, workspace
from rig.gateway import Gateway
from rig.scripts import Gate, Received, Script, chunk, chunked, event, ordinary, whole
from rig.upstream import Upstream

SCRIPT = "<script>globalThis.stolen=1;alert(1)</script><img src=x onerror=globalThis.stolen=1>"
HOSTILE = (
    SCRIPT,
    "\"' onmouseover=alert(1) x='",
    "javascript:alert(1)",
    "</title></table><h1>not ours</h1>",
    "left \u202e right to left",
    "bell \u0007 and escape \u001b[31m",
    "{{ 1 + 1 }} {% raw 1 %}",
    "=HYPERLINK(A1)",
    "long" * 64,
    "wide" + "\u5bbd" * 200,
)
"""Texts that a client may send as its end user, and that must do nothing on a page."""

KEYS = ("ci", "retired", "bare", "shop", "capped", "slow", "hostile")

ENVIRONMENT = {"OWN_KEY": "customer-key-" + "1" * 24}
"""The variable that the files of ``scene_workspaces`` name."""

MANY = 120
"""How many calls there are at least: more than one page of them."""


def scene_workspaces(keys: dict[str, str]) -> dict[str, Any]:
    """Return the workspaces: one that pays later, one with a wallet, one that is refused, and one that is hostile."""
    acme = workspace(
        ("ci", keys["ci"], True), ("retired", keys["retired"], False), monthly_spend_cap_usd="1"
    ) | {"default_model": "tester-large", "byok": {"TESTER": {"secret": "env:OWN_KEY"}}}
    acme["keys"][0] |= {"spend_cap_usd": "0.5", "request_cap": 1000, "label": "Builds & tests"}
    shop = workspace(("shop", keys["shop"], True), ("capped", keys["capped"], True), name="Shop")
    shop |= {"plan": "standard"}
    shop["keys"][1]["request_cap"] = 2
    slow = workspace(("slow", keys["slow"], True), name="Slow", rpm_override=3)
    hostile = workspace(("hostile", keys["hostile"], True), name=SCRIPT)
    bare = workspace(("bare", keys["bare"], True), name="Bare")
    return {"acme": acme, "bare": bare, "hostile": hostile, "shop": shop, "slow": slow}


class Caller:
    """A client of a gateway that calls with any of its keys. ``recorded`` has the ids
    of the calls that the ledger has, or soon will."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.recorded: set[str] = set()
        self._client = httpx.Client(base_url=gateway.url, timeout=BOUND_S, trust_env=False)

    def close(self) -> None:
        self._client.close()

    def call(self, key: str = "ci", **body: Any) -> httpx.Response:
        """Make one chat call with the key of this name."""
        headers = {"Authorization": f"Bearer {self._gateway.keys.get(key, key)}"}
        sent = {"messages": [{"role": "user", "content": "hello"}], "model": "tester-large"} | body
        answer = self._client.post("/v1/chat/completions", json=sent, headers=headers)
        if answer.status_code == 200:
            self.recorded.add(answer.headers["X-Request-Id"])
        return answer


def make_calls(caller: Caller, upstream: Upstream) -> None:
    """Make calls that succeed, that fail, and that are refused."""
    upstream.behave(ordinary)
    for nth in range(MANY):
        model = ("tester-large", "tester-small", "vendor/tall")[nth % 3]
        key, user = ("ci", "bare", "shop")[nth % 3], f"user-{nth % 7}"
        assert caller.call(key, model=model, stream=nth % 2 == 0, user=user).status_code == 200
    for text in HOSTILE:
        caller.call("hostile", user=text)
        caller.call("hostile", user=text, model=text)  # refused: there is no such model
    for status in (400, 429, 500):
        upstream.behave(whole({"error": {"message": SCRIPT}}, status))
        caller.call("bare", model="tester-small")
    upstream.behave(chunked(event(chunk("hel")), event({"error": {"message": SCRIPT, "code": 500}})))
    caller.call("bare", stream=True)
    upstream.behave(ordinary)
    for _ in range(4):
        caller.call("capped")
        caller.call("slow")
    caller.call("retired")
    caller.call("no-such-key")


@contextmanager
def call_in_flight(caller: Caller, upstream: Upstream) -> Iterator[None]:
    """Keep one streamed call in flight for the block."""
    gate = Gate()

    def behave(_: Received) -> Script:
        return chunked(event(chunk("hel")), gate, event(chunk("lo", finish="stop")))

    upstream.behave(behave)
    before = len(upstream.requests)
    thread = threading.Thread(target=caller.call, kwargs={"key": "ci", "stream": True, "user": "waits"})
    thread.start()
    try:
        upstream.wait_for_requests(before + 1)
        yield
    finally:
        gate.open()
        thread.join(BOUND_S)
        upstream.behave(ordinary)


def credit_wallet(gateway: Gateway) -> None:
    """Put money into the wallet of ``shop``, as an operator does."""
    credits = (("5", "invoice 17"), ("0.02", SCRIPT))
    for amount, reference in credits:
        done = tollgate(gateway.folder, "wallet", "credit", "shop", amount, "--reference", reference)
        assert done.returncode == 0, done.stderr


def scene_keys() -> dict[str, str]:
    """Return new keys by name."""
    return {name: new_key() for name in KEYS}


def wait_for_rows(gateway: Gateway, caller: Caller) -> None:
    """Wait until the calls of ``caller`` are in the ledger."""
    gateway.wait_until(lambda: caller.recorded <= {row["id"] for row in gateway.ledger_rows()})
