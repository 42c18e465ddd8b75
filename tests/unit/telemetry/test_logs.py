"""The log lines, and the mask that no credential gets past."""

import asyncio
import errno
import io
import json
import logging
import os
import string
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from rig.bounds import BOUND_S
from rig.configuration import ROOT

from addon.telemetry.logs import WITHHELD, JsonFormatter, configure_logging, log_call, log_refusal
from addon.text.masking import MASK, mask_credentials
from policies.exchange import Exchange, Stage
from policies.family import Family
from policies.model import Attempt, Key, Model, Prices, Provider, Route, Usage, Workspace

BASE62 = "0Aa1Bb2Cc3Dd4Ee5Ff6Gg7Hh8Ii9Jj0Kk1Ll2Mm3Nn"[:40]

MASKED: list[tuple[str, str]] = [
    # what issuers put in front of their keys
    ("sk-fake0000", "***"),
    ("sk-proj-FAKE_0000-0000", "***"),
    ("sk-ant-api03-FAKE0000", "***"),
    ("sk_live_FAKE0000", "***"),
    (f"tg_{BASE62}", "***"),
    ("gsk_FAKE0000", "***"),
    ("xai-FAKE0000", "***"),
    ("AIzaSyFAKE_0000-0000", "***"),
    ("AQ.Ab8FAKE0000_0000", "***"),
    ("pplx-" + "FAKE0000" * 5, "***"),
    ("hf_" + "FAKEfake" * 4, "***"),
    ("nvapi-" + "FAKE0000" * 5, "***"),
    ("AKIA" + "FAKE0000" * 2, "***"),
    ("eyJGQUtF.eyJGQUtFGQUtF.FAKE-sig_0000", "***"),
    ("a key sk-fake0000, and more", "a key ***, and more"),
    ("(sk-fake0000)", "(***)"),
    ('"sk-fake0000"', '"***"'),
    ("keysk-fake0000=sk-fake0001", "keysk-fake0000=***"),
    # fragments, as vendors repeat them
    ("Incorrect API key provided: sk-12345.", "Incorrect API key provided: ***."),
    ("Incorrect API key provided: sk-proj-abc***xyz. You", "Incorrect API key provided: ***. You"),
    ("Incorrect API key provided: sk-abc...wxyz.", "Incorrect API key provided: ***."),
    ("Incorrect API key provided: sk-abc…wxyz.", "Incorrect API key provided: ***."),
    ("Incorrect API key provided: in***ey. You", "Incorrect API key provided: ***. You"),
    ("Incorrect API key provided: dummy-op********-key. See", "Incorrect API key provided: ***. See"),
    ("Incorrect API key provided: DEADBEEF. See", "Incorrect API key provided: ***. See"),
    ("Incorrect API key provided: sk - pro****1234. See", "Incorrect API key provided: *** - ***. See"),
    ("the key ••••••1234 has expired", "the key *** has expired"),
    ("the key ****1234 has expired", "the key *** has expired"),
    ("Invalid API key: key1234", "Invalid API key: ***"),
    ("Invalid API key: AIzv00FAKE-5OglFAKE", "Invalid API key: ***"),
    ("the token ya29.c0FAKEfake-0_x is unknown", "the token *** is unknown"),
    # headers, in the forms in which programs show them
    ("Bearer FAKE0000", "Bearer ***"),
    ("bearer fakefakefakefakefake", "bearer ***"),
    ("Bearer FAKE/00+0~.x==", "Bearer ***"),
    ("Authorization: Bearer hunter", "Authorization: Bearer ***"),
    ("authorization: Basic ZmFrZTpmYWtl=", "authorization: Basic ***"),
    ("Authorization: hunter", "Authorization: ***"),
    ("Authorization: hunter2 is wrong", "Authorization: *** is wrong"),
    ("Authorization: token hunter is wrong", "Authorization: token *** is wrong"),
    ("{'Authorization': 'Bearer hunter'}", "{'Authorization': 'Bearer ***'}"),
    ("(b'authorization', b'Bearer hunter')", "(b'authorization', b'Bearer ***')"),
    ("x-api-key: fake-0000", "x-api-key: ***"),
    ("x-goog-api-key: fake-0000", "x-goog-api-key: ***"),
    # named values
    ("api_key='fake-0000'", "api_key='***'"),
    ('{"api_key": "fake0000"}', '{"api_key": "***"}'),
    ("password=hunter2", "password=***"),
    ("secret: hunter2", "secret: ***"),
    ("access_token=fake0000", "access_token=***"),
    # URLs
    ("https://host/v1beta/models?key=fake&alt=sse", "https://host/v1beta/models?key=***&alt=sse"),
    ("https://host/?a=b&api_key=fake", "https://host/?a=b&api_key=***"),
    ("redis://:hunter@cache:6379/0", "redis://***@cache:6379/0"),
    ("https://user:hunter@host/", "https://***@host/"),
    # a private key
    ("-----BEGIN PRIVATE KEY-----\nRkFL\nRQ==\n-----END PRIVATE KEY-----\n", "***\n"),
    ("-----BEGIN RSA PRIVATE KEY-----\\nRkFLRQ==", "***"),
]

