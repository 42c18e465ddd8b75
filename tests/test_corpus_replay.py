"""Recorded provider traffic through the running gateway, read by the official SDK.

Every recorded chat completion, whole and streamed, is answered by the fake upstream as it was recorded, in the same
pieces where they are known. A record is its own model, so that a slug that comes back wrong is seen. What a client must
see is worked out here from the recording alone. The folder of recordings is named by TOLLGATE_CORPUS.
"""

import asyncio
import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import openai
import pytest
from conftest import HELLO, StartGateway
from openai import AsyncOpenAI
from rig.configuration import PROVIDER_KEY, model
from rig.corpus import needs_corpus, read_corpus
from rig.gateway import Gateway
from rig.scripts import Received, Script, http_chunk, response_head
from rig.upstream import Upstream

pytestmark = needs_corpus

KNOWN: dict[str, str] = {}
"""Records that do not pass, and why that is accepted."""

REFUSED = {
    # A provider's own values: the contract knows three words, and an object that names a function.
    "tool_choice: Input should be 'auto', 'none' or 'required'",
    "tool_choice.type: Field required",
    "tool_choice.type: Input should be 'function'; tool_choice.function: Field required",
    # Tools without a type, which is a part of the common chat tool schema.
    *("; ".join(f"tools.{number}.type: Field required" for number in range(count)) for count in (1, 5)),
    # Requests that were recorded because they are wrong; their providers refused them too.
    "messages.0.content: Input should be a string or an array of parts",
    "messages.1.content.0.type: Field required; messages.1.content.1.type: Field required",
    "messages: At least one message is required.",
    "messages: Input should be an array",
    "temperature: Input should be a valid number",
    "max_tokens: Input should be greater than 0",
}
"""What the gateway says to recorded requests that the contract does not allow; a plain one is sent instead."""

PLAIN: Any = HELLO
PARALLEL_CALLS = 12
PIECE_BYTES = 997
COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
FRAMING = {
    "content-length",
    "transfer-encoding",
    "content-encoding",
    "connection",
    "keep-alive",
    "date",
    "trailer",
}


@dataclass
class Record:
    id: str
    provider: str
    stream: bool
    request: dict[str, Any] | None
    status: int
    headers: list[tuple[str, str]]
    body: bytes
    chunk_lens: list[int] | None

    @property
    def kind(self) -> str:
        if self.status >= 300 or self.is_error:
            return "error"
        return "stream" if self.stream else "whole"

    @property
    def is_error(self) -> bool:
        """Whether a 200 is in truth an error, or becomes one on the way."""
        payloads = self.payloads if self.stream else [self.whole]
        return any(_is_error(payload) for payload in payloads)

    @property
    def whole(self) -> Any:
        return _json(self.body)

    @property
    def payloads(self) -> list[Any]:
        """The JSON of every event up to ``[DONE]``."""
        texts = _event_texts(self.body.decode())
        return [
            _json(text.encode()) for text in texts[: texts.index("[DONE]") if "[DONE]" in texts else None]
        ]

    @property
    def usage(self) -> Any:
        """The usage block that a client sees last, or None."""
        if not self.stream:
            return self.whole.get("usage")
        return next((made["usage"] for made in reversed(self.payloads) if made.get("usage")), None)

    def script(self) -> Script:
        raw, pieces = self.body, []
        for length in self.chunk_lens or ():
            pieces.append(raw[:length])
            raw = raw[length:]
        pieces += [raw[at : at + PIECE_BYTES] for at in range(0, len(raw), PIECE_BYTES)]
        sent = [(name, value) for name, value in self.headers if name.lower() not in FRAMING]
        head = response_head(self.status, [*sent, ("Transfer-Encoding", "chunked")])
        return (head, *(http_chunk(piece) for piece in pieces if piece), b"0\r\n\r\n")

    def question(self) -> dict[str, Any]:
        asked = dict(self.request) if self.request is not None else {"messages": HELLO}
        return asked | {"model": self.id, "stream": self.stream}


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None


def _event_texts(text: str) -> list[str]:
    events = text.replace("\r\n", "\n").replace("\r", "\n").split("\n\n")
    listed = [
        [line[5:].removeprefix(" ") for line in one.split("\n") if line.startswith("data:")] for one in events
    ]
    texts = []
    for lines in filter(None, listed):
        joined = "\n".join(lines).strip()
        # Some servers leave out the blank line: then each line is an event of its own.
        apart = _json(joined.encode()) is None and all(_json(line.encode()) is not None for line in lines)
        texts += lines if apart else [joined]
    return texts


def _is_error(payload: Any) -> bool:
    return not isinstance(payload, dict) or bool(payload.get("error")) or "choices" not in payload


