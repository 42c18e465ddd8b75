"""The sandbox's server: its key, the errors and the timing of its answers, and how it stops."""

import asyncio
import logging
import subprocess
import sys

import httpx
import openai
import pytest
from rig.bounds import BOUND_S
from rig.configuration import ROOT
from rig.sandbox import SandboxClient, event_data, start_sandbox, user_messages

from addon.sandbox.request import CHAT_MODEL
from addon.sandbox.server import Sandbox


@pytest.mark.parametrize(
    ("status", "error", "type_", "code"),
    [
        (400, openai.BadRequestError, "invalid_request_error", "invalid_request"),
        (401, openai.AuthenticationError, "invalid_request_error", "invalid_api_key"),
        (403, openai.PermissionDeniedError, "invalid_request_error", "permission_denied"),
        (404, openai.NotFoundError, "invalid_request_error", "model_not_found"),
        (413, openai.APIStatusError, "invalid_request_error", "request_too_large"),
        (422, openai.UnprocessableEntityError, "invalid_request_error", "invalid_request"),
        (429, openai.RateLimitError, "requests", "rate_limit_exceeded"),
        (500, openai.InternalServerError, "server_error", "server_error"),
        (503, openai.InternalServerError, "server_error", "overloaded"),
        (529, openai.InternalServerError, "server_error", "server_error"),
        (599, openai.InternalServerError, "server_error", "server_error"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_status_answers_with_an_error_of_that_status(
    sandbox: SandboxClient,
    status: int,
    error: type[openai.APIStatusError],
    type_: str,
    code: str,
    stream: bool,
) -> None:
    with pytest.raises(error) as raised:
        await sandbox.whole(f"[[status:{status}]]", stream=stream)
    assert raised.value.status_code == status
    assert set(raised.value.body) == {"message", "type", "param", "code"}  # type: ignore[arg-type]
    assert (raised.value.type, raised.value.code) == (type_, code)
    assert str(status) in raised.value.message


@pytest.mark.parametrize("stream", [False, True])
async def test_drop_closes_the_connection_in_the_middle_of_the_answer(
    sandbox: SandboxClient, stream: bool
) -> None:
    body = {"model": CHAT_MODEL, "messages": user_messages("[[drop]]"), "stream": stream}
    async with sandbox.http.stream("POST", f"{sandbox.base_url}/chat/completions", json=body) as answer:
        assert answer.status_code == 200
        parts = answer.aiter_raw()
        received = await anext(parts)
        with pytest.raises(httpx.RemoteProtocolError):
            received += b"".join([part async for part in parts])
    assert b"[DONE]" not in received


async def test_delay_comes_before_the_answer_and_pace_between_its_chunks() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async with start_sandbox(Sandbox(sleep)) as sandbox:
        answer = await sandbox.post("[[delay:60000]] [[pace:5000]] Hello", stream=True)
        assert slept == [60.0] + [5.0] * len(event_data(answer.text))
        slept.clear()
        assert (await sandbox.post("[[status:500]] [[delay:250]]")).status_code == 500
        assert slept[0] == 0.25


@pytest.mark.parametrize("header", [None, "Bearer sk-sandbox", "Bearer", "Basic x", "bearer clé"])
async def test_the_sandbox_accepts_only_its_own_key(sandbox: SandboxClient, header: str | None) -> None:
    headers = [] if header is None else [(b"Authorization", header.encode())]
    async with httpx.AsyncClient(timeout=BOUND_S, trust_env=False) as stranger:
        answer = await stranger.post(f"{sandbox.base_url}/chat/completions", headers=headers, json={})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")


async def test_each_sandbox_has_its_own_key() -> None:
    keys = {Sandbox().key.get_secret_value() for _ in range(10)}
    assert len(keys) == 10
    assert min(map(len, keys)) >= 40


async def test_other_paths_and_methods_are_refused(sandbox: SandboxClient) -> None:
    answer = await sandbox.http.post(f"{sandbox.base_url}/embeddings", json={})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_url")
    answer = await sandbox.http.get(f"{sandbox.base_url}/chat/completions")
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed")


class _EndlessSleep:
    """A ``sleep`` that never ends by itself. Its events are set when it starts and when it is cancelled."""

    def __init__(self) -> None:
        self.started, self.cancelled = asyncio.Event(), asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        # A sleep of 0 s only lets other tasks run.
        if seconds:
            self.started.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()


async def test_an_answer_ends_when_its_client_leaves() -> None:
    endless = _EndlessSleep()
    async with asyncio.timeout(BOUND_S), start_sandbox(Sandbox(endless.sleep)) as sandbox:
        body = {"model": CHAT_MODEL, "messages": user_messages("[[pace:5000]]"), "stream": True}
        async with sandbox.http.stream("POST", f"{sandbox.base_url}/chat/completions", json=body) as answer:
            await anext(answer.aiter_raw())
            await endless.started.wait()
            assert not endless.cancelled.is_set()
        await endless.cancelled.wait()


async def test_stop_ends_answers_in_progress() -> None:
    endless = _EndlessSleep()
    async with asyncio.timeout(BOUND_S), start_sandbox(Sandbox(endless.sleep)) as sandbox:
        waiting = asyncio.create_task(sandbox.post("[[delay:60000]]"))
        await endless.started.wait()
        await sandbox.server.stop()
        assert endless.cancelled.is_set()
        with pytest.raises(httpx.HTTPError):
            await waiting
        with pytest.raises(httpx.ConnectError):
            await sandbox.post()


async def test_stop_without_start_is_no_error() -> None:
    await Sandbox().stop()


async def test_answers_write_no_log_line(sandbox: SandboxClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for text in ("a-private-word", "[[status:429]]", "[[status:500]]", "[[drop]]"):
        await sandbox.post(text, stream=False) if "drop" not in text else await _drop(sandbox)
    own = [record for record in caplog.records if record.name.startswith(("tornado", "tollgate", "asyncio"))]
    assert own == []


async def _drop(sandbox: SandboxClient) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await sandbox.post("[[drop]]")


def test_the_command_line_does_not_import_tornado() -> None:
    script = "import sys, addon.cli, addon.sandbox.server, addon.telemetry.admin; sys.exit('tornado' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False).returncode == 0
