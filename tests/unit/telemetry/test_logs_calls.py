"""The log line of a call, read back as JSON."""

import asyncio
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from pydantic import SecretStr
from rig.ledger import route_fields
from rig.log_lines import Lines

from addon.telemetry.logs import configure_logging, log_call
from addon.text.masking import MASK, mask_credentials
from policies.attempt_ends import AttemptEnd
from policies.call_stages import Stage
from policies.exchange import Exchange
from policies.family import Family
from policies.model import Key, Model, Workspace
from policies.prices import Prices
from policies.provider import Provider
from policies.route import Target
from policies.trace_context import TraceContext
from policies.usage import Usage


def _call(**changes: Any) -> Exchange:
    provider = Provider("OPENAI", "https://api.example.com/v1", "openai", (SecretStr("sk-fake0000"),))
    prices = Prices(1, 1, 1)
    model = Model("fast", provider, "gpt-fast", Family("openai-chat"), prices, prices, 4096, False, True)
    key = Key("ci", "0" * 64)
    exchange = Exchange(
        "req_1",
        datetime(2026, 1, 31, tzinfo=UTC),
        100.0,
        Stage.SETTLED,
        Workspace("acme", "Acme", "standard", (key,)),
        key,
        **route_fields(Target(model, "payg", SecretStr("sk-fake0000"))),
        first_byte_s=100.25,
        status=200,
        stream=True,
        finish_reason="stop",
        usage=Usage(10, 20, 30),
    )
    return structs.replace(exchange, **changes)


class Records(logging.Handler):
    """Keeps the records that it handles."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def test_a_call_is_one_line_with_every_field(lines: Lines) -> None:
    log_call(_call(), 101.5, event="call")
    line = lines.one
    assert datetime.fromisoformat(line.pop("time")).tzinfo == UTC
    assert line == {
        "level": "info",
        "logger": "tollgate.call",
        "message": "call",
        "event": "call",
        "id": "req_1",
        "workspace": "acme",
        "key_id": "ci",
        "slug": "fast",
        "provider": "OPENAI",
        "deployment": None,
        "api": "chat",
        "mode": "payg",
        "platform_key": None,
        "decided_by": "pinned",
        "attempts": 1,
        "attempt_ends": None,
        "resends": 0,
        "fallback": False,
        "status": 200,
        "error_code": None,
        "stream": True,
        "finish_reason": "stop",
        "prompt_tokens": 10,
        "completion_tokens": 20,
        "first_byte_ms": 250,
        "duration_ms": 1500,
        "client_request_id": None,
        "trace_id": None,
        "parent_span_id": None,
        "span_id": None,
    }


def test_a_refusal_is_one_line_even_if_little_is_known_of_the_call(lines: Lines) -> None:
    stranger = Exchange(
        "req_2", datetime.now(UTC), 5.0, Stage.REFUSED, status=401, error_code="invalid_api_key"
    )
    log_call(stranger, 5.002, event="refusal")
    line = lines.one
    assert {name for name, value in line.items() if value is None} == {
        "workspace", "key_id", "slug", "provider", "deployment", "mode", "platform_key", "decided_by",
        "attempt_ends", "finish_reason",
        "prompt_tokens", "completion_tokens", "first_byte_ms", "client_request_id", "trace_id", "parent_span_id",
        "span_id",
    }  # fmt: skip
    assert (line["event"], line["status"], line["error_code"]) == ("refusal", 401, "invalid_api_key")
    assert line["duration_ms"] == 2


def test_a_call_with_several_attempts_has_each_of_them(lines: Lines) -> None:
    ends = tuple(AttemptEnd(one, "OPENAI", "OPENAI/fast", "payg", one, 503, "x", 5) for one in (1, 2))
    log_call(_call(attempts=2, attempt_ends=ends), 101.5, event="call")
    shown = {"place": "OPENAI/fast", "status": 503, "duration_ms": 5}
    assert lines.one["attempt_ends"] == [{**shown, "platform_key": one} for one in (1, 2)]


def test_the_attempts_of_a_line_that_is_too_long_are_left_out(lines: Lines) -> None:
    ends = tuple(AttemptEnd(one, "A", "A/" + "x" * 900, "payg", None, 503, "x", 5) for one in range(1, 6))
    log_call(_call(attempts=5, attempt_ends=ends), 101.5, event="call")
    assert (lines.one["attempts"], lines.one["attempt_ends"], lines.one["id"]) == (5, None, "req_1")


def test_a_call_shows_no_secret_even_if_a_provider_returned_it(lines: Lines) -> None:
    log_call(_call(finish_reason="sk-fake0000"), 101.0, event="call")
    assert "sk-fake" not in lines.getvalue()
    assert (lines.one["finish_reason"], lines.one["id"]) == (MASK, "req_1")


# The line of a call does not go through logging while no other code handles it.

WORDS = st.text(max_size=30) | st.sampled_from(["sk-fake0000", 'a "quote"', "x" * 5_000, "password: hunter2"])
COUNTS = st.none() | st.integers(0, 10**30)


@contextmanager
def only_handler(worker: int | None = None) -> Iterator[Lines]:
    """Configure logging in a process without other handlers."""
    root = logging.getLogger()
    before = root.handlers[:]
    root.handlers[:] = []
    configure_logging(stream := Lines(), worker)
    try:
        yield stream
    finally:
        root.handlers[:] = before


@given(
    finish_reason=st.none() | WORDS,
    error_code=st.none() | WORDS,
    key=st.none() | WORDS.map(lambda name: Key(name, "0" * 64)),
    status=st.none() | st.integers(100, 599),
    usage=st.builds(Usage, COUNTS, COUNTS),
    first_byte_s=st.none() | st.floats(100, 1e6),
    stream=st.booleans(),
    client_request_id=st.none() | WORDS,
    trace=st.none() | st.just(TraceContext("4b" * 16, "0f" * 8, 1)),
    worker=st.none() | st.integers(1, 99),
)
def test_the_line_of_a_call_is_the_same_with_other_handlers_and_without(
    worker: int | None, **fields: Any
) -> None:
    exchange = _call(**fields)
    with only_handler(worker) as stream:
        log_call(exchange, 101.5, event="call")
        direct = stream.getvalue()
        logging.getLogger("tollgate").addHandler(others := Records())
        log_call(exchange, 101.5, event="call")
        logging.getLogger("tollgate").removeHandler(others)
    through_logging = stream.getvalue().removeprefix(direct)
    assert direct.partition(", ")[2] == through_logging.partition(", ")[2]
    assert len(others.records) == 1
    assert len(direct) <= 4096
    line = json.loads(direct)
    assert direct == json.dumps(line) + "\n"
    if len(direct) < 4_000:
        shown = {
            name: text and mask_credentials(text) for name, text in fields.items() if isinstance(text, str)
        }
        assert line.items() >= (shown | {"status": fields["status"]}).items()


def test_the_lines_of_one_turn_of_the_loop_share_a_write_and_none_waits_longer() -> None:
    reading, writing = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)
    seen: list[int] = []

    async def serve() -> None:
        for count in (3, 1):
            for _ in range(count):
                log_call(_call(), 101.5, event="call")
            await asyncio.sleep(0)
            seen.append(os.read(reading, 8192).count(b"\n"))

    with open(writing, "w", encoding="utf-8") as stream, only_handler():
        configure_logging(stream)
        asyncio.run(serve())
    os.close(reading)
    assert seen == [3, 1]
