"""The same request, explained by ``tollgate explain`` and sent to a real gateway."""

import json
import threading
from pathlib import Path
from typing import Any

import httpx
from click.testing import CliRunner

from addon.cli import main
from rig import native_responses
from rig.bounds import BOUND_S
from rig.chat_requests import HELLO
from rig.configuration import PROVIDER_KEY
from rig.explained import CUSTOMER_KEY, ENVIRONMENT
from rig.gateway import Gateway
from rig.money import holds
from rig.scripts import Received, Script, ordinary, whole
from rig.upstream import Upstream


class Live:
    """A gateway over an upstream of all dialects. ``held`` has the holds at the time of each upstream request."""

    def __init__(self, gateway: Gateway, upstream: Upstream) -> None:
        self.gateway = gateway
        self.upstream = upstream
        self.held: list[list[dict[str, Any]]] = []
        self._lock = threading.Lock()
        upstream.behave(self._answer)

    @property
    def ledger(self) -> Path:
        return self.gateway.folder / "var" / "tollgate.db"

    def explain(self, key: str, content: bytes) -> dict[str, Any]:
        # An earlier call has ended, and its cost is counted, once its hold is gone.
        self.gateway.wait_until(lambda: holds(self.ledger) == [])
        name = "plain" if key == "retired" else key
        words = [
            "explain",
            "--workspace",
            name,
            "--key",
            key,
            "--json",
            "--conf",
            f"{self.gateway.folder}/proxy.conf",
        ]
        result = CliRunner(env=ENVIRONMENT).invoke(main, [*words, "-"], input=content)
        assert result.exit_code == 0, result.output
        for secret in (*self.gateway.keys.values(), PROVIDER_KEY, CUSTOMER_KEY):
            assert secret not in result.output
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    def call(self, key: str, content: bytes) -> httpx.Response:
        self.upstream.requests.clear()
        self.held.clear()
        headers = {"Authorization": f"Bearer {self.gateway.keys[key]}", "Content-Type": "application/json"}
        url = f"{self.gateway.url}/v1/chat/completions"
        return httpx.post(url, content=content, headers=headers, timeout=BOUND_S, trust_env=False)

    def row(self, answer: httpx.Response) -> dict[str, Any]:
        return self.gateway.wait_for_row(answer.headers["x-request-id"])

    def _answer(self, request: Received) -> Script:
        with self._lock:
            self.held.append(holds(self.ledger))
        if request.target.endswith("/messages"):
            block = {"type": "text", "text": "hi"}
            usage = {"input_tokens": 9, "output_tokens": 2}
            return whole(
                {"id": "m", "type": "message", "content": [block], "stop_reason": "end_turn", "usage": usage}
            )
        if request.target.endswith("/responses"):
            return native_responses.script(
                native_responses.response(native_responses.message("hi")), streams=False
            )
        if ":generateContent" in request.target:
            candidate = {"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}
            counts = {"promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11}
            return whole({"candidates": [candidate], "usageMetadata": counts})
        own = CUSTOMER_KEY in str(request.header("authorization"))
        if request.json()["model"] in ("broken-1", "broken-3") or (
            request.json()["model"] == "broken-2" and own
        ):
            return whole({"error": {"message": "down"}}, status=500)
        return ordinary(request)


def body_of(asked: dict[str, Any] | bytes) -> bytes:
    if isinstance(asked, bytes):
        return asked
    return json.dumps({"messages": HELLO} | asked, ensure_ascii=False).encode()


def dropped_header(attempt: dict[str, Any]) -> str | None:
    """Return the header that follows from the changes. A null, a cap and a stream are never in it."""
    listed = [
        field
        for field in attempt["fields"]
        if field["action"] in ("dropped", "clamped", "replaced") and "null" not in field["reason"]
    ]
    named = {field["field"] for field in listed} - {"stream", "stream_options"}
    return ", ".join(sorted(named)) or None


def assert_sent_as_explained(attempt: dict[str, Any], received: Received, held: list[dict[str, Any]]) -> None:
    assert attempt["refusal"] is None
    assert attempt["url"].endswith(received.target)
    assert attempt["body"] == received.json()
    assert [hold["amount_nanousd"] for hold in held] == [attempt["hold_nanousd"]]
