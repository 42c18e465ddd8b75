"""Every framing of a provider's stream, cut anywhere, gives the same stream to the client. A key in it is masked."""

import json

import pytest
from conftest import Chat
from rig.configuration import PROVIDER_KEY
from rig.large import sampled
from rig.scripts import DONE, USAGE, Received, Script, chunk, chunked, event
from rig.upstream import Upstream

BOM = b"\xef\xbb\xbf"

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


@sampled(every=3)
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
