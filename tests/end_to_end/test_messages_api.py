"""The Messages API with the official SDK and a real gateway: natively to Claude, through chat to all others.

The providers are strict: each has its vendor's table, and wants its own reasoning back.
"""

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import pytest
from anthropic import Anthropic
from anthropic.types import Message
from conftest import StartGateway
from pydantic import BaseModel
from rig import anthropic_answers
from rig.bounds import BOUND_S
from rig.configuration import ROOT, model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.message_events import check_beginning, check_events, check_message, read_events
from rig.scripts import RESET, UNTIL_CLIENT_LEAVES, Received, Script, chunk, chunked, completion, event, whole
from rig.strict_vendors import base_url
from rig.tool_loops import CITIES, END, LOOPS, NOTE, WEATHER, Loop, behave
from rig.upstream import Upstream

CATALOG = ROOT / "catalog_data"
PLAIN, CLAUDE, BUSY = "plain", "claude-sonnet-5", "claude-opus-4-8"
"""Models whose providers do what a test says: one speaks chat, the others the Messages API. The last one fails."""
KEY, POOR, MIXED = new_key(), new_key(), new_key()
SEARCHES: Any = {
    "per_search_price_per_m": "10000",
    "max_searches": 4,
    "hosted_tools": ["web_search"],
}
SEARCH: Any = {"type": "web_search_20250305", "name": "web_search"}
HELLO: Any = [{"role": "user", "content": "Hi"}]
TOOLS: Any = [
    {"name": "weather", "input_schema": WEATHER},
    {
        "name": "note",
        "input_schema": {
            "type": "object",
            "properties": {"input": {"type": "string"}},
            "required": ["input"],
        },
    },
]
LOOP_OF = pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.provider)
BOTH = pytest.mark.parametrize("slug", [PLAIN, CLAUDE], ids=["through chat", "native"])
STREAMS = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])


def table(name: str) -> dict[str, Any]:
    return tomllib.loads((CATALOG / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def strict(request: pytest.FixtureRequest) -> Iterator[Upstream]:
    with Upstream() as made:
        made.behave(behave)
        yield made
        assert made.failures == []


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, strict: Upstream, upstreams: dict[str, Any]) -> Gateway:
    shipped, models = table("providers.toml"), table("models.toml")
    providers = {
        loop.provider: provider(
            base_url(strict.base_url, loop.provider), dialect=shipped[loop.provider]["dialect"]
        )
        for loop in LOOPS
    }
    providers["TESTER"] = provider(upstreams["TESTER"].base_url)
    for name in ("CLAUDE", "BUSY"):
        providers[name] = provider(upstreams["TESTER"].base_url, dialect="anthropic")
    return start_gateway(
        providers=providers,
        models={loop.slug: models[loop.slug] for loop in LOOPS}
        | {PLAIN: model(), CLAUDE: {**models[CLAUDE], "provider": "CLAUDE", **SEARCHES}}
        | {BUSY: {**models[BUSY], "provider": "BUSY"}},
        families=table("families.toml"),
        workspaces={
            "acme": workspace(("k", KEY, True), hosted_tools=["web_search"]),
            "poor": workspace(("p", POOR, True), plan="standard", name="Poor"),
            "mixed": workspace(("m", MIXED, True), fallback_model=PLAIN, name="Mixed"),
        },
    )


@pytest.fixture
def sdk(gateway: Gateway) -> Iterator[Anthropic]:
    with Anthropic(base_url=gateway.url, api_key=KEY, max_retries=0, timeout=BOUND_S) as made:
        yield made


def answer_as_asked(request: Received) -> Script:
    """Answer in the API of the path."""
    streams = bool(request.json().get("stream"))
    if not request.target.endswith("/messages"):
        if not streams:
            return whole(completion("hello"))
        usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
        said = [chunk("hel"), chunk("lo"), chunk(finish="stop"), chunk(usage=usage)]
        return chunked(*map(event, said), event("[DONE]"))
    hello = {"type": "text", "text": "hello"}
    if not streams:
        return whole(anthropic_answers.answer(hello))
    return chunked(*map(typed, anthropic_answers.events(hello, pieces=2)))


def typed(payload: dict[str, Any]) -> bytes:
    return f"event: {payload['type']}\n".encode() + event(payload)


def post(gateway: Gateway, body: Any, key: str = KEY, **headers: str) -> httpx.Response:
    asked = {"model": PLAIN, "max_tokens": 100, "messages": HELLO, **body}
    return httpx.post(
        f"{gateway.url}/v1/messages?beta=true",
        json=asked,
        headers={"x-api-key": key, **headers},
        timeout=BOUND_S,
        trust_env=False,
    )


# --- agents --------------------------------------------------------------------------------------------------------


def run_tool(block: Any) -> dict[str, Any]:
    """Return the result of a call, as an agent does."""
    wanted = {"note": {"input": NOTE}}.get(block.name, block.input)
    assert block.input == wanted
    return {"type": "tool_result", "tool_use_id": block.id, "content": "Rain", "is_error": False}


def ask(sdk: Anthropic, slug: str, messages: list[Any], *, streams: bool) -> Message:
    fields: Any = {
        "model": slug,
        "max_tokens": 8000,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": messages,
        "tools": TOOLS,
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "medium"},
    }
    if not streams:
        return sdk.messages.create(**fields)
    with sdk.messages.stream(**fields) as stream:
        return stream.get_final_message()