LEFT_ALONE = [
    "",
    "The model `gpt-4o-mini` does not exist or you do not have access to it.",
    "Rate limit reached for gpt-4o in organization org-fake on tokens per min: Limit 30000, Used 29000.",
    "The Authorization header must be of the form Bearer.",
    "Authorization: Bearer <API_KEY>",
    "Send a Bearer token with each request.",
    "Incorrect API key provided: <YOUR_KEY>.",
    "You can find your API key at https://platform.openai.com/account/api-keys.",
    "headers.authorization: must not be set here: a secret belongs in platform_key",
    "Missing API key: set it in the Authorization header.",
    "max_tokens: must be at most 4096",
    "prompt_tokens=12 completion_tokens=30",
    "**Note** a * b ** c *** d",
    "risk-free task-force at the desk-42",
    "deepseek-chat, xai-org/grok-1, pplx-7b-online, hf_hub_download",
    "api_key=settings.key",
    "GET https://example.com:8080/v1/models?limit=3 (see mail@example.com)",
    "req_0123456789abcdef01234567",
    "chatcmpl-0123456789abcdef",
    "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "-----BEGIN CERTIFICATE-----",
]


@pytest.mark.parametrize(("text", "masked"), MASKED)
def test_what_looks_like_a_credential_is_masked(text: str, masked: str) -> None:
    assert mask_credentials(text) == masked


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_ordinary_prose_is_left_alone(text: str) -> None:
    assert mask_credentials(text) == text


# The last one has no end, so it takes all that follows with it.
@pytest.mark.parametrize(("text", "masked"), MASKED[:-1])
def test_a_credential_is_masked_amid_other_lines(text: str, masked: str) -> None:
    assert mask_credentials(f"before\n{text}\nafter") == f"before\n{masked}\nafter"


@pytest.mark.parametrize("prefix", ["tg_", "sk-", "sk-proj-", "gsk_", "xai-", "AIza", "Bearer "])
@given(
    body=st.text(alphabet=string.ascii_letters + string.digits + "_-", min_size=32, max_size=48),
    around=st.tuples(st.text(max_size=10), st.text(max_size=10)),
)
@settings(max_examples=40)
def test_no_key_survives_whatever_stands_around_it(prefix: str, body: str, around: tuple[str, str]) -> None:
    before, after = around
    assert body not in mask_credentials(f"{before} {prefix}{body} {after}")


