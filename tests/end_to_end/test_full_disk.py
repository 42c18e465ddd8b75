"""A full disk: the store's failure and its recovery are logged."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.error_answers import assert_error
from rig.upstream import Upstream

ONCE = ["store unavailable", "store recovered"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A separate file system of 8 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount") or "mount"
    try:
        subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be mounted here: {error}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def _fill(folder: Path) -> Path:
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        for size in (65_536, 4096):
            with suppress(OSError):
                while file.write(bytes(size)):
                    pass
    return filler


def test_a_full_disk_and_its_recovery_are_logged(
    start_gateway: StartGateway, upstream: Upstream, small_disk: Path
) -> None:
    gateway = start_gateway(sections={"paths": {"database": str(small_disk / "tollgate.db")}})

    def call() -> httpx.Response:
        body = {"messages": HELLO}
        url = gateway.url + "/v1/chat/completions"
        return httpx.post(url, headers=gateway.headers, json=body, timeout=BOUND_S, trust_env=False)

    def events() -> list[str]:
        return [line["event"] for line in list(gateway.logs) if line.get("event") in ONCE]

    assert call().status_code == 200
    filler = _fill(small_disk)
    gateway.wait_until(lambda: call().status_code == 503)
    for _ in range(3):
        assert_error(call(), 503, "rate_limit_unavailable", "api_error")
    line = gateway.wait_for_log(lambda line: line.get("event") == "store unavailable")
    assert (line["level"], "full" in line["message"]) == ("error", True), line
    assert events() == ONCE[:1]
    filler.unlink()
    gateway.wait_for_log(lambda line: line.get("event") == "store recovered")
    assert call().status_code == 200
    assert events() == ONCE
    assert gateway.stop() == 0