@LOOP_OF
@STREAMS
def test_a_task_with_tools_in_three_turns(sdk: Anthropic, loop: Loop, streams: bool) -> None:
    messages: list[Any] = [{"role": "user", "content": "Weather?"}]
    texts, calls = [], []
    for _ in range(3):
        answer = ask(sdk, loop.slug, messages, streams=streams)
        assert answer.model == loop.slug and answer.usage.input_tokens > 0
        called = [block for block in answer.content if block.type == "tool_use"]
        assert answer.stop_reason == ("tool_use" if called else "end_turn")
        texts.append("".join(block.text for block in answer.content if block.type == "text"))
        calls.append(len(called))
        messages.append({"role": "assistant", "content": answer.content})
        messages.append({"role": "user", "content": [run_tool(block) for block in called]})
    assert texts == ["I look.", "", END]
    assert calls == [len(CITIES), 1, 0]


# --- answers -------------------------------------------------------------------------------------------------------


@BOTH
def test_a_whole_message(gateway: Gateway, upstream: Upstream, slug: str) -> None:
    upstream.behave(answer_as_asked)
    answer = post(gateway, {"model": slug})
    message = check_message(answer.content)
    assert (message.content[0].text, message.model, message.stop_reason) == ("hello", slug, "end_turn")
    assert answer.headers["request-id"] == answer.headers["x-request-id"]


