"""The Responses API on its native way: the official SDK, a real gateway, and a vendor as strict as OpenAI."""

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from conftest import StartGateway
from openai import OpenAI
from openai.types.responses import Response
from rig.bounds import BOUND_S
from rig.configuration import PROVIDER_KEY, ROOT, model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.native_responses import (
    Responses,
    custom_call,
    events,
    failed,
    frame,
    function_call,
    incomplete,
    message,
    reasoning,
    response,
)
from rig.raw_clients import RawClient
from rig.response_events import read_events
from rig.scripts import UNTIL_CLIENT_LEAVES, Received, Script, chunked, ordinary, whole
from rig.upstream import Upstream

CODEX, OTHER, BROKEN, SEARCHING = "house/codex", "house/other", "house/broken", "house/searching"
KEY, POOR = new_key(), new_key()
PRICES = {"input_price_per_m": "1", "output_price_per_m": "10", "cached_input_price_per_m": "0.5"}
COST_NANOUSD = 16 * 1_040 + 4 * 520 + 17 * 10_400
"""Of ``native_responses.USAGE``, with the markup of 4 %: what came from the cache costs half."""
SEALED = "reasoning.encrypted_content"
TOOLS: Any = [
    {
        "type": "function",
        "name": "weather",
        "parameters": {"type": "object", "properties": {}},
        "strict": False,
    },
    {"type": "custom", "name": "patch", "description": "Patch."},
]
CITED = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 2}


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, upstreams: dict[str, Any]) -> Gateway:
    origin = upstreams["TESTER"].base_url.removesuffix("/v1")
    row = {
        "upstream_model_id": "gpt-5.5",
        "family": "openai-reasoning-or-tools",
        "dialect": "responses",
        **PRICES,
    }
    return start_gateway(
        providers={
            **{name: provider(f"{origin}/openai/v1") for name in ("VENDOR", "BROKEN")},
            "OTHER": provider(f"{origin}/other/v1"),
        },
        models={
            CODEX: model(provider="VENDOR", **row),
            BROKEN: model(provider="BROKEN", **row),
            SEARCHING: model(
                **{"provider": "VENDOR", **row, "hosted_tools": ["web_search"]},
                **{"per_search_price_per_m": "10000", "max_searches": 4},
            ),
            OTHER: model(provider="OTHER", upstream_model_id="chat-1", **PRICES),
        },
        families=tomllib.loads((ROOT / "catalog_data" / "families.toml").read_text("utf-8")),
        workspaces={
            "acme": workspace(("ci", KEY, True), fallback_model=OTHER, hosted_tools=["web_search"]),
            "poor": workspace(("p", POOR, True), plan="standard", name="Poor"),
        },
    )


@pytest.fixture
def sdk(gateway: Gateway) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0, timeout=BOUND_S) as made:
        yield made


def ask(sdk: OpenAI, *, streams: bool, **asked: Any) -> Response:
    fields = {"model": CODEX, "input": "Hi", **asked}
    if not streams:
        return sdk.responses.create(**fields)
    with sdk.responses.stream(**fields) as stream:
        return stream.get_final_response()


def post(gateway: Gateway, body: dict[str, Any], key: str = KEY) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    asked = {"model": CODEX, "input": "Hi", **body}
    return httpx.post(
        f"{gateway.url}/v1/responses", json=asked, headers=headers, timeout=BOUND_S, trust_env=False
    )


