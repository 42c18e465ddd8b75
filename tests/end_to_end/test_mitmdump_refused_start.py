"""A mitmdump whose gateway can't start ends with a clear line, and never becomes an open proxy."""

import socket
import sqlite3
from pathlib import Path

import pytest
from conftest import StartGateway
from rig.configuration import Configuration, workspace
from rig.processes import MITMDUMP, Mitmdump, run_to_its_end, with_default_port
from rig.raw_clients import RawClient, request_bytes
from rig.server_process import free_port
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"


def _refused(folder: Path, **changes: object) -> str:
    arguments = ("--listen-host", "127.0.0.1", "--listen-port", "0")
    settings = {"workspaces": {"empty": workspace()}, "program": MITMDUMP, "arguments": arguments} | changes
    ended = run_to_its_end(Configuration({}, {}, **settings), folder, mitmdump=True)  # type: ignore[arg-type]
    assert ended.returncode == 1, ended
    return ended.stdout + ended.stderr


def test_settings_that_do_not_load_end_the_process(tmp_path: Path) -> None:
    said = _refused(tmp_path, sections={"limits": {"pro_rmp": 3}})
    [line] = [line for line in said.splitlines() if "limits.pro_rmp: unknown key" in line]
    assert "the gateway can't start: " in line
    assert "Traceback" not in said


def test_a_ledger_that_can_not_be_opened_ends_the_process(tmp_path: Path) -> None:
    assert "catalog_data: can't be opened" in _refused(
        tmp_path, sections={"paths": {"database": "catalog_data"}}
    )


def test_a_taken_admin_port_ends_the_process(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = _refused(tmp_path, sections={"admin": {"port": port}})
    assert f"can't listen on 127.0.0.1:{port}" in said


def test_a_taken_port_of_the_file_ends_the_process(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        listen = {"host": "127.0.0.1", "port": port}
        program = with_default_port(free_port())
        said = _refused(tmp_path, sections={"listen": listen}, program=program, arguments=())
    assert f"failed to listen on 127.0.0.1:{port}" in said


@pytest.mark.parametrize("mode", ["regular@127.0.0.1:0", "reverse:http://127.0.0.1:{port}@127.0.0.1:0"])
def test_a_mitmproxy_that_serves_on_without_settings_forwards_nothing(
    start_gateway: StartGateway, upstream: Upstream, mode: str
) -> None:
    """mitmdump ends when an addon fails to load; another program around mitmproxy may not."""
    code = (
        "from mitmproxy.addons.errorcheck import ErrorCheck\n"
        "async def go_on(self): pass\n"
        "ErrorCheck.shutdown_if_errored = go_on\n"
        "from mitmproxy.tools.main import mitmdump\n"
        "mitmdump()"
    )
    target = f"127.0.0.1:{upstream.port}"
    gateway = start_gateway(
        kind=Mitmdump,
        program=("-c", code),
        arguments=("--mode", mode.format(port=upstream.port), "--set", "connection_strategy=lazy"),
        sections={"limits": {"pro_rmp": 3}},
    )
    for request in (
        request_bytes("POST", CHAT, gateway.headers.items(), b'{"messages": []}'),
        request_bytes("GET", f"http://{target}/v1/models", []),
        request_bytes("CONNECT", target, []),
    ):
        with RawClient(gateway.url) as raw:
            raw.send(request)
            assert raw.read_answer().status >= 400
    assert upstream.requests == []
    assert gateway.stop() == 0
    with pytest.raises(sqlite3.OperationalError):
        gateway.ledger_rows()