@BOTH
def test_a_streamed_message(gateway: Gateway, upstream: Upstream, slug: str) -> None:
    upstream.behave(answer_as_asked)
    answer = post(gateway, {"model": slug, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    message = check_events(read_events(answer.content))
    assert (message.content[0].text, message.model, message.stop_reason) == ("hello", slug, "end_turn")
    if slug == CLAUDE:
        sent = b"".join(map(typed, anthropic_answers.events({"type": "text", "text": "hello"}, pieces=2)))
        assert answer.content == sent.replace(b'"claude-upstream"', f'"{slug}"'.encode())


def test_both_ways_are_one_kind_of_row(gateway: Gateway, upstream: Upstream) -> None:
    upstream.behave(answer_as_asked)
    ids = [post(gateway, {"model": slug}).headers["x-request-id"] for slug in (PLAIN, CLAUDE)]
    rows = [gateway.wait_for_row(id) for id in ids]
    assert [(row["api"], row["model_slug"]) for row in rows] == [("messages", PLAIN), ("messages", CLAUDE)]
    assert all(row["usage_source"] == "provider" and row["retail_nanousd"] > 0 for row in rows)


def test_a_native_request_goes_as_it_is_written(gateway: Gateway, upstream: Upstream) -> None:
    upstream.behave(answer_as_asked)
    body = {
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "thinking": {"type": "adaptive", "display": "omitted"},
        "temperature": 0.5,
        "mcp_servers": [],
        "service_tier": "standard_only",
    }
    betas = "context-management-2025-06-27,made-up-2026-01-01"
    answer = post(gateway, {"model": CLAUDE, **body}, **{"anthropic-beta": betas})
    assert answer.headers["x-gateway-dropped"] == "mcp_servers, service_tier, temperature"
    sent = upstream.last
    wanted = {"model": "claude-sonnet-5", "max_tokens": 100, "messages": HELLO, **body}
    del wanted["temperature"], wanted["mcp_servers"], wanted["service_tier"]
    assert sent.json() == wanted
    assert sent.header("anthropic-beta") == "context-management-2025-06-27"
    assert "authorization" not in sent.header_names


def test_a_search_runs_where_it_is_allowed(gateway: Gateway, upstream: Upstream) -> None:
    counts = {"input_tokens": 9, "output_tokens": 2, "server_tool_use": {"web_search_requests": 2}}
    searched = anthropic_answers.answer({"type": "text", "text": "Rain."}, usage=counts)
    upstream.behave(whole(searched))
    answer = post(gateway, {"model": CLAUDE, "tools": [SEARCH]})
    assert upstream.last.json()["tools"] == [{**SEARCH, "max_uses": 4}]
    assert answer.json()["usage"] == counts
    row = gateway.wait_for_row(answer.headers["x-request-id"])
    assert row["searches"] == 2 and row["retail_nanousd"] > 2 * 10_000_000
    answer = post(gateway, {"model": CLAUDE, "tools": [SEARCH]}, key=MIXED)
    assert answer.headers["x-gateway-dropped"] == "tools.web_search_20250305"
    assert "tools" not in upstream.last.json()


class City(BaseModel):
    name: str
    people: int


def test_parse_reads_what_the_model_wrote(sdk: Anthropic, upstream: Upstream) -> None:
    upstream.behave(whole(completion('{"name": "Oslo", "people": 700000}')))
    answer = sdk.messages.parse(model=PLAIN, max_tokens=100, messages=HELLO, output_format=City)
    assert answer.parsed_output == City(name="Oslo", people=700000)
    assert upstream.last.json()["response_format"]["type"] == "json_schema"


# --- errors --------------------------------------------------------------------------------------------------------


def test_an_empty_wallet_and_a_wrong_key(gateway: Gateway) -> None:
    for key, status, kind in ((POOR, 402, "billing_error"), (new_key(), 401, "authentication_error")):
        answer = post(gateway, {"model": CLAUDE}, key=key)
        said = answer.json()
        assert (answer.status_code, said["type"], said["error"]["type"]) == (status, "error", kind)
        assert said["request_id"] == answer.headers["request-id"]
        assert answer.headers["x-should-retry"] == "false"  # else Claude Code repeats a 401 for minutes


@BOTH
def test_an_error_in_the_stream_is_the_sdks_exception(
    sdk: Anthropic, gateway: Gateway, upstream: Upstream, slug: str
) -> None:
    start, ping, *_ = anthropic_answers.events()
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    said = [chunk("hel"), {"error": {"message": "Overloaded", "code": 503}}]
    native = [typed(start), typed(ping), typed(overloaded)]
    upstream.behave(chunked(*(native if slug == CLAUDE else map(event, said))))
    *begun, last = read_events(post(gateway, {"model": slug, "stream": True}).content)
    check_beginning(begun)
    assert begun and (last["type"], last["error"]["message"]) == ("error", "Overloaded")
    with (
        pytest.raises(anthropic.APIError, match="Overloaded"),
        sdk.messages.stream(model=slug, max_tokens=9, messages=HELLO) as stream,
    ):
        stream.get_final_message()


@BOTH
def test_a_stream_that_breaks_off_is_an_error(gateway: Gateway, upstream: Upstream, slug: str) -> None:
    begun = list(anthropic_answers.events({"type": "text", "text": "hello"}))[:4]
    upstream.behave(chunked(*(map(typed, begun) if slug == CLAUDE else [event(chunk("hel"))]), RESET))
    *events, last = read_events(post(gateway, {"model": slug, "stream": True}).content)
    check_beginning(events)
    assert (last["type"], last["error"]["type"]) == ("error", "overloaded_error")


@BOTH
def test_a_client_that_leaves_pays_for_what_it_got(gateway: Gateway, upstream: Upstream, slug: str) -> None:
    begun = list(anthropic_answers.events({"type": "text", "text": "hello"}))[:4]
    said = map(typed, begun) if slug == CLAUDE else [event(chunk("hello"))]
    upstream.behave(chunked(*said, UNTIL_CLIENT_LEAVES))
    body = {"model": slug, "max_tokens": 100, "messages": HELLO, "stream": True}
    with (
        httpx.Client(trust_env=False, timeout=BOUND_S) as client,
        client.stream("POST", f"{gateway.url}/v1/messages", json=body, headers={"x-api-key": KEY}) as answer,
    ):
        read = b""
        for piece in answer.iter_raw():
            read += piece
            if b"hello" in read:
                break
        call_id = answer.headers["x-request-id"]
    assert upstream.last.client_left.wait(BOUND_S)
    row = gateway.wait_for_row(call_id)
    assert (row["status"], row["usage_source"], row["api"]) == (499, "estimated", "messages")
    assert row["completion_tokens"] > 0 and row["retail_nanousd"] > 0


# --- fallback ------------------------------------------------------------------------------------------------------


def overloaded(request: Received) -> Script:
    """Fail where the request is native."""
    failed = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    return whole(failed, 529) if request.target.endswith("/messages") else answer_as_asked(request)


@STREAMS
def test_each_attempt_goes_its_own_way(gateway: Gateway, upstream: Upstream, streams: bool) -> None:
    upstream.behave(overloaded)
    body = {"model": BUSY, "stream": streams, "thinking": {"type": "adaptive"}}
    answer = post(gateway, body, key=MIXED)
    message = check_events(read_events(answer.content)) if streams else check_message(answer.content)
    assert (message.content[0].text, message.model) == ("hello", PLAIN)
    row = gateway.wait_for_row(answer.headers["x-request-id"])
    assert (row["fallback"], row["attempts"], row["model_slug"]) == (1, 2, PLAIN)
    native, chat = upstream.requests[-2:]
    assert native.json()["thinking"] == {"type": "adaptive"}
    assert chat.json()["messages"] == HELLO and "thinking" not in chat.json()


def test_a_conversation_goes_on_at_the_other_provider(gateway: Gateway, upstream: Upstream) -> None:
    thought = completion()
    thought["choices"][0]["message"] |= {
        "reasoning_content": "Hm.",
        "tool_calls": [
            {
                "id": "functions.weather:0",
                "type": "function",
                "function": {"name": "weather", "arguments": "{}"},
            }
        ],
    }
    thought["choices"][0]["finish_reason"] = "tool_calls"
    upstream.behave(lambda request: whole(thought) if "chat" in request.target else overloaded(request))
    fields = {"model": BUSY, "tools": TOOLS, "thinking": {"type": "adaptive"}}
    message = check_message(post(gateway, fields, key=MIXED).content)
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    turn = json.loads(message.model_dump_json(include={"content"}))["content"]
    result = {"type": "tool_result", "tool_use_id": turn[2]["id"], "content": "Rain"}
    messages = [*HELLO, {"role": "assistant", "content": turn}, {"role": "user", "content": [result]}]
    upstream.behave(answer_as_asked)
    answer = post(gateway, fields | {"messages": messages}, key=MIXED)
    assert check_message(answer.content).model == BUSY
    assert answer.headers["x-gateway-dropped"] == "messages.thinking"
    sent = upstream.last.json()["messages"]
    assert [block["type"] for block in sent[1]["content"]] == ["text", "tool_use"]
    assert sent[2]["content"][0]["tool_use_id"] == sent[1]["content"][1]["id"] != turn[2]["id"]
