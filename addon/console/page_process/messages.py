"""The messages between a gateway and its process of pages, and how they are written to a pipe.

| kind | direction | is |
|---|---|---|
| ``SETTINGS`` | to the process | a ``Snapshot`` as JSON: the settings of the questions after it |
| ``QUESTION`` | to the process | a ``Question`` |
| ``LEFT`` | to the process | the number of a question whose answer no one needs any more |
| ``READY`` | to the gateway | the version of the code of the process, which is ready |
| ``ANSWER`` | to the gateway | an ``Answer``, and its body |

A message is a head of fixed size, its JSON and its body.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from addon.console.sources import Live
from addon.telemetry.admin import Readiness
from addon.telemetry.metric_families import Sample

SETTINGS: Final = b"S"
QUESTION: Final = b"Q"
LEFT: Final = b"L"
READY: Final = b"R"
ANSWER: Final = b"A"

SLOW: Final = "The page took too long. Choose a shorter time."
"""The message of a page that is not there in time."""

HEAD: Final = struct.Struct(">cII")
"""The kind, the size of the JSON and the size of the body."""


def pack(kind: bytes, content: str = "", body: bytes = b"") -> bytes:
    """Return a message as bytes."""
    encoded = content.encode()
    return HEAD.pack(kind, len(encoded), len(body)) + encoded + body


@dataclass(frozen=True, slots=True)
class Question:
    """A page that someone asks for. ``number`` is that of its answer.

    ``arguments`` are the parameters of its URL, ``form`` the fields that were posted; None when none were. The rest is
    for its ``Frame``, and ``live`` for its ``Reading``.
    """

    number: int
    path: str
    arguments: Mapping[str, Sequence[str]]
    form: Mapping[str, str] | None
    form_token: str
    is_logged_in: bool
    edit_obstacle: str | None
    asked_at: datetime
    live: Live

    def pack(self) -> bytes:
        """Return the message. A form may have text that is no valid Unicode, which JSON escapes."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return pack(
            QUESTION, json.dumps({**fields, "asked_at": self.asked_at.isoformat(), "live": self._live})
        )

    @property
    def _live(self) -> Mapping[str, Any]:
        """The state of the gateway as values of JSON."""
        live = self.live
        gauges = {
            name: [(dict(one.labels), one.value) for one in samples] for name, samples in live.gauges.items()
        }
        files = {str(file): at and at.isoformat() for file, at in live.files.items()}
        readiness = live.readiness.ready, dict(live.readiness.checks)
        return {
            "readiness": readiness,
            "gauges": gauges,
            "file_fault": live.file_fault,
            "settings_age_s": live.settings_age_s,
            "files": files,
        }

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Return what ``pack`` has packed."""
        fields: dict[str, Any] = json.loads(content)
        live = fields["live"]
        live["readiness"] = Readiness(*live["readiness"])
        live["gauges"] = {
            name: [Sample(labels, value) for labels, value in samples]
            for name, samples in live["gauges"].items()
        }
        live["files"] = {Path(file): at and datetime.fromisoformat(at) for file, at in live["files"].items()}
        fields["asked_at"] = datetime.fromisoformat(fields["asked_at"])
        return cls(**{**fields, "live": Live(**live)})


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the question with this ``number``.

    ``message`` is set instead of a ``body`` when there is no page: one sentence for people. ``fault`` is for the log.
    """

    number: int
    status: int
    content_type: str = ""
    body: bytes = b""
    message: str | None = None
    fault: str | None = None

    def pack(self) -> bytes:
        """Return the message."""
        fields = {name: getattr(self, name) for name in self.__slots__ if name != "body"}
        return pack(ANSWER, json.dumps(fields), self.body)

    @classmethod
    def parse(cls, content: bytes, body: bytes) -> Self:
        """Return what ``pack`` has packed."""
        return cls(**json.loads(content), body=body)