@pytest.mark.parametrize(
    "repeated",
    ["a", "*", "a*", "-*", "…", ".", "sk-", "sk-.", "bearer ", "bearer a.", "authorization: bearer ", "api key: ",
     "key=a.", "?key=", "://", "://a:", "secret='", "eyJ", "-----BEGIN PRIVATE KEY-----", "tg_a-*"],
)  # fmt: skip
def test_hostile_text_of_a_million_characters_is_masked_at_once(repeated: str) -> None:
    # A pattern that is not linear would take hours here, not seconds.
    text = repeated * (1_000_000 // len(repeated))
    assert len(mask_credentials(text + " sk-fake0000 key*** bearer 1 authorization: a ://")) > 0


# Log lines.


class Lines(io.StringIO):
    """A stream that reads back as JSON lines."""

    @property
    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]

    @property
    def one(self) -> dict[str, Any]:
        (line,) = self.all
        return line


@pytest.fixture
def lines() -> Iterator[Lines]:
    root = logging.getLogger()
    names = ("tollgate", "mitmproxy", "asyncio", "tornado", "hpack")
    before = root.handlers[:], root.level, {name: logging.getLogger(name).level for name in names}
    stream = Lines()
    configure_logging(stream)
    yield stream
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    for name, level in before[2].items():
        logging.getLogger(name).setLevel(level)


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
        route=Route((Attempt(model, "payg", SecretStr("sk-fake0000")),), "pinned"),
        attempts=1,
        first_byte_s=100.25,
        status=200,
        stream=True,
        finish_reason="stop",
        usage=Usage(10, 20, 30),
    )
    return exchange.note(**changes)


def test_a_call_is_one_line_with_every_field(lines: Lines) -> None:
    log_call(_call(), 101.5)
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
        "mode": "payg",
        "decided_by": "pinned",
        "attempts": 1,
        "fallback": False,
        "status": 200,
        "error_code": None,
        "stream": True,
        "finish_reason": "stop",
        "prompt_tokens": 10,
        "completion_tokens": 20,
        "first_byte_ms": 250,
        "duration_ms": 1500,
    }


def test_a_refusal_is_one_line_whatever_is_known_of_the_call(lines: Lines) -> None:
    stranger = Exchange(
        "req_2", datetime.now(UTC), 5.0, Stage.REFUSED, status=401, error_code="invalid_api_key"
    )
    log_refusal(stranger, 5.002)
    line = lines.one
    assert {name for name, value in line.items() if value is None} == {
        "workspace", "key_id", "slug", "provider", "mode", "decided_by", "finish_reason", "prompt_tokens",
        "completion_tokens", "first_byte_ms",
    }  # fmt: skip
    assert (line["event"], line["status"], line["error_code"]) == ("refusal", 401, "invalid_api_key")
    assert line["duration_ms"] == 2


def test_a_call_shows_no_secret_even_where_a_provider_returned_it(lines: Lines) -> None:
    log_call(_call(finish_reason="sk-fake0000"), 101.0)
    assert "sk-fake" not in lines.getvalue()
    assert (lines.one["finish_reason"], lines.one["id"]) == (MASK, "req_1")


@pytest.mark.parametrize(
    ("logger", "level", "shown"),
    [
        ("tollgate.gateway", logging.INFO, True),
        ("tollgate", logging.INFO, True),
        ("tollgate.gateway", logging.DEBUG, False),
        ("tollgatekeeper", logging.INFO, False),
        ("mitmproxy.proxy.server", logging.INFO, False),
        ("mitmproxy.proxy.server", logging.WARNING, True),
        ("tornado.access", logging.INFO, False),
        ("asyncio", logging.ERROR, True),
        ("some.library", logging.INFO, False),
        ("some.library", logging.WARNING, True),
    ],
)
def test_ours_are_shown_from_info_and_others_from_warning(
    lines: Lines, logger: str, level: int, shown: bool
) -> None:
    # mitmproxy opens the root logger for everything.
    logging.getLogger().setLevel(logging.DEBUG)
    logging.getLogger(logger).log(level, "said")
    assert [line["logger"] for line in lines.all] == ([logger] if shown else [])


