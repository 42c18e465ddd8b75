"""The light load generator of the benchmark counts what its Python one counts."""

import shutil
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from benchmarks.light import answers_of, probed_length, tools
from benchmarks.processes import upstream
from benchmarks.traffic import Scenario, Target

CALLS = Scenario("whole", connections=4, calls=50)
needs_a_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


def test_its_output_is_the_time_the_errors_and_each_latency():
    answers = answers_of("1.500000 2\n0.2500\n0.7500\n")

    assert (answers.elapsed_s, answers.errors, answers.latencies_ms) == (1.5, 2, [0.25, 0.75])


@needs_a_compiler
def test_each_call_gets_an_answer_and_a_latency(tmp_path: Path):
    with tools(tmp_path) as light:
        answers = light.load.run(light.alone, CALLS).answers

    assert light.name == "C"
    assert (answers.errors, len(answers.latencies_ms)) == (0, CALLS.calls)


@needs_a_compiler
def test_an_answer_of_another_length_is_an_error(tmp_path: Path):
    with tools(tmp_path) as light, upstream() as other:
        light.load.run(light.alone, CALLS)
        longer = Target(light.alone.name, other.pid, other.port)
        stream = Scenario("streamed", connections=4, calls=50)
        answers = light.load.run(longer, stream).answers

    assert (answers.errors, answers.latencies_ms) == (CALLS.calls, [])


def test_without_a_compiler_the_python_ones_do_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with tools(tmp_path) as light:
        answers = light.load.run(light.alone, CALLS).answers

    assert light.name.startswith("Python")
    assert (answers.errors, len(answers.latencies_ms)) == (0, CALLS.calls)


def test_a_target_with_wrong_answers_is_refused_before_the_load():
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        answering = threading.Thread(target=server.handle_request)
        answering.start()
        with pytest.raises(RuntimeError, match=r"refusing gave a wrong answer.*501"):
            probed_length(Target("refusing", 0, server.server_port), CALLS)
        answering.join()
