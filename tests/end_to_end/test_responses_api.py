"""The Responses API with the official SDK and a real gateway, whose providers speak other APIs and are strict."""

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import openai
import pytest
from conftest import StartGateway
from openai import OpenAI
from openai.types.responses import Response
from pydantic import BaseModel
from rig.bounds import BOUND_S
from rig.configuration import ROOT, model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.native_responses import Responses, function_call, message, reasoning
from rig.response_events import check_events, check_response, read_events
from rig.scripts import RESET, Received, Script, chunk, chunked, completion, event, whole
from rig.strict_vendors import base_url
from rig.tool_loops import CITIES, END, LOOPS, NOTE, WEATHER, Loop, behave, find_loop, provider_of
from rig.upstream import Upstream

CATALOG = ROOT / "catalog_data"
PLAIN = "plain"
"""A model whose provider does what a test says."""
NATIVE = "gpt-5.1"
"""A model whose provider speaks the API itself."""
KEY, POOR = new_key(), new_key()
TOOLS: Any = [
    {"type": "function", "name": "weather", "parameters": WEATHER, "strict": True},
    {"type": "custom", "name": "note", "format": {"type": "grammar", "syntax": "regex", "definition": ".*"}},
    {"type": "web_search"},
]
LOOP_OF = pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.provider)


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
    providers["OPENAI"] = provider(base_url(strict.base_url, "OPENAI"))
    providers["TESTER"] = provider(upstreams["TESTER"].base_url)
    return start_gateway(
        providers=providers,
        models={slug: models[slug] for slug in (NATIVE, *(loop.slug for loop in LOOPS))} | {PLAIN: model()},
        families=table("families.toml"),
        workspaces={
            "acme": workspace(("k", KEY, True)),
            "poor": workspace(("p", POOR, True), plan="standard", name="Poor"),
        },
    )


@pytest.fixture
def sdk(gateway: Gateway) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0, timeout=BOUND_S) as made:
        yield made


def run_tool(item: Any, loop: Loop) -> dict[str, Any]:
    """Return the output of a call, as an agent does."""
    if item.type == "custom_tool_call":
        assert (item.name, item.input) == ("note", NOTE)
        return {"type": "custom_tool_call_output", "call_id": item.call_id, "output": "noted"}
    assert item.name == "weather"
    picture = {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "low"}
    has_picture = loop.takes_pictures and "Rome" in item.arguments
    said = [{"type": "input_text", "text": "Rain"}, picture] if has_picture else "Rain"
    return {"type": "function_call_output", "call_id": item.call_id, "output": said}


def ask(sdk: OpenAI, loop: Loop, items: list[Any], *, streams: bool) -> Response:
    fields: Any = {
        "model": loop.slug,
        "instructions": "Be brief.",
        "input": items,
        "tools": TOOLS,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "medium", "summary": "auto"},
        "parallel_tool_calls": True,
    }
    if not streams:
        return sdk.responses.create(**fields)
    with sdk.responses.stream(**fields) as stream:
        return stream.get_final_response()


@LOOP_OF
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_a_task_with_tools_in_three_turns(sdk: OpenAI, loop: Loop, streams: bool) -> None:
    items: list[Any] = [
        {"role": "developer", "content": "Use tools."},
        {"role": "user", "content": "Weather?"},
    ]
    texts, calls = [], []
    for _ in range(3):
        answer = ask(sdk, loop, items, streams=streams)
        assert (answer.status, answer.model) == ("completed", loop.slug)
        assert answer.usage is not None and answer.usage.input_tokens > 0
        texts.append(answer.output_text)
        called = [item for item in answer.output if item.type in ("function_call", "custom_tool_call")]
        calls.append(len(called))
        items += answer.output
        items += [run_tool(item, loop) for item in called]
    assert texts == ["I look.", "", END]
    assert calls == [len(CITIES), 1, 0]


def test_a_conversation_moves_from_one_provider_to_another(sdk: OpenAI, strict: Upstream) -> None:
    """Each gets its own reasoning back, and nobody else's. All refuse what is foreign."""
    native = Responses((reasoning("Hm"), message("I ask."), function_call("weather", {"city": "Bern"})))
    strict.behave(
        lambda asked: native(asked) if provider_of(asked) == "OPENAI" else find_loop(asked).begin(asked)
    )
    items: list[Any] = [{"role": "user", "content": "Weather?"}]
    deepseek, claude, gemini = LOOPS
    openai_loop = replace(deepseek, slug=NATIVE)
    for number, loop in enumerate((claude, openai_loop, gemini, deepseek, openai_loop, claude)):
        answer = ask(sdk, loop, items, streams=number % 2 == 0)
        assert answer.status == "completed"
        items += answer.output
        items += [run_tool(item, deepseek) for item in answer.output if item.type == "function_call"]
    strict.behave(behave)
    assert native.refusals == []
    assert claude.recalled(strict.last.json()) == ["signature-0"]
    sealed = [one["encrypted_content"] for one in native.bodies[1]["input"] if one.get("type") == "reasoning"]
    assert sealed == native.issued[:1]