def test_a_traceback_is_one_string_on_the_same_line_without_any_word_of_an_exception(lines: Lines) -> None:
    said = "a-private-word"
    try:
        try:
            raise KeyError(said)
        except KeyError as error:
            raise RuntimeError(f"Incorrect API key provided: {said}") from error
    except RuntimeError:
        logging.getLogger("tollgate.gateway").exception("failed with %s", "Bearer fake0000")
    line = lines.one
    assert (line["level"], line["message"]) == ("error", "failed with Bearer ***")
    assert line["exception"].startswith("Traceback (most recent call last):\n")
    assert "KeyError\n\nThe above exception led to:" in line["exception"]
    assert line["exception"].endswith("\nRuntimeError")
    assert said not in json.dumps(line)


def test_what_the_system_says_of_a_fault_is_told(lines: Lines) -> None:
    try:
        raise OSError(errno.ENOSPC, "whatever", "/a-private-word")
    except OSError:
        logging.getLogger("tollgate").exception("failed")
    assert lines.one["exception"].endswith("\nOSError: No space left on device")


def test_what_a_library_says_is_withheld_and_what_an_operators_module_says_is_not(lines: Lines) -> None:
    logging.getLogger("mitmproxy.proxy.server").warning("a-private-word")
    logging.getLogger("my_policy").warning("told")
    record = logging.LogRecord("some.library", logging.WARNING, pytest.__file__, 7, "a word", None, None)
    logging.getLogger("some.library").handle(record)
    library, own, installed = lines.all
    assert (library["message"], own["message"], installed["message"]) == (WITHHELD, "told", WITHHELD)
    assert installed["source"] == "__init__:7"


def test_a_stack_is_a_string_too(lines: Lines) -> None:
    logging.getLogger("tollgate").warning("here", stack_info=True)
    assert "test_a_stack_is_a_string_too" in lines.one["stack"]


def test_extra_fields_of_ours_are_shown_and_masked_and_those_of_others_are_not(lines: Lines) -> None:
    url = "http://user:hunter@127.0.0.1:1"
    nested = MappingProxyType({"key": "sk-fake0000"})
    extra = {"event": "listening", "url": url, "nested": nested, "level": "shout"}
    logging.getLogger("tollgate.x").info("hello", extra=extra)
    logging.getLogger("mitmproxy.x").warning("hello", extra={"client": "127.0.0.1"})
    ours, others = lines.all
    assert (ours["event"], ours["url"], ours["level"]) == ("listening", "http://***@127.0.0.1:1", "info")
    assert ours["nested"] == "{'key': '***'}"
    assert set(others) == {"time", "level", "logger", "message", "source"}


@pytest.mark.parametrize(
    "text", ["two\nlines", 'a "quote"', "naïve 日本", "\ud800", "\x00\x1b[31m", "\u2028"]
)
def test_any_text_is_one_line_of_ascii_that_reads_back(text: str) -> None:
    line = JsonFormatter().format(logging.LogRecord("tollgate", logging.INFO, "", 0, "%s", (text,), None))
    assert json.loads(line)["message"] == text
    assert line.isascii()
    assert len(line.splitlines()) == 1


def test_arguments_that_do_not_fit_are_not_printed() -> None:
    record = logging.LogRecord("tollgate", logging.INFO, "", 0, "%d and %s", ("a-private-word",), None)
    line = JsonFormatter().format(record)
    assert json.loads(line)["message"].startswith("%d and %s")
    assert "a-private-word" not in line


def test_configuring_twice_does_not_log_twice(lines: Lines) -> None:
    configure_logging(later := Lines())
    logging.getLogger("tollgate").info("once")
    assert (lines.all, later.one["message"]) == ([], "once")


