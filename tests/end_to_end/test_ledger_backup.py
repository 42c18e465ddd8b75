"""Backups of a serving gateway's ledger under load, and the return of one of them."""

import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.commands import tollgate
from rig.configuration import new_key, workspace
from rig.gateway import Gateway
from rig.large import large_only
from rig.ledger import read_ids
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"


@pytest.fixture
def start(start_gateway: StartGateway, upstream: Upstream, tmp_path: Path) -> Callable[[], Gateway]:
    """Start a gateway in the same folder, again and again. A wallet pays for its calls."""
    assert upstream.requests == []
    key = new_key()
    made = workspace(("ci", key, True), plan="standard", default_model="tester-large")

    def begin() -> Gateway:
        gateway = start_gateway(folder=tmp_path, workspaces={"acme": made})
        gateway.keys = {"ci": key}
        return gateway

    return begin


def call(gateway: Gateway, count: int) -> None:
    with httpx.Client(
        base_url=gateway.url, headers=gateway.headers, timeout=BOUND_S, trust_env=False
    ) as client:
        for _ in range(count):
            assert client.post(CHAT, json={"messages": HELLO}).status_code == 200


def done(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    finished = tollgate(folder, "ledger", *arguments)
    assert finished.returncode == 0, finished.stderr
    return finished


@large_only
def test_a_backup_under_load_is_restored_after_the_gateway_has_stopped(
    start: Callable[[], Gateway], tmp_path: Path
) -> None:
    gateway, copy = start(), tmp_path / "copy.db"
    assert tollgate(tmp_path, "wallet", "credit", "acme", "100").returncode == 0
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(call, gateway, 12) for _ in range(3)]
        said = done(tmp_path, "backup", str(copy)).stdout
        for one in calls:
            one.result(BOUND_S)
    assert said.endswith(": no discrepancies\n")
    assert len(gateway.ledger_rows()) == 36
    refused = tollgate(tmp_path, "ledger", "restore", str(copy))
    assert (refused.returncode, f"(process {gateway.pid}); stop it first" in refused.stderr) == (1, True)
    assert gateway.stop() == 0
    done(tmp_path, "restore", str(copy))
    again = start()
    call(again, 1)
    rows = [row for row in again.ledger_rows() if row["error_code"] != "interrupted"]
    assert len(rows) == len(read_ids(copy)) + 1
    assert ": no discrepancies\n" in done(tmp_path, "verify").stdout