def load_records() -> list[Record]:
    """Every recorded chat completion, in a fixed order."""
    return [
        Record(
            made["id"],
            made["provider"],
            made["stream"],
            made["request"],
            made["status"],
            list((made["response_headers"] or {}).items()),
            (made["response_text"] or "").encode(),
            made.get("chunk_lens"),
        )
        for made in read_corpus()
    ]


# --- what a client must see ----------------------------------------------------------------------------------

CODES = {
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_denied", "permission_denied"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


def _expected_code(status: int) -> tuple[str, str]:
    other = (
        ("api_error", "upstream_error")
        if status >= 500
        else ("invalid_request_error", "invalid_request_error")
    )
    return CODES.get(status, other)


def check_error(record: Record, error: openai.APIError) -> str | None:
    """Why this is not the contract's error for the record, or None."""
    body = error.body
    if not isinstance(body, dict) or set(body) != {"message", "type", "param", "code"}:
        return f"not the contract's error object: {body!r}"
    if (
        not isinstance(body["message"], str)
        or not body["message"].strip()
        or "<html" in body["message"].lower()
    ):
        return f"not a readable message: {body['message']!r}"
    status = getattr(error, "status_code", None)
    if record.status >= 400 and status != record.status:
        return f"status {status}, recorded {record.status}"
    if status is not None and (body["type"], body["code"]) != _expected_code(status):
        return f"status {status} with {body['type']} and {body['code']}"
    if PROVIDER_KEY in str(body):
        return "bears the provider's key"
    return None


def check_whole(record: Record, answer: Any) -> str | None:
    """Why this is not the recorded completion under its slug, or None."""
    seen, recorded = answer.to_dict(warnings=False), record.whole
    if answer.model != record.id:
        return f"model {answer.model!r}"
    if seen.get("usage") != recorded.get("usage"):
        return f"usage {seen.get('usage')!r}, recorded {recorded.get('usage')!r}"
    return _difference(seen, recorded)


def _difference(seen: dict[str, Any], recorded: dict[str, Any]) -> str | None:
    for name in sorted((set(seen) | set(recorded)) - {"model"}):
        if seen.get(name) != recorded.get(name) and not (name == "choices" and _only_note(seen, recorded)):
            return f"{name} is {str(seen.get(name))[:300]}, recorded {str(recorded.get(name))[:300]}"
    return None


def _only_note(seen: dict[str, Any], recorded: dict[str, Any]) -> bool:
    """Whether the choices differ by nothing but the note that explains tokens with nothing to see."""
    without = json.loads(json.dumps(seen["choices"]))
    for choice, was in zip(without, recorded["choices"], strict=True):
        message, original = choice["message"], was["message"]
        if message == original or original.get("content") or original.get("tool_calls"):
            continue
        if not isinstance(message.get("reasoning_content"), str) or original.get("reasoning_content"):
            return False
        choice["message"] = original
    return bool(without == recorded["choices"])


def check_stream(record: Record, chunks: list[Any]) -> str | None:
    """Why these are not the recorded chunks under the slug, or None."""
    recorded = record.payloads
    if len(chunks) != len(recorded):
        return f"{len(chunks)} chunks, recorded {len(recorded)}"
    for number, (chunk, was) in enumerate(zip(chunks, recorded, strict=True)):
        seen = chunk.to_dict(warnings=False)
        if seen.get("model", record.id) != record.id or ("model" in was and "model" not in seen):
            return f"chunk {number}: model {seen.get('model')!r}"
        if problem := _difference(seen, was):
            return f"chunk {number}: {problem}"
    return None


# --- the replay ----------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    record: Record
    problem: str | None
    refused: str | None = None
    """What the gateway said to the recorded request, where it took only a plain one."""


class Replay:
    """All records, sent by ``PARALLEL_CALLS`` calls at a time over kept connections."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._places = asyncio.Semaphore(PARALLEL_CALLS)

    async def all(self, records: list[Record]) -> list[Outcome]:
        url = f"{self._gateway.url}/v1"
        async with AsyncOpenAI(
            base_url=url, api_key=self._gateway.key, max_retries=0, timeout=20
        ) as self._sdk:
            return await asyncio.gather(*(self._one(record) for record in records))

    async def _one(self, record: Record) -> Outcome:
        async with self._places:
            try:
                return Outcome(record, await self._ask(record, record.question()))
            except openai.BadRequestError as error:
                if error.code not in ("validation_failed", "bad_request"):
                    raise
                refused = error.message
            plain = {"messages": HELLO, "model": record.id, "stream": record.stream}
            return Outcome(record, await self._ask(record, plain), refused)

    async def _ask(self, record: Record, question: dict[str, Any]) -> str | None:
        chunks: list[Any] = []
        try:
            if record.stream:
                async for chunk in await self._create(question):
                    # Chunks that came before a failure must be kept, so this can't be a comprehension.
                    chunks += [chunk]
                return "no error" if record.kind == "error" else check_stream(record, chunks)
            answer = await self._create(question)
            return "no error" if record.kind == "error" else check_whole(record, answer)
        except openai.APIError as error:
            if getattr(error, "code", None) in ("validation_failed", "bad_request"):
                raise
            if record.kind != "error":
                return f"{type(error).__name__} after {len(chunks)} chunks: {error.message}"
            return check_error(record, error)

    async def _create(self, question: dict[str, Any]) -> Any:
        return await self._sdk.chat.completions.create(
            model=question["model"], messages=PLAIN, stream=question["stream"], extra_body=question
        )


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return load_records()


@pytest.fixture(scope="module")
def replay_gateway(records: list[Record], start_gateway: StartGateway) -> Gateway:
    models = {record.id: model(upstream_model_id=f"upstream-{record.id}") for record in records}
    return start_gateway(models=models | {"tester-large": model()})


@pytest.fixture(scope="module")
def outcomes(records: list[Record], replay_gateway: Gateway, upstreams: dict[str, Any]) -> list[Outcome]:
    """What became of every record. It runs once for all tests of this file."""
    by_model = {f"upstream-{record.id}": record for record in records}

    def as_recorded(request: Received) -> Script:
        return by_model[request.json()["model"]].script()

    upstream: Upstream = upstreams["TESTER"]
    upstream.reset()
    upstream.behave(as_recorded)
    found = asyncio.run(Replay(replay_gateway).all(records))
    upstream.reset()
    return found


@pytest.mark.parametrize("kind", ["whole", "stream", "error"])
def test_every_recorded_answer_comes_back_as_the_contract_says(
    outcomes: list[Outcome], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = [outcome for outcome in outcomes if outcome.record.kind == kind]
    with capsys.disabled():
        print(f"\n{_table(kind, chosen)}")
    problems = {outcome.record.id: outcome.problem for outcome in chosen if outcome.problem}
    unexpected = [f"{name}: {problem}" for name, problem in problems.items() if name not in KNOWN]
    assert not unexpected, "\n".join([f"{len(unexpected)} of {len(chosen)} do not pass", *unexpected])
    mended = {outcome.record.id for outcome in chosen} & set(KNOWN) - set(problems)
    assert not mended, f"these pass now and are no exceptions any more: {mended}"


def _table(kind: str, outcomes: list[Outcome]) -> str:
    passed: Counter[str] = Counter(outcome.record.provider for outcome in outcomes if not outcome.problem)
    total: Counter[str] = Counter(outcome.record.provider for outcome in outcomes)
    lines = [f"{provider:<24}{passed[provider]:>5} of {total[provider]}" for provider in sorted(total)]
    named = [f"  {outcome.record.id}: {outcome.problem}" for outcome in outcomes if outcome.problem]
    return "\n".join([f"{kind}: {passed.total()} of {total.total()} pass", *lines, *named])


def test_every_call_is_one_row_with_the_recorded_counts(
    outcomes: list[Outcome], replay_gateway: Gateway
) -> None:
    replay_gateway.wait_for_row(lambda row: row["model_slug"] == outcomes[-1].record.id)
    rows = defaultdict(list)
    for row in replay_gateway.ledger_rows():
        rows[row["model_slug"]].append(row)
    assert {outcome.record.id: 1 for outcome in outcomes} == {
        slug: len(found) for slug, found in rows.items()
    }
    wrong = []
    for record in (outcome.record for outcome in outcomes if outcome.record.kind != "error"):
        usage, row = record.usage, rows[record.id][0]
        counts = {name: usage[name] for name in COUNTS if name in usage} if isinstance(usage, dict) else {}
        if booked := {name: row[name] for name in counts if row[name] != counts[name]}:
            wrong.append(f"{record.id}: booked {booked}, recorded {counts}")
    assert not wrong, "\n".join(wrong)


def test_a_recorded_request_is_refused_only_where_the_contract_says_so(outcomes: list[Outcome]) -> None:
    unexpected = [
        f"{outcome.record.id}: {outcome.refused}"
        for outcome in outcomes
        if outcome.refused and not any(outcome.refused.endswith(said) for said in REFUSED)
    ]
    assert not unexpected, "\n".join(unexpected)


def test_a_recorded_error_status_is_booked(outcomes: list[Outcome], replay_gateway: Gateway) -> None:
    booked = {row["model_slug"]: row["status"] for row in replay_gateway.ledger_rows()}
    failed = [outcome.record for outcome in outcomes if outcome.record.status >= 400]
    assert failed
    assert {record.id: booked[record.id] for record in failed} == {
        record.id: record.status for record in failed
    }