def row_of(gateway: Gateway, user: str) -> dict[str, Any]:
    return gateway.wait_for_row(lambda row: row["end_user"] == user)


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_a_task_of_an_agent(sdk: OpenAI, gateway: Gateway, upstream: Upstream, streams: bool) -> None:
    """Its reasoning comes back as its vendor wrote it; items that were never asked for pass, too."""
    vendor = Responses(
        (
            reasoning("I look."),
            function_call("weather", {"a": 1}),
            custom_call("patch", "*** Begin", "call_2"),
        ),
        (message("Rain.", annotations=[CITED]),),
    )
    upstream.behave(vendor)
    items: list[Any] = [{"role": "user", "content": "Weather?"}]
    asked: dict[str, Any] = {
        **{"instructions": "Be brief.", "tools": TOOLS, "include": [SEALED], "store": False},
        **{"reasoning": {"effort": "medium", "summary": "auto"}, "prompt_cache_key": "session-1"},
        **{"text": {"verbosity": "low"}, "client_metadata": {"session": "1"}},
    }
    extra = {"client_metadata": asked.pop("client_metadata")}
    user = f"agent-{streams}"
    first = ask(sdk, streams=streams, input=items, **asked, user=user, extra_body=extra)
    assert [item.type for item in first.output] == ["reasoning", "function_call", "custom_tool_call"]
    assert (first.model, first.status, first.store) == (CODEX, "completed", False)
    items += [item.model_dump(exclude_none=True) for item in first.output]
    items.append({"type": "function_call_output", "call_id": "call_1", "output": "Rain"})
    items.append({"type": "custom_tool_call_output", "call_id": "call_2", "output": "done"})
    second = ask(sdk, streams=streams, input=items, **asked, extra_body=extra)
    assert second.output_text == "Rain."
    assert vendor.refusals == []
    sent = vendor.bodies[1]
    assert sent["input"] == json.loads(json.dumps(items))
    assert {**sent, "input": items} == {
        **asked,
        **extra,
        "input": items,
        "model": "gpt-5.5",
        "max_output_tokens": sent["max_output_tokens"],
        **({"stream": True} if streams else {}),
    }
    row = row_of(gateway, user)
    assert (row["api"], row["status"], row["finish_reason"]) == ("responses", 200, "completed")
    assert (row["retail_nanousd"], row["usage_source"]) == (COST_NANOUSD, "provider")
    assert (row["prompt_tokens"], row["cached_tokens"], row["reasoning_tokens"]) == (20, 4, 10)


def test_the_bytes_of_a_stream_are_the_vendors(gateway: Gateway, upstream: Upstream) -> None:
    said = response(reasoning("Hm"), message("Hel lo"), function_call("weather", {}))
    sent = [frame(event) for event in events(said)]
    upstream.behave(chunked(*sent, frame({"type": "response.rate_limits.updated"})))
    answer = post(gateway, {"stream": True})
    assert answer.content == b"".join(sent).replace(b"gpt-vendor-2026-01-01", CODEX.encode())
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"


def test_an_answer_that_was_cut_is_incomplete(sdk: OpenAI, upstream: Upstream) -> None:
    upstream.behave(Responses(lambda _body: incomplete(message("Hel"))))
    whole_answer = ask(sdk, streams=False, max_output_tokens=1)
    *_, last = sdk.responses.create(model=CODEX, input="Hi", stream=True)
    assert last.type == "response.incomplete"
    for answer in (whole_answer, last.response):
        assert answer.incomplete_details is not None
        assert (answer.status, answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")


def test_the_key_of_the_vendor_is_masked_in_all_texts(gateway: Gateway, upstream: Upstream) -> None:
    upstream.behave(Responses((message(f"It is {PROVIDER_KEY}."),), pieces=5))
    answer = post(gateway, {"stream": True})
    got = read_events(answer.content)
    assert PROVIDER_KEY not in answer.text
    assert got[-1]["response"]["output"][0]["content"][0]["text"] == "It is ***."
    assert "".join(one["delta"] for one in got if "delta" in one) == "It is ***."


def test_an_empty_wallet(gateway: Gateway, upstream: Upstream) -> None:
    answer = post(gateway, {}, POOR)
    assert (answer.status_code, answer.json()["error"]["code"]) == (402, "payment_required")
    assert upstream.requests == []


def test_the_vendors_refusal_keeps_its_status_and_its_field(sdk: OpenAI, upstream: Upstream) -> None:
    upstream.behave(Responses())
    with pytest.raises(openai.BadRequestError, match="must contain the word 'json'") as caught:
        ask(sdk, streams=False, text={"format": {"type": "json_object"}})
    assert caught.value.param == "input"


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_a_vendor_that_fails_before_its_answer_has_a_fallback(
    sdk: OpenAI, gateway: Gateway, upstream: Upstream, streams: bool
) -> None:
    """The fallback is a chat model: the same request goes there through chat."""

    def behave(request: Received) -> Script:
        if "/other/" in request.target:
            return ordinary(request)
        if request.json().get("stream"):
            return chunked(*map(frame, events(failed())))
        return whole(failed())

    upstream.behave(behave)
    user = f"fallback-{streams}"
    answer = ask(sdk, streams=streams, model=BROKEN, tools=TOOLS, user=user)
    assert (answer.output_text, answer.model, answer.status) == ("hello", OTHER, "completed")
    sent = upstream.requests[-1].json()
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["weather", "patch"]
    assert sent["messages"][-1] == {"role": "user", "content": "Hi"}
    assert row_of(gateway, user)["model_slug"] == OTHER


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_reasoning_that_another_vendor_encrypted_does_not_end_a_conversation(
    gateway: Gateway, upstream: Upstream, streams: bool
) -> None:
    """The conversation was at another place before; its reasoning is left out, and all else stays."""
    vendor = Responses((message("Rain."),))
    upstream.behave(vendor)
    call = {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}"}
    items: list[Any] = [
        {"role": "user", "content": "Weather?"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "of another vendor"},
        call,
        {"type": "function_call_output", "call_id": "call_1", "output": "Rain"},
    ]
    user = f"foreign-{streams}"
    answer = post(gateway, {"input": items, "tools": TOOLS, "stream": streams, "user": user})
    assert answer.status_code == 200
    assert answer.headers["x-gateway-dropped"] == "input.reasoning"
    assert (len(vendor.refusals), len(vendor.bodies)) == (1, 1)
    assert vendor.bodies[0]["input"] == [items[0], *items[2:]]
    row = row_of(gateway, user)
    assert (row["attempts"], row["fallback"], row["status"]) == (2, 0, 200)


def test_reasoning_that_no_retry_makes_readable_is_the_vendors_error(
    gateway: Gateway, upstream: Upstream
) -> None:
    text = "The encrypted content could not be verified. Reason: Encrypted content could not be decrypted."
    upstream.behave(whole({"error": {"message": text, "type": "invalid_request_error"}}, 400))
    answer = post(gateway, {})
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, text)
    assert len(upstream.requests) == 2


