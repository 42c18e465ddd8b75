"""Streams through the whole process: the arrival of each byte, and clients that leave, pause or come in crowds.

No test waits for time to pass: a gate stops the provider until the client has what was already sent.
"""

import asyncio
import json
import re

import httpx
import openai
from conftest import HELLO, Chat
from rig.bounds import BOUND_S
from rig.gateway import Gateway
from rig.memory import resident_bytes
from rig.raw_clients import RawClient, request_bytes
from rig.scripts import DONE, UNTIL_CLIENT_LEAVES, USAGE, Gate, Step, chunk, chunked, event, ordinary
from rig.streams import HI, PATH, STREAMED, ask_for_stream
from rig.upstream import Upstream

# When bytes arrive.


def test_each_event_reaches_the_client_before_the_next_is_sent(
    raw: RawClient, gateway: Gateway, upstream: Upstream
) -> None:
    words = ["one", "two", "three", "four"]
    gates = [Gate() for _ in words]
    steps: list[Step] = []
    for word, gate in zip(words, gates, strict=True):
        steps += [event(chunk(word)), gate]
    upstream.behave(chunked(*steps, event(chunk(finish="stop")), DONE))
    ask_for_stream(raw, gateway)
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
    ask_for_stream(raw, gateway)
    assert raw.read_head().status == 200
    assert raw.read_chunks_until(b'"hi"').startswith(b": ONE\n\n")
    first.open()
    assert raw.read_chunks_until(b"TWO")
    second.open()
    assert raw.read_chunks_until(b"[DONE]")


def test_a_client_does_not_wait_for_the_end_of_the_message_after_done(
    raw: RawClient, gateway: Gateway, upstream: Upstream
) -> None:
    before_done, before_end = Gate(), Gate()
    stop = event(chunk(finish="stop"))
    upstream.behave(chunked(HI, before_done, stop + DONE, before_end))
    ask_for_stream(raw, gateway)
    assert raw.read_head().status == 200
    raw.read_chunks_until(b'"hi"')
    before_done.open()
    raw.read_chunks_until(b"data: [DONE]\n\n")
    assert raw.read_chunk() == b""
    before_end.open()


def test_an_event_cut_into_two_reads_is_relayed_when_it_is_whole(
    raw: RawClient, gateway: Gateway, upstream: Upstream
) -> None:
    first, second = event(chunk("first")), event(chunk("second"))
    gate = Gate()
    upstream.behave(chunked(first + second[:40], gate, second[40:], event(chunk(finish="stop")), DONE))
    ask_for_stream(raw, gateway)
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
    ask_for_stream(raw, gateway)
    raw.read_head()
    raw.read_chunks_until(b"data: [DONE]\n\n")
    ask_for_stream(raw, gateway)
    assert raw.read_chunk() == b""
    assert raw.read_answer().complete


def test_the_end_of_the_last_choice_waits_a_second_at_most_for_the_usage(
    raw: RawClient, gateway: Gateway, upstream: Upstream
) -> None:
    gate = Gate()
    upstream.behave(chunked(HI, event(chunk("yo", finish="stop")), gate, event(chunk(usage=USAGE)), DONE))
    ask_for_stream(raw, gateway)
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


# Clients.


def test_a_client_that_leaves_mid_stream_ends_the_upstream_call_and_is_recorded(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(chunked(event(chunk("a whole sentence was relayed")), UNTIL_CLIENT_LEAVES))
    with RawClient(gateway.url) as raw:
        ask_for_stream(raw, gateway)
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
    before = resident_bytes(gateway.pid)
    with RawClient(gateway.url) as raw:
        ask_for_stream(raw, gateway)
        raw.read_head()
        body = [raw.read_chunk()]
        # Other calls are served in the meantime. This gives the gateway time to buffer the stream, if it did.
        for _ in range(100):
            assert chat(stream=False).status_code == 200
        assert resident_bytes(gateway.pid) - before < 32 << 20
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