def test_logs_go_to_stderr_by_default(lines: Lines, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging()
    logging.getLogger("tollgate").info("seen")
    captured = capsys.readouterr()
    assert (json.loads(captured.err)["message"], captured.out) == ("seen", "")


# One stderr for several processes.

SPEAKER = """
import asyncio, logging, sys
from addon.telemetry.logs import configure_logging

async def speak(number):
    log = logging.getLogger("tollgate.speaker")
    for nth in range(1_500):
        # Mostly as long as a call's line; some longer than what a pipe takes in one piece.
        log.info("x" * (200 + 37 * nth % 500 + 5_000 * (nth % 40 == 39)), extra={"nth": nth})
        if nth % 10 == 0:
            await asyncio.sleep(0)

configure_logging(worker=int(sys.argv[1]))
asyncio.run(speak(int(sys.argv[1])))
"""


def test_lines_of_four_processes_into_one_pipe_stay_whole_and_in_their_order() -> None:
    reading, writing = os.pipe()
    speakers = [
        subprocess.Popen([sys.executable, "-c", SPEAKER, str(number)], stderr=writing, cwd=ROOT)
        for number in range(1, 5)
    ]
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        said = [json.loads(line) for line in pipe]
    assert [speaker.wait(BOUND_S) for speaker in speakers] == [0] * 4
    for number in range(1, 5):
        assert [line["nth"] for line in said if line["worker"] == number] == list(range(1_500))


def test_lines_share_a_write_as_long_as_a_pipe_takes_it_whole(lines: Lines) -> None:
    # Such a pipe gives back each write by itself, in pieces of at most 4096 bytes.
    reading, writing = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)

    async def speak() -> None:
        for length in (1_000, 1_000, 3_000, 6_000, 10, 10):
            logging.getLogger("tollgate").info("x" * length)

    with open(writing, "w", encoding="utf-8") as stream:
        configure_logging(stream)
        asyncio.run(speak())
        configure_logging(lines)
    pieces = list(iter(lambda: os.read(reading, 8192), b""))
    os.close(reading)
    assert [piece.count(b"\n") for piece in pieces] == [2, 1, 1, 2]


@given(
    message=st.text(max_size=20) | st.text(min_size=3_900, max_size=9_000),
    extra=st.dictionaries(st.sampled_from("abcdefgh"), st.text(max_size=3_000)),
)
@settings(max_examples=60)
def test_no_line_is_longer_than_a_pipe_takes_whole(message: str, extra: dict[str, str]) -> None:
    record = logging.makeLogRecord({"name": "tollgate", "msg": "%s", "args": (message,), **extra})
    line = JsonFormatter(worker=1).format(record)
    assert len(line.encode()) < 4096
    told = json.loads(line)
    assert told.keys() >= {"time", "level", "logger", "message", "worker", *extra}
    for name, value in (extra | {"message": message}).items():
        head, cut, tail = told[name].partition(" … ")
        assert told[name] == mask_credentials(value) or (cut and head in value and tail in value)


def test_a_long_traceback_keeps_its_beginning_and_its_end(lines: Lines) -> None:
    def fail(depth: int) -> None:
        if depth == 0:
            raise RuntimeError("at the bottom of it all")
        (fail if depth % 2 else lambda less: fail(less))(depth - 1)

    try:
        fail(60)
    except RuntimeError:
        logging.getLogger("tollgate").exception("deep")
    told = lines.one
    assert told["message"] == "deep"
    assert told["exception"].startswith("Traceback (most recent call last):\n")
    assert " … " in told["exception"]
    assert told["exception"].endswith("RuntimeError")


def test_a_pipe_that_nobody_reads_any_more_ends_no_call() -> None:
    code = (
        "import logging; from addon.telemetry.logs import configure_logging; configure_logging()\n"
        "for _ in range(3): logging.getLogger('tollgate').warning('unheard')\n"
        "print('still here')"
    )
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing) as stderr:
        ended = subprocess.run(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=ROOT,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stdout) == (0, "still here\n")


def test_the_lines_of_one_of_several_processes_bear_its_number(lines: Lines) -> None:
    configure_logging(stream := Lines(), worker=3)
    logging.getLogger("tollgate").info("mine")
    logging.getLogger("mitmproxy").warning("and of others in me")
    assert [line["worker"] for line in stream.all] == [3, 3]
    assert "worker" not in json.loads(JsonFormatter().format(logging.makeLogRecord({"name": "tollgate"})))
