"""Streams through the whole process: the arrival of each byte, and the ways in which a stream may break.

No test waits for time to pass: a gate stops the provider until the client has what was already sent.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from conftest import HELLO, Chat, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import PROVIDER_KEY
from rig.gateway import Gateway
from rig.raw_clients import Answer, RawClient, request_bytes
from rig.scripts import (
    CLOSE,
    DONE,
    RESET,
    UNTIL_CLIENT_LEAVES,
    USAGE,
    Gate,
    Received,
    Script,
    Step,
    chunk,
    chunked,
    event,
    ordinary,
    response_head,
    until_close,
)
from rig.upstream import Upstream

PATH = "/v1/chat/completions"
HI = event(chunk("hi"))
BOM = b"\xef\xbb\xbf"
STREAMED = json.dumps({"messages": HELLO, "model": "tester-large", "stream": True}).encode()


def ask(raw: RawClient, gateway: Gateway) -> None:
    raw.send(request_bytes("POST", PATH, gateway.headers.items(), STREAMED))


@pytest.fixture
def raw(gateway: Gateway) -> Iterator[RawClient]:
    with RawClient(gateway.url) as made:
        yield made


# --- when bytes arrive ---------------------------------------------------------------------------------------


def test_each_event_reaches_the_client_before_the_next_is_sent(
    raw: RawClient, gateway: Gateway, upstream: Upstream
) -> None:
    words = ["one", "two", "three", "four"]
    gates = [Gate() for _ in words]
    steps: list[Step] = []
    for word, gate in zip(words, gates, strict=True):
        steps += [event(chunk(word)), gate]
    upstream.behave(chunked(*steps, event(chunk(finish="stop")), DONE))
    ask(raw, gateway)
    assert raw.read_head().status == 200
    for word, gate in zip(words, gates, strict=True):
        assert b'"tester-large"' in raw.read_chunks_until(word.encode())
        gate.open()
    raw.read_chunks_until(b"data: [DONE]\n\n")
    assert raw.read_chunk() == b""


def test_comments_before_the_first_event_come_with_it_and_later_ones_at_once(
    raw: RawClient, gateway: Gateway, upstream: Upstream
) -> None:
    first, second = Gate(), Gate()
    upstream.behave(chunked(b": ONE\n\n", HI, first, b": TWO\n\n", second, event(chunk(finish="stop")), DONE))
    ask(raw, gateway)
    assert raw.read_head().status == 200
    assert raw.read_chunks_until(b'"hi"').startswith(b": ONE\n\n")
    first.open()
    assert raw.read_chunks_until(b"TWO")
    second.open()
    assert raw.read_chunks_until(b"[DONE]")


def test_an_event_cut_into_two_reads_is_relayed_when_it_is_whole(
    raw: RawClient, gateway: Gateway, upstream: Upstream
) -> None:
    first, second = event(chunk("first")), event(chunk("second"))
    gate = Gate()
    upstream.behave(chunked(first + second[:40], gate, second[40:], event(chunk(finish="stop")), DONE))
    ask(raw, gateway)
    raw.read_head()
    seen = raw.read_chunks_until(b"first")
    assert b"second" not in seen
    gate.open()
    rest = raw.read_chunks_until(b"[DONE]")
    assert json.loads(rest.split(b"data: ")[1]) == chunk("second") | {"model": "tester-large"}


def test_done_is_sent_as_soon_as_the_provider_ends(
    raw: RawClient, gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(chunked(event(chunk("hi")), event(chunk(finish="stop"))))
    ask(raw, gateway)
    raw.read_head()
    raw.read_chunks_until(b"data: [DONE]\n\n")
    ask(raw, gateway)
    assert raw.read_chunk() == b""
    assert raw.read_answer().complete


def test_the_end_of_the_last_choice_waits_a_second_at_most_for_the_usage(
    raw: RawClient, gateway: Gateway, upstream: Upstream
) -> None:
    gate = Gate()
    upstream.behave(chunked(HI, event(chunk("yo", finish="stop")), gate, event(chunk(usage=USAGE)), DONE))
    ask(raw, gateway)
    call = raw.read_head().header("x-request-id") or ""
    assert b'"finish_reason":"stop"' not in raw.read_chunks_until(b'"yo"')
    assert b'"usage"' not in raw.read_chunks_until(b'"finish_reason":"stop"'), "it left without the usage"
    gate.open()
    assert b'"usage"' not in raw.read_chunks_until(b"[DONE]")
    row = gateway.wait_for_row(call)
    assert (row["usage_source"], row["completion_tokens"]) == ("provider", 2)


def test_the_usual_loop_of_an_sdk_works_on_every_chunk(gateway: Gateway, upstream: Upstream) -> None:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.key, max_retries=0) as sdk:
        stream = sdk.chat.completions.create(model="tester-large", messages=HELLO, stream=True)
        text = [chunk.choices[0].delta.content or "" for chunk in stream]
    assert "".join(text) == "hello"


BREAKS_OFF: dict[str, Script] = {
    "between events": chunked(HI, event(chunk(finish="stop")), CLOSE),
    "with a reset": chunked(HI, event(chunk(finish="stop")), RESET),
    "inside an event": chunked(HI, event(chunk(finish="stop")), b"data: {", CLOSE),
    "after the usage": chunked(HI, event(chunk(finish="stop")), event(chunk(usage=USAGE)), CLOSE),
    "with nothing but the end": chunked(event(chunk(finish="stop")), CLOSE),
    "before its length": (
        response_head(200, [("Content-Type", "text/event-stream"), ("Content-Length", "9999")]),
        HI,
        event(chunk(finish="stop")),
        CLOSE,
    ),
}


@pytest.mark.parametrize("name", BREAKS_OFF)
def test_a_stream_that_breaks_off_after_the_end_of_every_choice_is_complete(
    raw: RawClient, gateway: Gateway, upstream: Upstream, name: str
) -> None:
    upstream.behave(BREAKS_OFF[name])
    ask(raw, gateway)
    answer = raw.read_answer()
    assert answer.complete
    assert b'"finish_reason":"stop"' in answer.body
    assert answer.body.endswith(DONE)
    assert b'"error"' not in answer.body
    row = gateway.wait_for_row(answer.header("x-request-id") or "")
    assert (row["status"], row["error_code"], row["finish_reason"]) == (200, None, "stop")


@pytest.mark.parametrize("sent", [DONE, event(chunk(usage=USAGE)) + DONE, b": wait\n\n" + DONE])
def test_a_stream_without_a_choice_is_a_failure(
    raw: RawClient, gateway: Gateway, upstream: Upstream, sent: bytes
) -> None:
    upstream.behave(chunked(sent))
    ask(raw, gateway)
    answer = raw.read_answer()
    assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_error")


def shows_its_key(request: Received) -> Script:
    key = (request.header("authorization") or "").removeprefix("Bearer ")
    assert key == PROVIDER_KEY
    pieces = [key[at : at + 7] for at in range(0, len(key), 7)]
    escaped = "".join(f"\\u{ord(char):04x}" for char in key)
    last = event(chunk("ESCAPED", finish="stop")).replace(b"ESCAPED", escaped.encode())
    return chunked(*(event(chunk(piece)) for piece in pieces), event(chunk(" ")), last, DONE)


def test_a_provider_that_shows_the_key_in_pieces_or_escaped_is_masked(chat: Chat, upstream: Upstream) -> None:
    upstream.behave(shows_its_key)
    answer = chat(stream=True)
    payloads = [json.loads(line[6:]) for line in answer.text.split("\n\n") if line.startswith("data: {")]
    text = "".join(one["choices"][0]["delta"].get("content", "") for one in payloads)
    assert text.count("***") == 2
    assert len(text) <= len("*** ***") + 3
    assert PROVIDER_KEY not in text


# --- any framing ---------------------------------------------------------------------------------------------

SAMPLE = [
    chunk(role="assistant", content=""),
    chunk("naïve ✓ 日本 🎉"),
    chunk("line\nbreak \u2028 data: x"),
    chunk(finish="stop"),
    chunk(usage=USAGE),
]
FRAMINGS: dict[str, bytes] = {
    "LF": b"".join(event(json.dumps(made, ensure_ascii=False)) for made in SAMPLE) + DONE,
    "CRLF": b"".join(
        b"data: " + json.dumps(made, ensure_ascii=False).encode() + b"\r\n\r\n" for made in SAMPLE
    )
    + b"data: [DONE]\r\n\r\n",
    "CR": b"".join(b"data: " + json.dumps(made).encode() + b"\r\r" for made in SAMPLE) + b"data: [DONE]\r\r",
    "no space after data": b"".join(b"data:" + json.dumps(made).encode() + b"\n\n" for made in SAMPLE)
    + b"data:[DONE]\n\n",
    "comments and fields between": b": hi\n\n"
    + b"".join(b"id: 1\nevent: chunk\n" + event(made) + b": keep-alive\n\n" for made in SAMPLE)
    + DONE,
    "three newlines": b"".join(event(made) + b"\n" for made in SAMPLE) + DONE,
    "no last newline": (b"".join(event(made) for made in SAMPLE) + DONE).rstrip(b"\n"),
    "no done": b"".join(event(made) for made in SAMPLE),
    "a byte order mark": BOM + b"".join(event(made) for made in SAMPLE) + DONE,
    "an event of 200 KB": b"".join(event(made | {"padding": "x" * 200_000}) for made in SAMPLE) + DONE,
}
CUTS = {"one write": 1 << 20, "a byte at a time": 1, "seven bytes at a time": 7}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", FRAMINGS)
def test_framing_and_cuts_do_not_change_a_stream(chat: Chat, upstream: Upstream, name: str, cut: str) -> None:
    sent, size = FRAMINGS[name], max(CUTS[cut], len(FRAMINGS[name]) // 5_000)
    upstream.behave(chunked(*(sent[at : at + size] for at in range(0, len(sent), size))))
    answer = chat(model="tester-large", stream=True)
    *events, rest = answer.content.split(b"\n\n")
    assert rest == b""
    assert b"\r" not in answer.content
    payloads = [one.removeprefix(b"data: ") for one in events if one != b": keep-alive" and one != b": hi"]
    assert payloads.pop() == b"[DONE]"
    seen = [json.loads(payload) for payload in payloads]
    for made in seen:
        made.pop("padding", None)
    assert seen == [
        made | {"model": "tester-large"} for made in [*SAMPLE[:-2], SAMPLE[-2] | {"usage": USAGE}]
    ]


def test_a_character_cut_in_two_arrives_whole_at_every_cut(chat: Chat, upstream: Upstream) -> None:
    text = json.dumps(chunk("é✓🎉"), ensure_ascii=False).encode()
    start, end = text.index("é".encode()), text.index("🎉".encode()) + 4
    for cut in range(start, end + 1):
        made = b"data: " + text + b"\n\n"
        upstream.behave(chunked(made[: cut + 6], made[cut + 6 :], event(chunk(finish="stop")), DONE))
        answer = chat(stream=True)
        assert json.loads(answer.content.split(b"\n")[0][6:])["choices"][0]["delta"]["content"] == "é✓🎉"


# --- how a stream breaks -------------------------------------------------------------------------------------


def _one_error_and_no_done(answer: Answer) -> dict[str, Any]:
    """Check that the last event is the contract's error, the only one, and that nothing claims success."""
    assert b"[DONE]" not in answer.body
    *_, last = [line for line in answer.body.split(b"\n") if line.startswith(b"data:")]
    assert answer.body.count(b'"error"') == 1
    assert answer.body.endswith(b"\n\n")
    error: dict[str, Any] = json.loads(last.removeprefix(b"data:"))["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("api_error", "upstream_error")
    return error


CUTS_OFF: dict[str, Script] = {
    "inside an event": chunked(HI, HI[:30], CLOSE),
    "inside an event, with a proper end": chunked(HI, HI[:30]),
    "between events": chunked(HI, CLOSE),
    "between events, with a reset": chunked(HI, RESET),
    "inside an HTTP chunk": (*chunked(HI, finish=False), b"ff\r\ndata: {", CLOSE),
    "by a bad chunk size": (*chunked(HI, finish=False), b"zz\r\n", UNTIL_CLIENT_LEAVES),
    "before its length": (
        response_head(200, [("Content-Type", "text/event-stream"), ("Content-Length", "9999")]),
        HI,
        CLOSE,
    ),
    "until the connection ends": until_close(HI, HI[:30]),
    "by an event that is no JSON": chunked(HI, b"data: {oops}\n\n", DONE),
    "by an event that is no object": chunked(HI, b"data: 5\n\n", DONE),
    "by an event that is no UTF-8": chunked(HI, b'data: {"a":"\xff"}\n\n', DONE),
}


@pytest.mark.parametrize("name", CUTS_OFF)
def test_a_stream_that_breaks_ends_with_one_error_event_and_the_connection_serves_the_next_call(
    raw: RawClient, gateway: Gateway, upstream: Upstream, name: str
) -> None:
    upstream.behave(CUTS_OFF[name])
    ask(raw, gateway)
    answer = raw.read_answer()
    assert (answer.status, answer.complete) == (200, True)
    assert b'"hi"' in answer.body
    _one_error_and_no_done(answer)
    row = gateway.wait_for_row(answer.header("x-request-id") or "")
    assert row["error_code"] == "upstream_error"
    assert row["usage_source"] == "estimated"
    assert row["completion_tokens"] > 0
    upstream.behave(ordinary)
    ask(raw, gateway)
    assert raw.read_answer().body.endswith(DONE)


def test_a_client_of_http_1_0_knows_a_failed_stream_is_over_by_the_close(
    raw: RawClient, gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(CUTS_OFF["between events"])
    raw.send(request_bytes("POST", PATH, gateway.headers.items(), STREAMED).replace(b"HTTP/1.1", b"HTTP/1.0"))
    answer = raw.read_head()
    answer.body = raw.read_to_close()
    _one_error_and_no_done(answer)


def test_a_pooling_client_loses_no_call_after_a_failed_stream(gateway: Gateway, upstream: Upstream) -> None:
    body = {"messages": HELLO, "stream": True}
    with httpx.Client(headers=gateway.headers, timeout=BOUND_S, trust_env=False) as client:
        for number in range(20):
            upstream.behave(CUTS_OFF["between events"] if number % 2 == 0 else ordinary)
            answer = client.post(gateway.url + PATH, json=body)
            assert answer.text.endswith("data: [DONE]\n\n") == (number % 2 == 1)


def test_usage_that_a_provider_reported_before_it_broke_counts(
    raw: RawClient, gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(chunked(HI, event(chunk("x", usage=USAGE)), CLOSE))
    ask(raw, gateway)
    answer = raw.read_answer()
    _one_error_and_no_done(answer)
    row = gateway.wait_for_row(answer.header("x-request-id") or "")
    assert (row["usage_source"], row["completion_tokens"]) == ("provider", 2)


ENDLESS: dict[str, bytes] = {
    "a line": b"data: " + b"x" * 65_536,
    "a comment": b": " + b"x" * 65_536,
    "an event of many lines": b"data: x\n" * 8_192,
}


@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_event_gets_an_error_and_no_growth(
    raw: RawClient, gateway: Gateway, upstream: Upstream, name: str
) -> None:
    piece = ENDLESS[name]
    more = piece if name == "an event of many lines" else b"x" * 65_536
    upstream.behave(chunked(HI, piece, *(more for _ in range(1024)), UNTIL_CLIENT_LEAVES))
    before = _resident_bytes(gateway)
    ask(raw, gateway)
    answer = raw.read_answer()
    _one_error_and_no_done(answer)
    assert len(answer.body) < 32 << 20
    assert upstream.last.client_left.wait(BOUND_S)
    assert _resident_bytes(gateway) - before < 48 << 20


def _resident_bytes(gateway: Gateway) -> int:
    with open(f"/proc/{gateway.pid}/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.parametrize("more", [[], [b"x" * 65_536] * 32], ids=["silent", "still talking"])
def test_the_upstream_connection_of_a_broken_stream_is_closed(
    raw: RawClient, gateway: Gateway, upstream: Upstream, more: list[bytes]
) -> None:
    upstream.behave(chunked(HI, b"data: {oops}\n\n", *more, UNTIL_CLIENT_LEAVES))
    ask(raw, gateway)
    _one_error_and_no_done(raw.read_answer())
    assert upstream.last.client_left.wait(BOUND_S)


@pytest.fixture(scope="module")
def impatient_gateway(start_gateway: StartGateway) -> Gateway:
    return start_gateway(sections={"upstream": {"idle_timeout_s": 1}})


def test_silence_inside_a_stream_ends_it_with_an_error(
    impatient_gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(chunked(HI, UNTIL_CLIENT_LEAVES))
    with RawClient(impatient_gateway.url) as raw:
        ask(raw, impatient_gateway)
        answer = raw.read_answer()
    _one_error_and_no_done(answer)
    assert upstream.last.client_left.wait(BOUND_S)
    row = impatient_gateway.wait_for_row(answer.header("x-request-id") or "")
    assert row["error_code"] == "upstream_error"


def test_silence_after_the_end_of_every_choice_is_no_error(
    impatient_gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(chunked(HI, event(chunk(finish="stop")), UNTIL_CLIENT_LEAVES))
    with RawClient(impatient_gateway.url) as raw:
        ask(raw, impatient_gateway)
        answer = raw.read_answer()
    assert answer.body.endswith(b'"finish_reason":"stop"}]}\n\n' + DONE)
    row = impatient_gateway.wait_for_row(answer.header("x-request-id") or "")
    assert (row["status"], row["error_code"]) == (200, None)


def test_silence_after_the_head_alone_ends_the_call(start_gateway: StartGateway, upstream: Upstream) -> None:
    hasty_gateway = start_gateway(sections={"upstream": {"first_byte_timeout_s": 1}})
    upstream.behave(
        (
            response_head(200, [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")]),
            UNTIL_CLIENT_LEAVES,
        )
    )
    with RawClient(hasty_gateway.url) as raw:
        ask(raw, hasty_gateway)
        answer = raw.read_answer()
    assert b"upstream_error" in answer.body
    assert b"[DONE]" not in answer.body
    assert upstream.last.client_left.wait(BOUND_S)


# --- clients that leave --------------------------------------------------------------------------------------


def test_a_client_that_leaves_mid_stream_ends_the_upstream_call_and_is_recorded(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(chunked(event(chunk("a whole sentence was relayed")), UNTIL_CLIENT_LEAVES))
    with RawClient(gateway.url) as raw:
        ask(raw, gateway)
        call = raw.read_head().header("x-request-id") or ""
        raw.read_chunks_until(b"sentence")
    assert upstream.last.client_left.wait(BOUND_S)
    row = gateway.wait_for_row(call)
    assert (row["status"], row["usage_source"]) == (499, "estimated")
    assert row["completion_tokens"] > 0
    assert row["retail_nanousd"] > 0


def test_a_client_that_leaves_inside_its_request_sends_nothing_upstream(
    gateway: Gateway, upstream: Upstream, chat: Chat
) -> None:
    before = len(gateway.ledger_rows())
    with RawClient(gateway.url) as raw:
        raw.send(request_bytes("POST", PATH, gateway.headers.items(), STREAMED)[:-5])
    gateway.wait_for_row(chat().headers["x-request-id"])
    assert len(upstream.requests) == 1
    assert len(gateway.ledger_rows()) == before + 1


def test_a_client_that_pauses_slows_the_provider_and_loses_nothing(
    gateway: Gateway, upstream: Upstream, chat: Chat
) -> None:
    count, padding = 400, "x" * 160_000
    story = chunked(
        *(event(chunk(f"<{n}>{padding}")) for n in range(count)), event(chunk(finish="stop")), DONE
    )
    upstream.behave(lambda request: story if request.json().get("stream") else ordinary(request))
    before = _resident_bytes(gateway)
    with RawClient(gateway.url) as raw:
        ask(raw, gateway)
        raw.read_head()
        body = [raw.read_chunk()]
        # Other calls are served in the meantime. This gives the gateway time to buffer the stream, if it did.
        for _ in range(100):
            assert chat(stream=False).status_code == 200
        assert _resident_bytes(gateway) - before < 32 << 20
        while piece := raw.read_chunk():
            body.append(piece)
    assert re.findall(rb"<(\d+)>", b"".join(body)) == [str(n).encode() for n in range(count)]


async def test_many_streams_at_once_stay_apart(gateway: Gateway, upstream: Upstream) -> None:
    upstream.behave(
        lambda request: chunked(
            *(event(chunk(f"{request.json()['user']},")) for _ in range(20)),
            event(chunk(finish="stop")),
            DONE,
        )
    )
    limits = httpx.Limits(max_connections=50)
    async with httpx.AsyncClient(
        base_url=gateway.url, headers=gateway.headers, limits=limits, timeout=BOUND_S, trust_env=False
    ) as client:

        async def one(number: int) -> str:
            body = {"messages": HELLO, "stream": True, "user": f"u{number}"}
            answer = await client.post(PATH, json=body)
            lines = [line[6:] for line in answer.text.split("\n") if line.startswith("data: {")]
            deltas = [choice["delta"] for line in lines for choice in json.loads(line)["choices"]]
            return "".join(delta.get("content", "") for delta in deltas)

        assert await asyncio.gather(*map(one, range(50))) == [f"u{number}," * 20 for number in range(50)]