def test_an_error_in_the_stream_ends_it_as_failed(sdk: OpenAI, gateway: Gateway, upstream: Upstream) -> None:
    begun = [frame(event) for event in events(response(message("Hel lo")))][:5]
    upstream.behave(chunked(*begun, frame(events(failed(text="Overloaded."))[-1])))
    got = read_events(post(gateway, {"stream": True}).content)
    assert [event["sequence_number"] for event in got] == list(range(7))
    assert [event["type"] for event in got[-2:]] == ["error", "response.failed"]
    assert got[-1]["response"]["model"] == CODEX
    with pytest.raises(openai.APIError, match="Overloaded"):
        list(sdk.responses.create(model=CODEX, input="Hi", stream=True))


def test_a_client_that_leaves_pays_for_what_it_got(gateway: Gateway, upstream: Upstream) -> None:
    begun = [frame(event) for event in events(response(message("Hel lo")))][:5]
    upstream.behave(chunked(*begun, UNTIL_CLIENT_LEAVES))
    body = json.dumps({"model": CODEX, "input": "Hi", "stream": True, "user": "leaving"}).encode()
    head = (
        f"POST /v1/responses HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with RawClient(gateway.url) as raw:
        raw.send(head.encode() + body)
        raw.read_head()
        raw.read_chunks_until(b"output_text.delta")
    row = row_of(gateway, "leaving")
    assert (row["error_code"], row["usage_source"]) == ("client_disconnected", "estimated")
    assert row["completion_tokens"] > 0 and row["retail_nanousd"] > 0


def test_searches_are_bounded_counted_and_charged(sdk: OpenAI, gateway: Gateway, upstream: Upstream) -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    said = response(message("Found."))
    said["output"] = [{**search, "action": {"type": "search", "query": "q"}}, *said["output"]]
    upstream.behave(whole(said))
    tools: Any = [{"type": "web_search"}, {"type": "code_interpreter", "container": {"type": "auto"}}]
    raw = sdk.responses.with_raw_response.create(model=SEARCHING, input="Hi", tools=tools, user="searching")
    assert raw.headers["x-gateway-dropped"] == "tools.code_interpreter"
    sent = upstream.last.json()
    assert (sent["tools"], sent["max_tool_calls"]) == (tools[:1], 4)
    row = row_of(gateway, "searching")
    assert row["searches"] == 1
    assert row["retail_nanousd"] == COST_NANOUSD + 10_000_000 * 104 // 100
