"""One text of an item in a stream: of a message, or of reasoning. Pure."""

from typing import Any, Final

from msgspec import Struct

from addon.apis.responses.events import DeltaEvents, EventLog


class _Form(Struct, frozen=True):
    """The words of one kind of part: of its own events, of its text's events, of its text and of its index."""

    part: str
    text: str
    member: str
    index: str


_CONTENT: Final = "response.content_part"
_FORMS: Final = {
    "output_text": _Form(_CONTENT, "response.output_text", "text", "content_index"),
    "refusal": _Form(_CONTENT, "response.refusal", "refusal", "content_index"),
    "reasoning_text": _Form(_CONTENT, "response.reasoning_text", "text", "content_index"),
    "summary_text": _Form(
        "response.reasoning_summary_part", "response.reasoning_summary_text", "text", "summary_index"
    ),
}


class TextPart:
    """An open part. ``kind`` is its type; ``value`` is the whole part once it is closed."""

    def __init__(self, log: EventLog, kind: str, item_id: str, output_index: int, index: int) -> None:
        self.kind = kind
        self.value: dict[str, Any] = {}
        self._log, self._form = log, _FORMS[kind]
        self._place = {"item_id": item_id, "output_index": output_index, self._form.index: index}
        self._pieces: list[str] = []
        self._annotations: list[dict[str, Any]] = []
        self._logprobs: list[dict[str, Any]] = []
        logprobs: dict[str, Any] = {"logprobs": []} if kind == "output_text" else {}
        self._deltas = DeltaEvents(log, f"{self._form.text}.delta", **self._place, **logprobs)

    def open(self) -> bytes:
        """Return the event that begins the part."""
        return self._log.add(f"{self._form.part}.added", **self._place, part=self._part(""))

    def add(self, text: str) -> bytes:
        """Return the event of the next piece of the text, which is not empty."""
        self._pieces.append(text)
        return self._deltas.add(text)

    def add_with_logprobs(self, text: str, logprobs: list[dict[str, Any]]) -> bytes:
        """Do as ``add``, with the log-probabilities of the piece."""
        self._pieces.append(text)
        self._logprobs += logprobs
        shown = [_without_bytes(one) for one in logprobs]
        return self._log.add(f"{self._form.text}.delta", **self._place, delta=text, logprobs=shown)

    def annotate(self, annotation: dict[str, Any]) -> bytes:
        """Return the event of an annotation of the text so far."""
        number = len(self._annotations)
        self._annotations.append(annotation)
        kind = f"{self._form.text}.annotation.added"
        return self._log.add(kind, **self._place, annotation=annotation, annotation_index=number)

    def close(self) -> bytes:
        """Return the events that end the part."""
        text = "".join(self._pieces)
        self.value = self._part(text)
        whole: dict[str, Any] = {self._form.member: text}
        if self.kind == "output_text":
            whole["logprobs"] = [_without_bytes(one) for one in self._logprobs]
        done = self._log.add(f"{self._form.text}.done", **self._place, **whole)
        return done + self._log.add(f"{self._form.part}.done", **self._place, part=self.value)

    def _part(self, text: str) -> dict[str, Any]:
        made: dict[str, Any] = {"type": self.kind}
        if self.kind == "output_text":
            made |= {"annotations": list(self._annotations), "logprobs": list(self._logprobs)}
        return {**made, self._form.member: text}


def _without_bytes(logprob: dict[str, Any]) -> dict[str, Any]:
    """Return a log-probability as the events of a text have it."""
    kept = {name: value for name, value in logprob.items() if name != "bytes"}
    return {**kept, "top_logprobs": [_plain(one) for one in kept["top_logprobs"]]}


def _plain(logprob: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in logprob.items() if name != "bytes"}
