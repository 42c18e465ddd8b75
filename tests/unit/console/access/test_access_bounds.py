"""The bounds of the admin port: slow pages, idle and hostile clients never disturb health, readiness and metrics."""

import asyncio
import logging

import httpx
import pytest
from rig.admin_port import PASSWORD, Port, form_of
from rig.bounds import BOUND_S
from rig.large import large_only, sampled

from addon.console.page_process.process import MAX_WAITING
from addon.runtime import local_http
from addon.telemetry.admin import MAX_CONNECTIONS

SMALL, FORM = 16_384, 4_194_304


def host(port: Port) -> str:
    return f"Host: 127.0.0.1:{port.port}"


async def is_well(port: Port) -> bool:
    """Return whether health, readiness and metrics answer a new client."""
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port.port}", timeout=BOUND_S, trust_env=False, verify=False
    ) as http:
        answers = [await http.get(path) for path in ("/healthz", "/readyz", "/metrics")]
    return all(one.status_code == 200 for one in answers)


async def wait_until(port: Port, asked: int) -> None:
    async with asyncio.timeout(BOUND_S):
        while port.asked < asked:  # noqa: ASYNC110  (a server in this loop counts)
            await asyncio.sleep(0.001)


@large_only
async def test_fifty_pages_that_hang_disturb_no_check(free: Port) -> None:
    free.gate.clear()
    pages = [asyncio.create_task(free.http.get("/models")) for _ in range(50)]
    await wait_until(free, MAX_WAITING)
    assert await is_well(free)
    free.gate.set()
    statuses = [(await one).status_code for one in pages]
    assert (statuses.count(200), statuses.count(503)) == (MAX_WAITING, 50 - MAX_WAITING)
    assert (await free.http.get("/models")).status_code == 200


async def test_a_page_whose_client_left_is_given_up(free: Port, caplog: pytest.LogCaptureFixture) -> None:
    free.gate.clear()
    _, writer = await free.send("GET /models HTTP/1.1", host(free))
    await wait_until(free, 1)
    writer.close()
    await writer.wait_closed()
    async with asyncio.timeout(BOUND_S):
        while free.tasks:  # noqa: ASYNC110  (as above)
            await asyncio.sleep(0.001)
    free.gate.set()
    assert caplog.records == []


@pytest.mark.parametrize("is_retired", [False, True])
async def test_stop_ends_pages_that_are_read_without_a_word(
    free: Port, is_retired: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    free.gate.clear()
    pages = [asyncio.create_task(free.http.get("/models")) for _ in range(3)]
    await wait_until(free, 3)
    if is_retired:
        free.admin.retire()
    await free.admin.stop()
    results = await asyncio.gather(*pages, return_exceptions=True)
    assert all(isinstance(one, httpx.TransportError) for one in results)
    assert caplog.records == []


async def test_a_flood_of_metrics_lets_the_other_checks_pass_between_two_of_them(free: Port) -> None:
    made, metrics = 0, free.admin.pages["/metrics"]

    async def count() -> tuple[int, str, bytes]:
        nonlocal made
        made += 1
        return await metrics()

    free.admin.pages["/metrics"] = count
    flood = [await free.send("GET /metrics HTTP/1.1", host(free)) for _ in range(200)]
    assert (await free.http.get("/healthz")).status_code == 200
    async with asyncio.timeout(BOUND_S):
        statuses = [(await reader.readline()).split()[1] for reader, _ in flood]
    assert set(statuses) <= {b"200", b"503"}
    assert statuses.count(b"200") == made
    for _, writer in flood:
        writer.close()


async def test_idle_connections_keep_no_one_out(free: Port) -> None:
    async with asyncio.timeout(BOUND_S):
        idle = [await asyncio.open_connection("127.0.0.1", free.port) for _ in range(MAX_CONNECTIONS + 20)]
        try:
            for _, writer in idle:
                writer.write(b"GET /healthz HTTP/1.1\r\n")
            assert await is_well(free)
            assert await idle[0][0].read() == b""
        finally:
            for _, writer in idle:
                writer.close()


async def body_status(port: Port, path: str, size: int, *headers: str) -> bytes:
    """Return the status line that answers a form of so many bytes. One that is too large is only begun."""
    lines = (
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {size}",
        "Connection: close",
    )
    reader, writer = await port.send(
        f"POST {path} HTTP/1.1",
        host(port),
        *lines,
        *headers,
        body=b"a=" + b"b" * (size - 2 if size <= FORM else 0),
    )
    async with asyncio.timeout(BOUND_S):
        line = await reader.readline()
    writer.close()
    return line


@sampled(every=3)
@pytest.mark.parametrize("path", ["/login", "/logout", "/models", "/healthz", "/metrics"])
async def test_only_someone_who_is_logged_in_may_send_a_large_form(guarded: Port, path: str) -> None:
    assert (await guarded.log_in()).status_code == 303
    cookie = "; ".join(f"{name}={value}" for name, value in guarded.http.cookies.items())
    assert b" 400 " in await body_status(guarded, path, SMALL + 1)
    assert b" 400 " in await body_status(guarded, path, FORM + 1, f"Cookie: {cookie}")
    assert b" 400 " not in await body_status(guarded, path, SMALL)
    assert b" 400 " not in await body_status(guarded, path, FORM, f"Cookie: {cookie}")


async def test_a_head_that_is_too_large_is_closed(free: Port) -> None:
    reader, writer = await free.send(
        "GET /models HTTP/1.1", host(free), f"X: {'a' * local_http.MAX_HEADER_BYTES}"
    )
    async with asyncio.timeout(BOUND_S):
        assert await reader.read() in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n")
    writer.close()
    assert await is_well(free)


async def test_passwords_are_compared_one_at_a_time_while_checks_go_on(guarded: Port) -> None:
    page = await guarded.http.get("/login")
    forms = [form_of(page) | {"password": f"{PASSWORD} {number}"} for number in range(30)]
    answers = [asyncio.create_task(guarded.http.post("/login", data=one)) for one in forms]
    assert await is_well(guarded)
    statuses = [(await one).status_code for one in answers]
    # Three at once. On a slow machine some more, a second and more later.
    assert set(statuses) == {403, 429}
    assert 3 <= statuses.count(403) <= 8
