"""Changes that wait for their confirmation, and results that wait to be shown. Both are in memory only."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from addon.console.changes.form import RequestedChange
from addon.edits.diff import DiffLine
from addon.runtime.clock import Clock
from addon.settings.settings import Settings

MAX_WAITING: Final = 100
"""How many changes and results are kept. The oldest go first."""
KEPT_S: Final = 900.0
"""How long a change waits for its confirmation, and a result to be read again."""
SECRET_S: Final = 60.0
"""How long a new key is in memory, if it is not shown before."""


@dataclass(frozen=True, slots=True)
class Preview:
    """The content of the page that shows a change."""

    summary: str
    lines: Sequence[DiffLine]
    warnings: Sequence[str]
    notes: Sequence[str]


@dataclass(slots=True, eq=False)
class PendingChange:
    """A change that was shown, as ``preview``, of a file with this ``digest``.

    ``making`` is its way from the first confirmation on. ``fault`` is why that could not be made now: it can be
    confirmed again. ``unanswered`` is the result of an attempt of which is not known whether the ledger has it.
    """

    asked: RequestedChange
    digest: str
    preview: Preview
    making: "asyncio.Task[str] | None" = None
    fault: str = ""
    unanswered: "Result | None" = field(default=None, repr=False)

    @property
    def result(self) -> str | None:
        """The name of the result, None while the change is not made."""
        making = self.making
        if making is None or not making.done() or making.cancelled() or making.exception():
            return None
        return making.result()


@dataclass(slots=True, eq=False)
class Result:
    """The result of a change. ``new_key`` is shown once.

    ``is_in_force`` returns whether settings have the change; None for one that is no file's.
    """

    action: str
    title: str
    workspace: str
    summary: str
    lines: Sequence[str]
    key_id: str | None = None
    is_made: bool = True
    makes_key: bool = False
    new_key: str | None = field(default=None, repr=False)
    is_in_force: Callable[[Settings], bool] | None = field(default=None, repr=False)

    def take_key(self) -> str | None:
        """Return the new key, the first time only."""
        key, self.new_key = self.new_key, None
        return key


class ExpiringValues[T]:
    """Values by a random name, for a bounded time. Each is for one session only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._values: dict[str, tuple[float, str, T]] = {}

    def put(self, value: T, session: str) -> str:
        """Keep a value for a session, and return its name."""
        self._drop_old()
        while len(self._values) >= MAX_WAITING:
            del self._values[next(iter(self._values))]
        name = secrets.token_urlsafe(24)
        self._values[name] = (self._clock.monotonic_s(), session, value)
        return name

    def get(self, name: str, session: str) -> T | None:
        """Return the value of a name, None when it is not kept any more, or is not for this session."""
        self._drop_old()
        _, owner, value = self._values.get(name, (0, None, None))
        return value if owner == session else None

    def drop(self, session: str) -> None:
        """Forget all values of a session."""
        self._values = {name: one for name, one in self._values.items() if one[1] != session}

    def _drop_old(self) -> None:
        until_s = self._clock.monotonic_s() - KEPT_S
        for name in [name for name, (since_s, _, _) in self._values.items() if since_s < until_s]:
            del self._values[name]
