"""Calls as flows in a real mitmdump. Addons see calls, but can't change them."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import PROVIDER_KEY, ROOT, new_key
from rig.gateway import Gateway
from rig.processes import ANY_PORT, MITMDUMP, Mitmdump
from rig.raw_clients import RawClient
from rig.scripts import UNTIL_CLIENT_LEAVES, Gate, chunk, chunked, completion, event, whole
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"
ADDONS = str(ROOT / "tests" / "rig" / "flow_addons.py")
IN_ORDER = ["requestheaders", "request", "responseheaders", "response"]

type Seen = dict[str, Any]


class Spied(Mitmdump):
    """A mitmdump with addons that record each flow that they see."""

    def seen(self) -> list[Seen]:
        """Return all records so far."""
        lines = (self.folder / "seen.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def flow(self, wanted: Callable[[Seen], bool]) -> list[Seen]:
        """Return the record of the hooks of the wanted flow, once it has ended."""

        def found() -> list[Seen]:
            ids = {one["id"] for one in self.seen() if wanted(one)}
            assert len(ids) <= 1
            return [one for one in self.seen() if one["id"] in ids]

        self.wait_until(lambda: bool(found()) and found()[-1]["hook"] in ("response", "error"))
        return found()

    def flow_of(self, answer: httpx.Response) -> list[Seen]:
        """Return the record of the call with this answer, as ``flow``."""
        field = ["x-request-id", answer.headers["x-request-id"]]
        return self.flow(lambda one: field in (one["answer_headers"] or ()))


def _start(
    start_gateway: StartGateway, folder: Path, program: tuple[str, ...] = MITMDUMP, **changes: Any
) -> Spied:
    started = start_gateway(
        folder=folder,
        kind=Spied,
        program=program,
        arguments=(*ANY_PORT, "-s", ADDONS),
        **changes,
    )
    assert isinstance(started, Spied)
    return started


@pytest.fixture(scope="module")
def shared(start_gateway: StartGateway, tmp_path_factory: pytest.TempPathFactory, authority: Any) -> Gateway:
    folder = tmp_path_factory.mktemp("spied")
    ca_file = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    variables = {"FLOWS_SEEN": str(folder / "seen.jsonl"), "SSL_CERT_FILE": str(ca_file)}
    return _start(start_gateway, folder, environment=variables)


@pytest.fixture
def spied(shared: Spied, upstream: Upstream) -> Spied:
    assert upstream.requests == []
    return shared


@pytest.fixture
def client(spied: Spied) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=spied.url, headers=spied.headers, timeout=BOUND_S, trust_env=False) as made:
        yield made


# The content of a flow.


def _assert_of_acme(seen: Seen, gateway: Gateway) -> None:
    comment = "acme, tester-large, TESTER, 11 tokens (9 in, 2 out), "
    assert re.fullmatch(re.escape(comment) + r"0\.\d+ USD", seen["comment"])
    url = urlsplit(gateway.url)
    assert (seen["server"], seen["live"]) == ([url.hostname, url.port], False)
    assert dict(seen["headers"])["authorization"] == "Bearer ***"


def test_a_whole_answer(spied: Spied, client: httpx.Client) -> None:
    body = json.dumps({"messages": HELLO}).encode()
    answer = client.post(CHAT, content=body)
    assert answer.status_code == 200
    flow = spied.flow_of(answer)
    assert [seen["hook"] for seen in flow] == IN_ORDER
    head, request, answer_head, whole = flow
    assert (head["content"], head["status"], request["status"], answer_head["answer"]) == (None,) * 4
    assert (request["content"], answer_head["status"]) == (body.decode(), 200)
    assert (whole["url"], whole["version"], whole["method"]) == (spied.url + CHAT, "HTTP/1.1", "POST")
    assert (whole["content"], whole["answer"]) == (body.decode(), answer.text)
    assert {name: answer.headers[name] for name, _ in whole["answer_headers"]} == dict(
        whole["answer_headers"]
    )
    _assert_of_acme(whole, spied)
    row = spied.wait_for_row(answer.headers["x-request-id"])
    assert f"{row['retail_nanousd'] / 1e9:.9f}".rstrip("0") + " USD" in whole["comment"]


def test_a_streamed_answer_is_shown_when_it_begins_and_when_it_has_ended(
    spied: Spied, client: httpx.Client, upstream: Upstream
) -> None:
    gate = Gate()
    first = event(chunk("hello"))
    upstream.behave(chunked(first, gate, *(step for step in _ordinary_stream() if isinstance(step, bytes))))
    with client.stream("POST", CHAT, json={"messages": HELLO, "stream": True}) as answer:
        call_id = ["x-request-id", answer.headers["x-request-id"]]
        spied.wait_until(lambda: any(call_id in (one["answer_headers"] or ()) for one in spied.seen()))
        begun = [one for one in spied.seen() if call_id in (one["answer_headers"] or ())]
        gate.open()
        text = answer.read().decode()
    assert [(one["hook"], one["status"], one["answer"]) for one in begun] == [("responseheaders", 200, None)]
    flow = spied.flow_of(answer)
    assert [seen["hook"] for seen in flow] == IN_ORDER
    assert flow[-1]["answer"] == text
    assert flow[-1]["comment"].startswith("acme, tester-large, TESTER, ")


def _ordinary_stream() -> list[Any]:
    return [event(chunk(" there", finish_reason="stop")), b"data: [DONE]\n\n"]


def test_an_http2_call(spied: Spied) -> None:
    with httpx.Client(http1=False, http2=True, trust_env=False, timeout=BOUND_S) as client:
        answer = client.post(spied.url + CHAT, headers=spied.headers, json={"messages": HELLO})
    flow = spied.flow_of(answer)
    assert [seen["hook"] for seen in flow] == IN_ORDER
    assert (flow[-1]["version"], flow[-1]["url"], flow[-1]["answer"]) == (
        "HTTP/2.0",
        spied.url + CHAT,
        answer.text,
    )
    _assert_of_acme(flow[-1], spied)


def test_refused_calls(spied: Spied, client: httpx.Client, upstream: Upstream) -> None:
    key = new_key()
    wrong = client.post(CHAT, json={"messages": HELLO}, headers={"Authorization": f"Bearer {key}"})
    flow = spied.flow_of(wrong)
    assert ([seen["hook"] for seen in flow], flow[-1]["status"]) == (IN_ORDER, 401)
    assert flow[-1]["comment"] == "error invalid_api_key, request body not read to its end"
    assert (flow[-1]["answer"], key in json.dumps(flow)) == (wrong.text, False)
    bad = client.post(CHAT, json={"messages": 5})
    flow = spied.flow_of(bad)
    assert (flow[-1]["status"], flow[-1]["content"]) == (400, '{"messages":5}')
    assert flow[-1]["comment"] == "acme, error validation_failed"
    unserved = client.get("/nowhere")
    assert spied.flow_of(unserved)[-1]["comment"] == "error not_found"
    assert upstream.requests == []


def test_the_catalog(spied: Spied, client: httpx.Client) -> None:
    answer = client.get("/v1/models")
    flow = spied.flow_of(answer)
    assert ([seen["hook"] for seen in flow], flow[-1]["answer"]) == (IN_ORDER, answer.text)
    assert (flow[-1]["content"], flow[-1]["comment"]) == ("", "")


def test_a_client_that_left(spied: Spied, upstream: Upstream) -> None:
    upstream.behave(chunked(event(chunk("hello")), UNTIL_CLIENT_LEAVES))
    content = json.dumps({"messages": HELLO, "stream": True, "user": "the-one-who-leaves"})
    with RawClient(spied.url) as raw:
        raw.send(spied.chat_bytes(stream=True, user="the-one-who-leaves"))
        raw.read_until(b"hello")
    flow = spied.flow(lambda one: "the-one-who-leaves" in (one["content"] or ""))
    assert [seen["hook"] for seen in flow] == [*IN_ORDER[:3], "error"]
    last = flow[-1]
    assert (last["error"], last["status"], json.loads(last["content"])) == (
        "The client left.",
        200,
        json.loads(content),
    )
    assert "hello" in last["answer"]
    assert "error client_disconnected" in last["comment"]


def test_a_long_body_is_cut_off_in_its_flow_only(
    spied: Spied, client: httpx.Client, upstream: Upstream
) -> None:
    text = "x" * (2 << 20)
    answer = client.post(CHAT, json={"messages": [{"role": "user", "content": text}]})
    assert answer.status_code == 200
    assert upstream.last.json()["messages"][0]["content"] == text
    last = spied.flow_of(answer)[-1]
    assert len(last["content"]) == 1 << 20
    assert last["comment"].endswith(", request body cut off here")


# Addons that change a flow.

ACTS = (
    *("change", "kill", "kill politely", "intercept", "raise", "halt", "options error", "cancel"),
    *("never return", "remove"),
)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("act", ACTS)
def test_no_addon_changes_a_call(
    spied: Spied, client: httpx.Client, upstream: Upstream, act: str, stream: bool
) -> None:
    body = {"messages": HELLO, "stream": stream}
    plain, defaced = (client.post(CHAT, json=body, headers=sent) for sent in ({}, {"x-vandal": act}))
    assert [_without_id(answer) for answer in (plain, defaced)] == [_without_id(plain)] * 2
    first, second = upstream.requests
    assert (first.headers, first.body) == (second.headers, second.body)
    rows = [spied.wait_for_row(answer.headers["x-request-id"]) for answer in (plain, defaced)]
    names = ("workspace", "status", "total_tokens", "retail_nanousd", "attempts", "error_code")
    assert [rows[0][name] for name in names] == [rows[1][name] for name in names]


def _without_id(answer: httpx.Response) -> tuple[Any, ...]:
    left_out = ("x-request-id", "date")
    fields = [field for field in answer.headers.items() if field[0] not in left_out]
    return answer.status_code, fields, re.sub(r'"created": ?\d+', "", answer.text)


def test_an_intercepted_flow_is_shown_as_resumed_and_a_killed_one_unchanged(
    spied: Spied, client: httpx.Client
) -> None:
    for act in ("intercept", "kill"):
        answer = client.post(CHAT, json={"messages": HELLO}, headers={"x-vandal": act})
        flow = spied.flow_of(answer)
        assert [seen["hook"] for seen in flow] == IN_ORDER
        assert (flow[-1]["status"], flow[-1]["error"]) == (200, None)


def test_no_secret_is_in_any_flow_or_log(spied: Spied, client: httpx.Client, upstream: Upstream) -> None:
    upstream.behave(whole(completion(f"my key is {PROVIDER_KEY}")))
    answer = client.post(CHAT, json={"messages": HELLO})
    assert spied.flow_of(answer)[-1]["answer"] == answer.text
    assert "my key is ***" in answer.text
    seen = json.dumps(spied.seen())
    assert not [one for one in (*spied.keys.values(), PROVIDER_KEY) if one in seen]
    spied.assert_no_secret_logged()


def test_calls_beyond_the_most_that_are_shown_are_served_without_a_flow(
    start_gateway: StartGateway, upstream: Upstream, tmp_path: Path
) -> None:
    few = "from addon.gateway.flows import shown_calls; shown_calls.MAX_SHOWN_AT_ONCE = 2\n"
    variables = {"FLOWS_SEEN": str(tmp_path / "seen.jsonl")}
    program = ("-c", few + MITMDUMP[1])
    spied = _start(start_gateway, tmp_path, program=program, environment=variables)
    for act in ("", "never return", "never return", "", ""):
        headers = spied.headers | {"x-vandal": act}
        answer = httpx.post(
            spied.url + CHAT, headers=headers, json={"messages": HELLO}, timeout=BOUND_S, trust_env=False
        )
        assert answer.status_code == 200
    spied.wait_for_log(lambda line: line.get("event") == "calls not shown")
    assert len(upstream.requests) == 5
    assert len({one["id"] for one in spied.seen()}) == 3
    assert spied.stop() == 0
