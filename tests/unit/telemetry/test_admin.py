"""The admin port, used over loopback."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from rig.bounds import BOUND_S

from addon.telemetry.admin import MAX_WAITING, Admin, Readiness

READY = Readiness(True, {"settings": "ok", "store": "ok"})


class Probe:
    """An admin port with a readiness that a test can set, and a client of it."""

    def __init__(self) -> None:
        self.result: Readiness | Exception = READY
        self.admin = Admin(self.readiness)
        self.http: httpx.AsyncClient

    async def readiness(self) -> Readiness:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    async def get(self, path: str, method: str = "GET", **options: Any) -> httpx.Response:
        return await self.http.request(method, path, **options)


@pytest_asyncio.fixture
async def probe() -> AsyncIterator[Probe]:
    made = Probe()
    port = await made.admin.start("127.0.0.1", 0)
    made.http = httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}", timeout=BOUND_S, trust_env=False, verify=False
    )
    yield made
    await made.http.aclose()
    await made.admin.stop()


async def test_health_is_ok_while_the_process_lives_ready_or_not(probe: Probe) -> None:
    for result in (READY, Readiness(False, {"store": "the disk is full"}), RuntimeError("broken")):
        probe.result = result
        answer = await probe.get("/healthz")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(("ready", "status"), [(True, 200), (False, 503)])
async def test_readiness_lists_every_check(probe: Probe, ready: bool, status: int) -> None:
    checks = {"settings": "ok", "store": "ok" if ready else "the disk is full"}
    probe.result = Readiness(ready, checks)
    answer = await probe.get("/readyz")
    assert (answer.status_code, answer.json()) == (status, {"ready": ready, "checks": checks})
    assert answer.headers["cache-control"] == "no-store"


async def test_a_check_shows_no_credential(probe: Probe) -> None:
    probe.result = Readiness(False, {"store": "redis://:hunter2@cache:6379 refuses"})
    assert (await probe.get("/readyz")).json()["checks"] == {"store": "redis://***@cache:6379 refuses"}


async def test_a_failed_readiness_check_is_not_ready(probe: Probe, caplog: pytest.LogCaptureFixture) -> None:
    probe.result = RuntimeError("the check itself broke")
    with pytest.raises(httpx.RemoteProtocolError):
        await probe.get("/readyz")
    (record,) = [record for record in caplog.records if record.name == "tollgate.local_http"]
    assert record.exc_info is not None
    assert record.exc_info[1] is probe.result
    probe.result = READY
    assert (await probe.get("/readyz")).status_code == 200


@pytest.mark.parametrize("path", ["/", "/healthz/", "/metricsx", "/v1/models", "/v1/chat/completions"])
async def test_any_other_path_is_not_found_in_the_contract_s_shape(probe: Probe, path: str) -> None:
    answer = await probe.get(path)
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("invalid_request_error", "not_found")
    assert path in error["message"]


async def test_checks_wait_for_no_scrape(probe: Probe) -> None:
    """Not for one that takes long, and not where so many wait that one more is refused."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> tuple[int, str, bytes]:
        begun.set()
        await go_on.wait()
        return 200, "text/plain", b""

    async def check() -> None:
        for path in ("/readyz", "/healthz"):
            assert (await probe.get(path)).status_code == 200

    probe.admin.pages["/metrics"] = slow
    scrapes = [asyncio.create_task(probe.get("/metrics"))]
    await begun.wait()
    await check()
    scrapes += [asyncio.create_task(probe.get("/metrics")) for _ in range(MAX_WAITING)]
    [refused], _ = await asyncio.wait(scrapes, return_when=asyncio.FIRST_COMPLETED)
    assert refused.result().status_code == 503
    await check()
    go_on.set()
    assert [(await scrape).status_code for scrape in scrapes].count(200) == MAX_WAITING


async def test_a_path_that_is_a_credential_is_not_repeated(probe: Probe) -> None:
    assert "sk-fake" not in (await probe.get("/sk-fake-0000")).text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"])
async def test_a_page_is_only_read(probe: Probe, method: str) -> None:
    answer = await probe.get("/readyz", method)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert answer.json()["error"]["code"] == "method_not_allowed"


async def test_head_has_the_head_of_get(probe: Probe) -> None:
    probe.result = Readiness(False, {})
    got, head = await probe.get("/readyz"), await probe.get("/readyz", "HEAD")
    assert (head.status_code, head.content) == (503, b"")
    assert head.headers["content-length"] == got.headers["content-length"]


async def test_a_body_larger_than_any_question_is_refused(probe: Probe) -> None:
    reader, writer = await asyncio.open_connection(probe.http.base_url.host, probe.http.base_url.port)
    writer.write(b"POST /healthz HTTP/1.1\r\nHost: admin\r\nContent-Length: 10000000\r\n\r\n")
    async with asyncio.timeout(BOUND_S):
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()
    assert (await probe.get("/healthz")).status_code == 200


async def test_a_taken_port_is_named(probe: Probe) -> None:
    taken = probe.http.base_url.port
    assert taken is not None
    with pytest.raises(OSError, match=rf"can't listen on 127\.0\.0\.1:{taken}: Address already in use"):
        await Admin(probe.readiness).start("127.0.0.1", taken)


async def test_a_host_that_is_not_here_is_named(probe: Probe) -> None:
    with pytest.raises(OSError, match=r"can't listen on 192\.0\.2\.1:0: "):
        await Admin(probe.readiness).start("192.0.2.1", 0)


async def test_the_port_that_was_asked_for_is_bound(probe: Probe) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    admin = Admin(probe.readiness)
    assert await admin.start("127.0.0.1", port) == port
    await admin.stop()


async def test_after_stop_nothing_answers(probe: Probe) -> None:
    assert (await probe.get("/healthz")).status_code == 200
    await probe.admin.stop()
    with pytest.raises(httpx.ConnectError):
        await probe.get("/healthz")


async def test_stop_ends_a_check_that_takes_too_long() -> None:
    entered, left = asyncio.Event(), asyncio.Event()

    async def readiness() -> Readiness:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        return READY

    admin = Admin(readiness)
    port = await admin.start("127.0.0.1", 0)
    async with (
        asyncio.timeout(BOUND_S),
        httpx.AsyncClient(trust_env=False, verify=False, timeout=BOUND_S) as http,
    ):
        waiting = asyncio.create_task(http.get(f"http://127.0.0.1:{port}/readyz"))
        await entered.wait()
        await admin.stop()
        assert left.is_set()
        with pytest.raises(httpx.HTTPError):
            await waiting


async def test_to_stop_an_unstarted_one_is_no_error(probe: Probe) -> None:
    await Admin(probe.readiness).stop()


async def test_pages_leave_no_log_line(probe: Probe, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    probe.result = Readiness(False, {})
    for path in ("/healthz", "/readyz", "/nowhere"):
        await probe.get(path)
    own = [record for record in caplog.records if record.name.startswith(("tornado", "tollgate"))]
    assert own == []