def test_what_is_dropped_is_named(gateway: Gateway, upstream: Upstream) -> None:
    body = {"model": PLAIN, "input": "Hi", "tools": TOOLS[2:], "store": True, "truncation": "auto", "new": 1}
    answer = post(gateway, body)
    assert answer.headers["x-gateway-dropped"] == "new, store, tools.web_search, truncation"
    check_response(answer.json())
    assert "tools" not in upstream.last.json()


def test_fields_are_named_in_the_words_of_the_api(gateway: Gateway, strict: Upstream) -> None:
    picture = {"type": "input_image", "image_url": "https://a/b.png"}
    items = [{"type": "web_search_call", "id": "w"}, {"role": "user", "content": [picture]}]
    answer = post(gateway, {"model": "deepseek-v4-pro", "input": items, "instructions": "Be brief."})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input.1")
    assert answer.json()["error"]["message"] == "input.1: deepseek-v4-pro does not take images."
    reasoned = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]}
    said = [{"role": "user", "content": "Hi"}, reasoned, {"role": "assistant", "content": "Ho"}]
    body = {"model": PLAIN, "input": [*said, said[0]], "text": {"verbosity": "low"}}
    assert post(gateway, body).headers["x-gateway-dropped"] == "input.reasoning, text.verbosity"


def post(gateway: Gateway, body: Any, path: str = "/v1/responses", key: str = KEY) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.post(f"{gateway.url}{path}", json=body, headers=headers, timeout=BOUND_S, trust_env=False)


class Weather(BaseModel):
    city: str
    rains: bool


def test_parse_reads_what_the_model_wrote(sdk: OpenAI, upstream: Upstream) -> None:
    upstream.behave(whole(completion('{"city": "Oslo", "rains": true}')))
    answer = sdk.responses.parse(model=PLAIN, input="Weather?", text_format=Weather)
    assert answer.output_parsed == Weather(city="Oslo", rains=True)
    sent = upstream.last.json()["response_format"]
    assert sent["json_schema"]["name"] == "Weather" and sent["json_schema"]["strict"] is True


def test_the_events_are_those_of_openai(gateway: Gateway, upstream: Upstream) -> None:
    answer = post(gateway, {"model": PLAIN, "input": "Hi", "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    response = check_events(read_events(answer.content))
    assert response["output"][0]["content"][0]["text"] == "hello"


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        ({"input": "Hi", "previous_response_id": "resp_1"}, 400, "validation_failed", "previous_response_id"),
        ({}, 400, "bad_request", "input"),
        ({"input": "Hi", "tool_choice": {"type": "web_search"}}, 400, "validation_failed", "tool_choice"),
        ({"input": "Hi", "model": "no/such"}, 400, "bad_request", None),
    ],
)
def test_refusals(
    gateway: Gateway, upstream: Upstream, body: Any, status: int, code: str, param: Any
) -> None:
    answer = post(gateway, {"model": PLAIN, **body})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert param is None or error["param"] == param
    assert upstream.requests == []


def test_an_empty_wallet_and_a_wrong_key(gateway: Gateway) -> None:
    answer = post(gateway, {"model": PLAIN, "input": "Hi"}, key=POOR)
    assert (answer.status_code, answer.json()["error"]["code"]) == (402, "payment_required")
    answer = post(gateway, {"model": PLAIN, "input": "Hi"}, key=new_key())
    assert (answer.status_code, answer.json()["error"]["type"]) == (401, "authentication_error")


def test_stored_responses_are_not_there(sdk: OpenAI, gateway: Gateway) -> None:
    for ask_for in (sdk.responses.retrieve, sdk.responses.delete, sdk.responses.cancel):
        with pytest.raises(openai.NotFoundError, match="not stored here"):
            ask_for("resp_1")
    with httpx.Client(timeout=BOUND_S, trust_env=False) as client:
        answer = client.get(f"{gateway.url}/v1/responses")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["error"]["code"] == "method_not_allowed"


def test_a_stream_that_breaks_off_ends_as_failed(sdk: OpenAI, gateway: Gateway, upstream: Upstream) -> None:
    upstream.behave(chunked(event(chunk("hel")), RESET))
    events = read_events(post(gateway, {"model": PLAIN, "input": "Hi", "stream": True}).content)
    assert [one["sequence_number"] for one in events] == list(range(len(events)))
    error, failed = events[-2:]
    assert (error["type"], error["error"]["code"]) == ("error", "upstream_error")
    assert (failed["type"], failed["response"]["status"]) == ("response.failed", "failed")
    assert failed["response"]["error"]["code"] == "server_error"
    with pytest.raises(openai.APIError, match="ended before"):
        list(sdk.responses.create(model=PLAIN, input="Hi", stream=True))


def test_a_call_without_an_answer_has_its_status(sdk: OpenAI, upstream: Upstream) -> None:
    def refuse(_request: Received) -> Script:
        return whole({"error": {"message": "too long", "type": "invalid_request_error"}}, 400)

    upstream.behave(refuse)
    with pytest.raises(openai.BadRequestError, match="too long"):
        sdk.responses.create(model=PLAIN, input="Hi", stream=True)
