"""Recorded answers of each dialect as a chat client gets them. Those of other APIs are compared with them."""

import json
from typing import Any

import pytest

from addon.answers.context import AnswerContext
from addon.answers.reader import AnswerReader
from addon.dialects import DIALECTS
from policies.family import Family
from rig.corpus import DIALECTS as SHAPES
from rig.corpus import FOLDER, needs_corpus, recorded_files
from rig.large import sized
from rig.readers import Answer, chat
from rig.readers.events import event_texts

SAMPLE = sized(15, 1)
"""One recording of so many, the first of each file among them."""
_ASKED = AnswerContext("house/slug", Family("plain"), choices=1)
each_file = pytest.mark.parametrize(
    "name", recorded_files(*SHAPES) if FOLDER else [pytest.param("", marks=needs_corpus, id="no-recordings")]
)


def open_reader(record: dict[str, Any]) -> AnswerReader:
    """Return the dialect's reader of a recorded answer."""
    dialect = DIALECTS[SHAPES[record["api"]]]
    return dialect.stream(_ASKED) if record["stream"] else dialect.whole(_ASKED, 1 << 26)


def relay(reader: AnswerReader, text: str, size: int = 700) -> bytes:
    """Return all that a reader relays of an answer that comes in pieces of ``size`` bytes."""
    body = text.encode()
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join([*map(reader.feed, pieces), reader.finish()])


def read_chat(record: dict[str, Any]) -> Answer | None:
    """Return what a chat client gets; None for an answer that fails, or has several choices."""
    reader = open_reader(record)
    out = relay(reader, record["response_text"]).decode()
    if reader.failure:
        return None
    payloads = [json.loads(one) for one in (event_texts(out) if record["stream"] else [out])]
    found = chat.read(payloads, think_tags=False)
    return Answer(found.choices, None) if set(found.choices) == {0} else None
