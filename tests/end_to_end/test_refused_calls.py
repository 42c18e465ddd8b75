"""For any request of a client: a refused call sends nothing, and an answered call sends one request."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.upstream import Upstream

MODELS = {
    "paid": model(),
    "retired": model(active=False),
    "own-only": model(byok_only=True),
    "keyless": model(provider="KEYLESS"),
    "narrow": model(family="narrow"),
    "dear": model(output_price_per_m="900000", input_price_per_m="900000"),
}


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, upstreams: dict[str, Any]) -> Gateway:
    """A gateway whose workspaces differ in own keys, money and rules."""
    base = upstreams["TESTER"].base_url
    keys = {name: new_key() for name in ("rich", "own", "poor", "spent", "ruled")}
    byok = {"TESTER": {"secret": "env:TEST_CUSTOMER_KEY", "routing": True}}
    rules = [{"keywords": ["sql"], "model": "retired"}, {"keywords": ["poem"], "model": "own-only"}]
    spent = workspace(("spent", keys["spent"], True))
    spent["keys"][0] |= {"spend_cap_usd": "0"}
    made = start_gateway(
        providers={
            "TESTER": provider(base),
            "KEYLESS": provider(base, platform_key="env:TEST_KEY_THAT_IS_NOT_SET"),
        },
        models=MODELS,
        families={
            "openai-chat": {"cap_field": "max_completion_tokens"},
            "narrow": {
                "tool_choices": {"required": "refused"},
                "response_formats": {"json_object": "refused"},
            },
        },
        workspaces={
            "rich": workspace(("rich", keys["rich"], True), default_model="paid", fallback_model="narrow"),
            "own": workspace(("own", keys["own"], True), byok=byok, safety_net=True),
            "poor": workspace(("poor", keys["poor"], True), plan="standard"),
            "spent": spent,
            "ruled": workspace(("ruled", keys["ruled"], True), rules=rules, overage_protection=True),
        },
        environment={"TEST_CUSTOMER_KEY": "fake-customer-key-" + "1" * 24},
    )
    made.keys = keys
    return made


@pytest.fixture(scope="module")
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway.url, trust_env=False, timeout=BOUND_S) as made:
        yield made


NAMES = st.sampled_from(
    [None, *MODELS, "gpt-nobody-knows", "tester/any", "keyless/any", "acme/any", "tester/..", ""]
)
TEXTS = st.sampled_from(["hello", "some sql", "a poem", "😀" * 50, ""])
SOUND = st.fixed_dictionaries(
    {"messages": TEXTS.map(lambda text: [{"role": "user", "content": text}])},
    optional={
        "model": NAMES,
        "max_tokens": st.sampled_from([1, 100, None]),
        "tools": st.just([{"type": "function", "function": {"name": "f"}}]),
        "tool_choice": st.sampled_from(["auto", "required"]),
        "response_format": st.just({"type": "json_object"}),
        "stream": st.booleans(),
    },
)
BROKEN = st.sampled_from(
    [
        *({"messages": said} for said in ([], None, "hello", [{"role": "user"}], [1], [[]])),
        *({"messages": HELLO, "n": n} for n in (0, -1, 1.5, "2", 10**30)),
        *({"messages": HELLO, "top_p": p} for p in (0, 1.1, "1")),
        *({"messages": HELLO, "model": m} for m in (1, ["paid"], " ")),
        {"messages": HELLO, "stream": "yes"},
        {},
        [],
        "hello",
    ]
)
BYTES = st.sampled_from([b"", b"{", b"[" * 5000, b"\xff\xfe", b'{"messages": NaN}'])
BODIES = (SOUND | BROKEN).map(lambda body: json.dumps(body).encode()) | BYTES
KEYS = st.sampled_from(["rich", "own", "poor", "spent", "ruled", "nobody's"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=KEYS, body=BODIES, content_type=st.sampled_from(["application/json"] * 4 + ["text/plain"]))
def test_a_refused_call_sends_nothing_and_an_answered_call_one_request(
    gateway: Gateway, client: httpx.Client, upstream: Upstream, name: str, body: bytes, content_type: str
) -> None:
    before = len(upstream.requests)
    headers = {"Authorization": f"Bearer {gateway.keys.get(name, new_key())}", "Content-Type": content_type}
    answer = client.post("/v1/chat/completions", headers=headers, content=body)
    assert answer.status_code in (200, 400, 401, 402, 403, 415), answer.text
    assert len(upstream.requests) - before == (answer.status_code == 200)
