"""The log lines, read back as JSON."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig.bounds import BOUND_S
from rig.configuration import ROOT
from rig.large import large_only
from rig.log_lines import Lines

from addon.telemetry.log_format import WITHHELD, JsonFormatter
from addon.telemetry.logs import configure_logging, count_dropped_lines
from addon.text.masking import mask_credentials


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
def test_our_loggers_are_shown_from_info_and_others_from_warning(
    lines: Lines, logger: str, level: int, shown: bool
) -> None:
    # mitmproxy sets the root logger to the lowest level.
    logging.getLogger().setLevel(logging.DEBUG)
    logging.getLogger(logger).log(level, "said")
    assert [line["logger"] for line in lines.all] == ([logger] if shown else [])


def test_messages_of_libraries_are_withheld_and_those_of_operators_modules_are_not(lines: Lines) -> None:
    logging.getLogger("mitmproxy.proxy.server").warning("a-private-word")
    logging.getLogger("my_policy").warning("a plain word")
    record = logging.LogRecord("some.library", logging.WARNING, pytest.__file__, 7, "a word", None, None)
    logging.getLogger("some.library").handle(record)
    library, own, installed = lines.all
    assert (library["message"], own["message"], installed["message"]) == (WITHHELD, "a plain word", WITHHELD)
    assert installed["source"] == "__init__:7"


def test_a_stack_is_a_string_too(lines: Lines) -> None:
    logging.getLogger("tollgate").warning("here", stack_info=True)
    assert "test_a_stack_is_a_string_too" in lines.one["stack"]


def test_extra_fields_of_our_loggers_are_shown_and_masked_and_others_are_not(lines: Lines) -> None:
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
        # Most are as long as the line of a call; some are longer than a pipe takes in one piece.
        log.info("x" * (200 + 37 * nth % 500 + 5_000 * (nth % 40 == 39)), extra={"nth": nth})
        if nth % 10 == 0:
            await asyncio.sleep(0)

configure_logging(worker=int(sys.argv[1]))
asyncio.run(speak(int(sys.argv[1])))
"""


@large_only
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
    # Such a pipe returns each write separately, in pieces of at most 4096 bytes.
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
    line_read = json.loads(line)
    assert line_read.keys() >= {"time", "level", "logger", "message", "worker", *extra}
    for name, value in (extra | {"message": message}).items():
        head, cut, tail = line_read[name].partition(" … ")
        assert line_read[name] == mask_credentials(value) or (cut and head in value and tail in value)


def test_a_long_traceback_keeps_its_beginning_and_its_end(lines: Lines) -> None:
    def fail(depth: int) -> None:
        if depth == 0:
            raise RuntimeError("at the bottom of it all")
        (fail if depth % 2 else lambda less: fail(less))(depth - 1)

    try:
        fail(60)
    except RuntimeError:
        logging.getLogger("tollgate").exception("deep")
    line_read = lines.one
    assert line_read["message"] == "deep"
    assert line_read["exception"].startswith("Traceback (most recent call last):\n")
    assert " … " in line_read["exception"]
    assert line_read["exception"].endswith("RuntimeError")


def test_a_line_that_waits_is_written_at_the_exit_of_its_process() -> None:
    code = (
        "import asyncio, logging; from addon.telemetry.logs import configure_logging; configure_logging()\n"
        "async def leave():\n    logging.getLogger('tollgate').info('the last line'); raise SystemExit(3)\n"
        "asyncio.run(leave())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, cwd=ROOT, text=True, check=False
    )
    assert (ended.returncode, json.loads(ended.stderr)["message"]) == (3, "the last line")


def test_a_pipe_without_a_reader_ends_no_call() -> None:
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


def test_the_line_in_the_place_of_dropped_lines(lines: Lines) -> None:
    reading, writing = os.pipe()
    with open(reading, encoding="utf-8") as pipe, open("/dev/full", "w", encoding="utf-8") as stream:
        configure_logging(stream, worker=2)
        logging.getLogger("tollgate").warning("lost")
        while not count_dropped_lines():
            os.sched_yield()
        os.dup2(writing, stream.fileno())
        logging.getLogger("tollgate").warning("written")
        said, later = json.loads(pipe.readline()), json.loads(pipe.readline())
        configure_logging(lines)
    os.close(writing)
    assert (said["level"], said["logger"], said["worker"]) == ("warning", "tollgate", 2)
    assert (said["event"], said["lines"], later["message"]) == ("log lines dropped", 1, "written")
    assert said["message"].startswith("1 log lines before this one")


def test_the_lines_of_one_of_several_processes_have_its_number(lines: Lines) -> None:
    configure_logging(stream := Lines(), worker=3)
    logging.getLogger("tollgate").info("mine")
    logging.getLogger("mitmproxy").warning("and of others in me")
    assert [line["worker"] for line in stream.all] == [3, 3]
    assert "worker" not in json.loads(JsonFormatter().format(logging.makeLogRecord({"name": "tollgate"})))
