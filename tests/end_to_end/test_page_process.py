"""The process of pages of a gateway that is killed ends, too."""

import json
import os
import select
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, workspace

HANGS = """
import re
from pathlib import Path

def review(call):
    Path(__file__).with_name("runs").touch()
    re.match("(a+)+$", "a" * 64 + "b")
"""
"""A policy that never ends, and keeps the interpreter's lock. No other thread of its process runs."""


@contextmanager
def _watched(pid: int) -> Iterator[int]:
    """Give a descriptor that is readable when this process has ended. Kill it at the end of the context."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        try:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except ProcessLookupError:
            pass
        finally:
            os.close(descriptor)


def test_a_process_of_pages_that_hangs_ends_with_a_killed_gateway(
    start_gateway: StartGateway, tmp_path: Path
) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "hangs.py").write_text(HANGS)
    gateway = start_gateway(
        folder=tmp_path,
        models={"gpt-4o-mini": model()},
        workspaces={"acme": workspace(("ci", new_key(), True), default_model="gpt-4o-mini")},
        sections={"policies": {"extra": ["hangs"]}},
    )
    form = {"workspace": "acme", "key": "ci", "body": json.dumps({"messages": HELLO})}
    with ThreadPoolExecutor(1) as thread:
        explain = f"{gateway.admin_url}/api/v1/explain"
        asked = thread.submit(httpx.post, explain, data=form, timeout=BOUND_S, trust_env=False)
        gateway.wait_until((tmp_path / "policies" / "runs").exists)
        [pages] = gateway.page_processes()
        with _watched(pages) as descriptor:
            gateway.kill()
            assert isinstance(asked.exception(BOUND_S), httpx.HTTPError)
            readable, _, _ = select.select([descriptor], [], [], BOUND_S)
            assert readable
