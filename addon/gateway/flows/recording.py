"""The copy of one call's request and answer that is shown, bounded and without credentials. Pure."""

from collections.abc import Iterable

from addon.text.http_heads import CREDENTIAL_FIELDS, Field, RequestHead, ResponseHead
from addon.text.masking import MASK, mask_credentials

MAX_BODY_BYTES = 1 << 20
"""The most that is kept of each request and of each answer."""
MAX_BYTES_IN_MEMORY = 64 << 20
"""The most that is kept of all calls in flight of a process."""

_SCHEMES = ("bearer ", "basic ")


class RecordingBudget:
    """The number of bytes that all recordings of a process hold."""

    def __init__(self, max_bytes: int = MAX_BYTES_IN_MEMORY) -> None:
        self.bytes = 0
        self._max_bytes = max_bytes

    def take(self, count: int) -> int:
        """Return how many of ``count`` bytes may be kept."""
        granted = max(0, min(count, self._max_bytes - self.bytes))
        self.bytes += granted
        return granted

    def give_back(self, count: int) -> None:
        """Free ``count`` bytes."""
        self.bytes -= count


class RecordedBody:
    """The beginning of one body. ``is_cut`` is true when the body is longer."""

    def __init__(self, budget: RecordingBudget, max_bytes: int = MAX_BODY_BYTES) -> None:
        self.is_cut = False
        self._kept = bytearray()
        self._budget = budget
        self._max_bytes = max_bytes

    def add(self, piece: bytes) -> None:
        """Keep as much of ``piece`` as there is room for."""
        if self.is_cut or not piece:
            return
        granted = self._budget.take(min(len(piece), self._max_bytes - len(self._kept)))
        self._kept += piece[:granted]
        self.is_cut = granted < len(piece)

    def content(self) -> bytes:
        """Return what was kept, as a copy."""
        return bytes(self._kept)

    def forget(self) -> None:
        """Free the share of the budget, and keep nothing more."""
        self.is_cut = True
        self._budget.give_back(len(self._kept))
        self._kept = bytearray()


class Recording:
    """One request and its answer so far. ``is_request_whole`` is true once its body was read to the end."""

    def __init__(self, head: RequestHead, budget: RecordingBudget) -> None:
        self.head = head
        self.request_body = RecordedBody(budget)
        self.is_request_whole = False
        self.answer: ResponseHead | None = None
        self.answer_body = RecordedBody(budget)
        self.is_answer_whole = False

    def notes(self) -> list[str]:
        """Return what the flow does not show of the call."""
        notes = []
        if self.head.method == "POST" and not self.is_request_whole:
            notes.append("request body not read to its end")
        if self.request_body.is_cut:
            notes.append("request body cut off here")
        if self.answer_body.is_cut:
            notes.append("response body cut off here")
        return notes

    def forget(self) -> None:
        """Free the memory of both bodies."""
        self.request_body.forget()
        self.answer_body.forget()


def shown_fields(fields: Iterable[Field]) -> list[Field]:
    """Return the fields of a client's head without a credential."""
    return [(name, _shown_value(name, value)) for name, value in fields]


def _shown_value(name: str, value: str) -> str:
    if name not in CREDENTIAL_FIELDS:
        return mask_credentials(value)
    scheme = next((value[: len(one)] for one in _SCHEMES if value.lower().startswith(one)), "")
    return scheme + MASK


def shown_target(target: str) -> str:
    """Return the target of a request without a credential in its query."""
    return mask_credentials(target)
