"""The log is for people on a terminal and for programs in a pipe, and `[log] format` decides for both."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import CLI, Configuration, environment, workspace
from rig.large import large_only

LOGIN = "/v1/logins/sk-fake0000?password=hunter2"


def on_a_terminal(folder: Path, form: str) -> list[str]:
    """Serve with a terminal as standard error, ask for a path that nothing serves, and return the lines."""
    sections = {"log": {"format": form}, "admin": {"port": 0}}
    configuration = Configuration({}, {}, workspaces={"acme": workspace()}, sections=sections)
    conf = configuration.write(folder)
    reading, terminal = pty.openpty()
    command = [sys.executable, *CLI, "serve", "--conf", str(conf), "--port", "0"]
    with subprocess.Popen(
        command, env=environment({}), stdout=subprocess.PIPE, stderr=terminal, text=True
    ) as gateway:
        os.close(terminal)
        assert gateway.stdout
        url = gateway.stdout.readline().split()[-1]
        assert httpx.get(url + LOGIN, timeout=BOUND_S, trust_env=False).status_code == 404
        gateway.terminate()
        seen = b""
        try:
            while piece := os.read(reading, 4096):
                seen += piece
        except OSError:  # The end of a terminal is an error.
            pass
        assert gateway.wait(BOUND_S) == 0
    os.close(reading)
    return seen.decode().splitlines()


def test_a_terminal_gets_lines_for_people_and_a_404_has_method_and_path(tmp_path: Path) -> None:
    lines = on_a_terminal(tmp_path, "auto")
    assert not [line for line in lines if line.startswith("{")]
    assert any("serves 1 workspaces" in line for line in lines)
    [refused] = [line for line in lines if " 404 " in line]
    assert " 404 GET /v1/logins/" in refused
    assert "sk-fake" not in refused
    assert "hunter2" not in refused


@large_only
def test_a_terminal_gets_json_where_the_configuration_says_so(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in on_a_terminal(tmp_path, "json")]
    [refused] = [line for line in lines if line.get("status") == 404]
    assert (refused["event"], refused["method"]) == ("refusal", "GET")
    assert refused["path"].startswith("/v1/logins/")


@pytest.mark.skipif(sys.platform != "linux", reason="several workers need Linux")
def test_a_pipe_gets_lines_for_people_of_all_processes_where_the_configuration_says_so(
    start_gateway: StartGateway,
) -> None:
    gateway = start_gateway(sections={"log": {"format": "text"}, "listen": {"workers": 2}})
    answer = httpx.post(
        f"{gateway.url}/v1/chat/completions",
        headers=gateway.headers,
        json={"messages": HELLO},
        timeout=BOUND_S,
        trust_env=False,
    )
    end = f"(id {answer.headers['x-request-id']})"
    gateway.wait_until(lambda: any(line.endswith(end) for line in gateway.stderr_lines))
    [call] = [line for line in gateway.stderr_lines if line.endswith(end)]
    assert "[worker " in call
    assert f"] {answer.status_code} " in call
    assert not [line for line in gateway.stderr_lines if line.startswith("{")]
