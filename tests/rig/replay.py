"""Recorded answers that the fake upstream plays, and the answers that a client must get."""

import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Literal
from urllib.parse import quote, unquote

from rig.configuration import PROVIDER_KEY
from rig.corpus import DIALECTS, Recorded
from rig.readers import Answer, anthropic_sdk, chat, converse, gemini_sdk, responses_sdk
from rig.readers.events import event_texts, read_json
from rig.recorded_families import family_name, shipped_families
from rig.scripts import Received, Script, http_chunk, response_head

type Cut = Literal["random", "recorded", "bytes"]
"""The pieces of an answer: random ones, the recorded ones, or single bytes."""

MAX_BYTES_CUT = 600
FRAMING = frozenset(
    ("content-length", "transfer-encoding", "content-encoding", "connection", "keep-alive", "date", "trailer")
)
ANSWERS = {
    "openai": ("choices",),
    "anthropic": ("content", "type"),
    "gemini": ("candidates", "promptFeedback", "usageMetadata"),
    "bedrock": ("output",),
    "responses": ("output", "type"),
}
"""Members that only a whole answer or an event of a stream has, unlike other bodies with status 200."""
KEY_HEADERS = {
    "openai": "authorization",
    "anthropic": "x-api-key",
    "gemini": "x-goog-api-key",
    "bedrock": "authorization",
    "responses": "authorization",
}


@dataclass(frozen=True)
class Run:
    """One recording with one kind of pieces. It is its own model, so that a wrong model in an answer is found."""

    record: Recorded
    cut: Cut = "random"

    @property
    def id(self) -> str:
        return str(self.record["id"])

    @property
    def slug(self) -> str:
        return f"{self.id}.{self.cut}"

    @property
    def upstream_model_id(self) -> str:
        return f"upstream-{self.slug}"

    @property
    def api(self) -> str:
        return str(self.record["api"])

    @property
    def dialect(self) -> str:
        return DIALECTS[self.api]

    @property
    def provider(self) -> str:
        return str(self.record["provider"])

    @property
    def family(self) -> str:
        return family_name(self.record)

    @property
    def stream(self) -> bool:
        return bool(self.record["stream"])

    @property
    def status(self) -> int:
        return int(self.record["status"])

    @property
    def kind(self) -> Literal["whole", "stream", "error"]:
        if self.dialect == "responses" and not responses_sdk.has_ended(self.payloads):
            return "error"
        if self.status >= 300 or not all(map(self._is_answer, self.payloads)) or not self.payloads:
            return "error"
        return "stream" if self.stream else "whole"

    def _is_answer(self, payload: Any) -> bool:
        if not isinstance(payload, dict) or payload.get("error"):
            return False
        return any(name in payload for name in ANSWERS[self.dialect])

    @property
    def text(self) -> str:
        return self.record["response_text"] or ""

    @cached_property
    def payloads(self) -> list[Any]:
        """The JSON of the whole answer or of each event. A stream may also be an array (Gemini without SSE)."""
        if self.stream and self.text.lstrip().startswith("["):
            elements: list[Any] = json.loads(re.sub(r",\s*\]\s*\Z", "]", self.text.strip().removesuffix(",")))
            return elements
        return list(map(read_json, event_texts(self.text))) if self.stream else [read_json(self.text)]

    @property
    def think_tags(self) -> bool:
        return bool(shipped_families()[self.family].get("think_tags"))

    @property
    def choices(self) -> int | None:
        """The number of choices in the request, if it was recorded."""
        asked = self.record["request"]
        return None if asked is None else int(asked.get("n") or 1)

    def expected_answer(self) -> Answer:
        """The answer that a client must get."""
        if self.dialect == "anthropic":
            return anthropic_sdk.read(self.text.encode(), stream=self.stream)
        if self.dialect == "gemini":
            return gemini_sdk.read(self.payloads)
        if self.dialect == "responses":
            return responses_sdk.read(self.payloads)
        if self.dialect == "bedrock":
            return converse.read(self.payloads[0])
        return chat.read(self.payloads, think_tags=self.think_tags, is_single=self.choices == 1)

    def question(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the client's body: ``asked`` for this model."""
        return {**asked, "model": self.slug, "stream": self.stream}

    def script(self) -> Script:
        """Return the script of the upstream: the recorded head, and the body in pieces."""
        headers = self.record["response_headers"] or {}
        sent = [(name, value) for name, value in headers.items() if name.lower() not in FRAMING]
        head = response_head(self.status, [*sent, ("Transfer-Encoding", "chunked")])
        return (head, *map(http_chunk, self.pieces()), b"0\r\n\r\n")

    def pieces(self) -> list[bytes]:
        body = self.text.encode()
        if self.cut == "bytes":
            return [body[at : at + 1] for at in range(len(body))]
        if self.cut == "recorded":
            return cut_at(body, list(accumulate(self.record["chunk_lens"])))
        return random_pieces(body, self.id, count=40 if self.stream else 4)


def runs_of(record: Recorded) -> Iterator[Run]:
    """Return the runs of a recording: streams also in the recorded pieces, short ones byte by byte."""
    yield (run := Run(record))
    if run.kind == "stream" and record.get("chunk_lens"):
        yield Run(record, "recorded")
    if run.kind == "stream" and len(run.text) <= MAX_BYTES_CUT:
        yield Run(record, "bytes")


def cut_at(body: bytes, places: list[int]) -> list[bytes]:
    """Return ``body``, split at these positions."""
    return [piece for a, b in pairwise([0, *places, len(body)]) if (piece := body[a:b])]


def random_pieces(body: bytes, seed: str, count: int) -> list[bytes]:
    """Return ``body`` in at least ``count`` random pieces. The seed decides the pieces."""
    dice = random.Random(seed)
    largest = max(3, 2 * len(body) // count)
    places = [0]
    while places[-1] < len(body):
        places.append(places[-1] + dice.randint(1, largest))
    return cut_at(body, places[1:-1])


class Playback:
    """The behaviour of an upstream that finds the run by the model. It checks the path and the key."""

    def __init__(self, runs: list[Run]) -> None:
        self._by_model = {run.upstream_model_id: run for run in runs}

    def __call__(self, request: Received) -> Script:
        run = self._by_model[_model_asked(request)]
        assert request.target == _target(run), request.target
        keys = {name: request.header(name) for name in KEY_HEADERS.values()}
        wanted = KEY_HEADERS[run.dialect]
        assert (keys.pop(wanted) or "").removeprefix("Bearer ") == PROVIDER_KEY
        assert not any(keys.values()), "a key in a second place"
        return run.script()


def _model_asked(request: Received) -> str:
    path = request.target.partition("?")[0]
    if path.endswith("/converse"):
        return unquote(path.split("/")[-2])
    return path.rpartition("/")[2].partition(":")[0] if ":" in path else str(request.json()["model"])


def _target(run: Run) -> str:
    if run.dialect == "openai":
        return "/v1/chat/completions"
    if run.dialect == "anthropic":
        return "/v1/messages"
    if run.dialect == "responses":
        return "/v1/responses"
    if run.dialect == "bedrock":
        return f"/v1/model/{quote(run.upstream_model_id, safe='')}/converse"
    method = "streamGenerateContent?alt=sse" if run.stream else "generateContent"
    return f"/v1/models/{run.upstream_model_id}:{method}"
