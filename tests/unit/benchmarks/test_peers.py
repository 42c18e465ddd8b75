"""The peers of the benchmark: what is measured is theirs, and what is missing is said in a line."""

import contextlib
import shutil
import subprocess
import sys
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from rig.bounds import BOUND_S

from benchmarks.load_generator import Job
from benchmarks.peers.installation import NotInstalledError, cache_folder, node_package
from benchmarks.peers.run import start
from benchmarks.peers.servers import FEATURES, LOOPBACK, STOCK_FEATURES, TOLLGATE_FEATURES, Peer, peers
from benchmarks.processes import running
from benchmarks.traffic import Scenario, Target, request_to


def test_each_gateway_says_what_it_has_of_every_feature():
    features = [TOLLGATE_FEATURES, STOCK_FEATURES, *(peer.features for peer in peers(None))]

    assert [set(one) for one in features] == [set(FEATURES)] * 5


def test_a_peer_that_is_not_installed_is_left_out_with_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    otari = peers(None)[-1]
    with ExitStack() as stack:
        assert start(stack, otari, 1, tmp_path) is None

    assert capsys.readouterr().out == (
        "Otari is left out: it is in no package registry; install it and add --otari COMMAND\n"
    )


def test_a_peer_that_does_not_start_is_left_out_with_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    @contextlib.contextmanager
    def serve(program: Path, _port: int, folder: Path):
        with running(
            [str(program), "-c", "import sys; sys.exit('one\\ntwo')"], log=folder / "log"
        ) as process:
            process.wait()
            raise RuntimeError("nothing listens\nand more")
            yield

    broken = Peer("Broken", "1", lambda: Path(sys.executable), serve, {})
    with ExitStack() as stack:
        assert start(stack, broken, 1, tmp_path) is None

    assert capsys.readouterr().out == "Broken is left out: nothing listens\n"


def test_without_node_there_is_no_npm_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(NotInstalledError, match="there is no `node`"):
        node_package("any", "{}")


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"XDG_CACHE_HOME": "/cache"}, Path("/cache/tollgate-benchmarks")),
        ({}, Path.home() / ".cache" / "tollgate-benchmarks"),
        ({"XDG_CACHE_HOME": ""}, Path.home() / ".cache" / "tollgate-benchmarks"),
    ],
)
def test_peers_are_in_the_users_cache(environment: dict[str, str], folder: Path):
    assert cache_folder(environment) == folder


def test_a_peer_gets_nothing_of_the_users_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    shows = [sys.executable, "-c", "import os; print(sorted(os.environ), os.getcwd())"]
    log = tmp_path / "log"
    with running(shows, log=log, environment={"SETTING": "1"}, home=tmp_path) as process:
        process.wait(BOUND_S)

    output = log.read_text()
    assert "OPENAI_API_KEY" not in output
    assert {"'HOME'", "'NO_PROXY'", "'PATH'", "'SETTING'"} <= set(
        output.strip("[]\n").replace("]", ",").split(", ")
    )
    assert str(tmp_path) in output


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_a_node_server_listens_on_loopback_only():
    script = (
        "const server = require('node:net').createServer();"
        "server.listen(0, () => { console.log(server.address().address); server.close(); });"
    )
    command = ["node", "--require", str(LOOPBACK), "-e", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, check=True)

    assert done.stdout == "127.0.0.1\n"


def test_a_call_has_the_model_and_the_headers_of_its_target():
    target = Target("peer", 0, 0, "key", model="house:bench", headers=("x-one: 1", "x-two: 2"))

    head, _, body = request_to(target, "whole").partition(b"\r\n\r\n")

    assert {b"x-one: 1", b"x-two: 2", b"Authorization: Bearer key"} <= set(head.split(b"\r\n"))
    assert f"Content-Length: {len(body)}".encode() in head
    assert b'"model": "house:bench"' in body


async def test_a_wrong_answer_is_an_error_without_a_latency():
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        answering = threading.Thread(target=lambda: [server.handle_request() for _ in range(2)])
        answering.start()
        answers = await Job(Target("it", 0, server.server_port), Scenario("whole", 1, 2, fresh=True)).run()
        answering.join()

    assert (answers.errors, answers.latencies_ms) == (2, [])
