"""Refused calls of a real gateway are in the ledger: as many as in the metrics, from two workers, over its end."""

import json
import os
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.commands import tollgate
from rig.configuration import model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.large import sampled
from rig.ledger import second_connection
from rig.raw_clients import RawClient
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"
CODES = {
    *("bad_request", "validation_failed", "invalid_state", "byok_required"),
    *("unsupported_media_type", "payment_required", "invalid_api_key", "request_too_large"),
    *("not_found", "method_not_allowed", "rate_limit_exceeded"),
}
TWO = ("--port", "0", "--workers", "2")


class Refusing:
    """A gateway with two workers that has a reason for every refusal, and what it must have counted."""

    def __init__(self, start: StartGateway, upstream: Upstream, state: dict[str, Any]) -> None:
        self.keys = {name: new_key() for name in ("acme", "slow", "poor")}
        self.settings: dict[str, Any] = {
            "arguments": TWO,
            "providers": {"TESTER": provider(upstream.base_url)},
            "models": {
                "paid": model(),
                "retired": model(active=False),
                "own-only": model(byok_only=True),
            },
            "workspaces": {
                "acme": workspace(("ci", self.keys["acme"], True)),
                "slow": workspace(("ci", self.keys["slow"], True)) | {"rpm_override": 1},
                "poor": workspace(("ci", self.keys["poor"], True), plan="standard"),
            },
            "sections": {"state": state, "limits": {"max_request_bytes": 100_000}},
        }
        self.gateway = start(**self.settings)
        self.expected = Counter[tuple[str, str, str]]()

    def refuse(self, rounds: int) -> None:
        """Make calls that are refused, each on a connection of its own, so that both workers get some."""
        for _ in range(rounds):
            self._post("acme", {"messages": []})
            self._post("acme", "{")
            self._post("acme", {"model": "retired"})
            self._post("acme", {"model": "own-only"})
            self._post("acme", {}, content_type="text/plain")
            self._post("poor", {"model": "paid"})
            self._post("nobody", {})
            # Path, method and size are checked before the key.
            self._post("", {"user": "x" * 100_000})
            self._post("", {}, path="/v1/nothing")
            self._post("", {}, method="PUT")
            self._send_malformed_request()
        if not self.expected["slow", "ci", "rate_limit_exceeded"]:
            self._post("slow", {"model": "paid"}, is_refused=False)  # Its bucket is empty for a minute.
        self._post("slow", {"model": "paid"})

    def _send_malformed_request(self) -> None:
        """Send a request that never becomes a call, and expect its id in the log."""
        with RawClient(self.gateway.url) as client:
            client.send(b"no request at all\r\n\r\n")
            head = client.read_head()
        assert head.status == 400
        line = self.gateway.wait_for_log(lambda line: line.get("id") == head.header("x-request-id"))
        assert line["event"] == "request refused"
        self.expected["", "", "bad_request"] += 1

    def _post(
        self,
        owner: str,
        body: dict[str, Any] | str,
        *,
        method: str = "POST",
        path: str = CHAT,
        content_type: str = "application/json",
        is_refused: bool = True,
    ) -> None:
        """Make a call with the key of ``owner``, and expect that its refusal is counted."""
        key = self.keys.get(owner) or new_key()
        content = body if isinstance(body, str) else json.dumps({"messages": HELLO} | body)
        headers = {"Authorization": f"Bearer {key}", "Content-Type": content_type}
        url = self.gateway.url + path
        answer = httpx.request(method, url, headers=headers, content=content, timeout=BOUND_S, verify=False)
        assert (answer.status_code != 200) == is_refused, answer.text
        if is_refused:
            group = (owner, "ci") if owner in self.keys else ("", "")
            self.expected[*group, answer.json()["error"]["code"]] += 1

    def counted(self) -> Counter[tuple[str, str, str]]:
        return counts_of(self.gateway.folder)


def counts_of(folder: Path) -> Counter[tuple[str, str, str]]:
    found = Counter[tuple[str, str, str]]()
    with second_connection(folder / "var" / "tollgate.db") as ledger:
        for row in ledger.execute("SELECT workspace, key_id, code, count FROM refusals"):
            found[row["workspace"], row["key_id"], row["code"]] += row["count"]
    return found


@sampled(every=2)
@pytest.mark.parametrize("backend", ["sqlite", "redis"])
def test_every_refused_call_is_in_the_ledger(
    start_gateway: StartGateway, upstream: Upstream, request: pytest.FixtureRequest, backend: str
) -> None:
    state: dict[str, Any] = {"backend": backend}
    if backend == "redis":
        state["redis_url"] = request.getfixturevalue("redis_url")
    made = Refusing(start_gateway, upstream, state)
    gateway = made.gateway
    made.refuse(rounds=2)
    assert {code for *_, code in made.expected} == CODES
    gateway.wait_until(lambda: made.counted() == made.expected)
    assert read_refusals(gateway) == Counter(
        {code: sum(n for (*_, one), n in made.expected.items() if one == code) for *_, code in made.expected}
    )
    report = json.loads(
        tollgate(gateway.folder, "usage", "--by", "refusals", "--workspace", "poor", "--json").stdout
    )
    assert [(one["key_id"], one["code"], one["count"]) for one in report["refusals"]] == [
        ("ci", "payment_required", 2)
    ]
    # What is written survives kill -9; what is not yet written is written by a drain.
    for pid in [gateway.pid, *gateway.children()]:
        os.kill(pid, signal.SIGKILL)
    gateway.wait()
    assert made.counted() == made.expected
    made.gateway = start_gateway(folder=gateway.folder, **made.settings | {"arguments": ("--port", "0")})
    made.refuse(rounds=1)
    assert made.gateway.stop() == 0
    assert made.counted() == made.expected
    verified = tollgate(gateway.folder, "ledger", "verify")
    assert f"{made.expected.total()} refusals, 0 audit lines: no discrepancies" in verified.stdout, (
        verified.stderr
    )


def read_refusals(gateway: Gateway) -> Counter[str]:
    """Return the metric of refusals by code."""
    page = httpx.get(f"{gateway.admin_url}/metrics", timeout=BOUND_S, trust_env=False).text
    found = re.findall(r'^tollgate_refusals_total\{code="(\w+)"\} ([0-9.]+)', page, re.MULTILINE)
    return Counter({code: int(float(count)) for code, count in found if float(count)})
