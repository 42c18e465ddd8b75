"""The rate comes before the body and the money, whether or not a call's body comes with its head."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from conftest import HELLO, StartGateway
from rig.configuration import model, new_key, workspace
from rig.gateway import Gateway
from rig.raw_clients import Answer, RawClient, request_bytes
from rig.upstream import Upstream

PATH = "/v1/chat/completions"


@dataclass(frozen=True)
class Case:
    """A body, and the code of the error that it gets while there is a token. None: it is answered."""

    body: bytes
    code: str | None
    plan: str = "pro"


def chat(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": HELLO} | fields).encode()


CASES = {
    "sound": Case(chat(), None),
    "no JSON": Case(b"{", "validation_failed"),
    "no messages": Case(chat(messages=[]), "bad_request"),
    "unknown model": Case(chat(model="nowhere/no-model"), "bad_request"),
    "retired model": Case(chat(model="retired"), "invalid_state"),
    "no money": Case(chat(), "payment_required", plan="standard"),
    "a field that the model refuses": Case(
        chat(model="narrow", response_format={"type": "json_object"}), "validation_failed"
    ),
}
WAYS = ("at once", "after its head")


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway) -> Gateway:
    """A gateway with a workspace for each case and way. Each may make one call a minute."""
    keys = {f"w{number}": new_key() for number in range(len(CASES) * len(WAYS))}
    plans = [case.plan for case in CASES.values() for _ in WAYS]
    made = start_gateway(
        models={"m": model(), "retired": model(active=False), "narrow": model(family="narrow")},
        families={
            "openai-chat": {"cap_field": "max_completion_tokens"},
            "narrow": {"response_formats": {"json_object": "refused"}},
        },
        workspaces={
            name: workspace((name, key, True), plan=plan, rpm_override=1)
            for (name, key), plan in zip(keys.items(), plans, strict=True)
        },
    )
    made.keys = keys
    return made


def ask(gateway: Gateway, key: str, way: str, body: bytes) -> Answer:
    """Make a call. ``after its head``: send the body when the gateway asks for it, if it does."""
    headers = [
        ("Authorization", f"Bearer {gateway.keys[key]}"),
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        *([("Expect", "100-continue")] if way == "after its head" else []),
    ]
    with RawClient(gateway.url) as client:
        if way == "at once":
            client.send(request_bytes("POST", PATH, headers, body))
            return client.read_answer()
        client.send(request_bytes("POST", PATH, headers))
        if (head := client.read_head()).status == 100:
            client.send(body)
            return client.read_answer()
        head.body = client.read_until(b"}}")
        return head


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_a_call_of_any_body_takes_a_token_and_is_refused_for_the_rate_first(
    gateway: Gateway, upstream: Upstream, name: str, way: str
) -> None:
    case = CASES[name]
    key = f"w{list(CASES).index(name) * len(WAYS) + WAYS.index(way)}"
    first, second, third = [ask(gateway, key, way, case.body) for _ in range(3)]
    assert first.json().get("error", {}).get("code") == case.code
    for refused in (second, third):
        assert (refused.status, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        assert 0 < int(refused.header("retry-after") or 0) <= 60
        line = gateway.wait_for_log(lambda line, sent=refused: line.get("id") == sent.header("x-request-id"))
        assert (line["event"], line["workspace"]) == ("refusal", key)
        assert not {"requested_model", "model_slug", "end_user"} & {name for name in line if line[name]}
    assert len(upstream.requests) == (case.code is None)
