"""docs/operating.md has every bound with its number."""

import asyncio
import logging
import re
from dataclasses import fields

import pytest
from rig.configuration import ROOT
from rig.log_lines import configured_log

from addon.answers import bounds as answer_bounds
from addon.answers import silence
from addon.answers import stream as sse
from addon.calls import request_body
from addon.console import console
from addon.console.page_process import __main__ as page_worker
from addon.console.page_process import maker as page_maker
from addon.console.page_process import process as page_process
from addon.runtime import local_http
from addon.runtime.keepalive import KEEPALIVE_S
from addon.serve import supervisor, worker_pool
from addon.telemetry import admin
from addon.text import http1_body, http1_heads, json_scan
from addon.text import provider_error as upstream_message
from addon.upstream.answer_head import MAX_INTERIM_ANSWERS
from addon.upstream.pool import DEFAULT_LIMITS as POOL
from addon.wire import clients, request_buffer, tls
from addon.wire.connection import WireSettings

WIRE = {field.name: field.default for field in fields(WireSettings)}
PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")


def rows(title: str) -> list[list[str]]:
    """Return the cells of the table below ``## title``, without its two head lines."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")][2:]


BOUNDS = {
    "request line and headers": f"{http1_heads.MAX_HEAD_BYTES // 1024} KiB, {http1_heads.MAX_HEAD_LINES} lines",
    "time for the request head, from its first byte; time for the first byte of a connection": (
        f"{WIRE['head_timeout_s']:g} s"
    ),
    "TLS greeting of a client": f"{tls.MAX_HELLO_BYTES >> 10} KiB, {tls.MAX_HELLO_RECORDS} records",
    "client connection without a call, after one": f"{WIRE['idle_timeout_s']:g} s",
    "request body": "`[limits] max_request_bytes`",
    "time for a request body": (
        f"{request_body.TIMEOUT_S:g} s, and 1 s more for each {request_body.BYTES_PER_S >> 10} KiB that came"
    ),
    "request bodies in memory, of one worker": f"{request_body.MAX_BYTES_IN_MEMORY >> 20} MiB",
    "requests of one workspace whose bodies are being received, of one worker": str(
        request_body.MAX_BODIES_BEING_READ
    ),
    "chunk extensions and trailers of a body; blank lines before a request": (
        f"{http1_body.MAX_OVERHEAD_BYTES >> 10} KiB"
    ),
    "rest of a request body that was answered before its end": (
        f"{WIRE['discard_timeout_s']:g} s, {WIRE['max_discard_bytes'] >> 20} MiB"
    ),
    "time in which a client takes nothing of its answer": f"{WIRE['write_timeout_s']:g} s",
    "client connections": "a third of the open-file limit less 64",
    "connections to one provider, of one worker": (
        f"{POOL.open_per_origin:,}, of which {POOL.idle_per_origin} idle"
    ),
    "connections that the calls of one workspace use, of one worker": str(POOL.open_per_workspace),
    "time that a call waits for a connection to be free": "`[upstream] connect_timeout_s`",
    "idle connection to a provider": f"{POOL.idle_s:g} s",
    "age of a connection to a provider": f"{POOL.age_s:g} s",
    "interim answers (1xx) before an answer": str(MAX_INTERIM_ANSWERS),
    "connecting to a provider, egress proxy and TLS included": "`[upstream] connect_timeout_s`",
    "time to the first byte of a streamed answer": "`[upstream] first_byte_timeout_s`",
    "pause inside a streamed answer": "`[upstream] idle_timeout_s`",
    "time for a whole answer that is not streamed": (
        "`[upstream] whole_timeout_s`; half of what is left stays for the places that may follow"
    ),
    "time for the rest of a provider's error answer": "`[upstream] first_byte_timeout_s`",
    "silence of a client or provider that is gone": f"TCP keepalive after {KEEPALIVE_S} s",
    "head of the answer of a provider or the egress proxy": f"{http1_heads.MAX_HEAD_BYTES // 1024} KiB",
    "whole answer that is not streamed": "`[upstream] max_response_bytes`",
    "structure of a request body": f"{json_scan.MAX_VALUES:,} values, {json_scan.MAX_DEPTH} levels of nesting",
    "structure of a whole answer that is not streamed": (
        f"{json_scan.MAX_VALUES:,} values, {json_scan.MAX_DEPTH} levels of nesting"
    ),
    "bytes of a stream since its last content": f"{silence.MAX_SILENT_BYTES >> 20} MiB",
    "one event of a stream": (
        f"{sse.MAX_EVENT_BYTES >> 20} MiB, {sse.MAX_EVENT_LINES:,} lines, "
        f"{answer_bounds.MAX_EVENT_VALUES:,} values, {json_scan.MAX_DEPTH} levels of nesting"
    ),
    "choices of an answer, whole or streamed": f"{answer_bounds.MAX_CHOICES:,}",
    "[admin port](#admin-port): connections": str(admin.MAX_CONNECTIONS),
    "admin port: request line and headers; time for them; time for a body": (
        f"{local_http.MAX_HEADER_BYTES >> 10} KiB; {local_http.IDLE_TIMEOUT_S} s; {local_http.BODY_TIMEOUT_S} s"
    ),
    "admin port: request body": (
        f"{console.MAX_BODY_BYTES >> 10} KiB; a request to explain {console.MAX_EXPLAINED_BYTES >> 20} MiB, where a"
        f" password is set {console.MAX_UNKNOWN_BYTES >> 10} KiB; {console.MAX_FORM_BYTES >> 20} MiB for someone who is"
        " logged in to the console"
    ),
    "admin port: requests for `/metrics` that wait, one after the other": str(admin.MAX_WAITING),
    "console: pages that are being made or wait for it; that are being made": (
        f"{page_process.MAX_WAITING}; {page_worker.THREADS}"
    ),
    "console: a request to explain, which runs your own policies; another page": (
        f"{page_process.FORM_S:g} s; {page_process.PAGE_S:g} s"
    ),
    "console: start of the process of pages; the time that it stays unused": (
        f"{page_process.START_S:g} s; {page_process.IDLE_S:g} s"
    ),
    "console: statements of one page; time until the client has the page": (
        f"{page_maker.TIMEOUT_S:g} s; {console.ANSWER_S:g} s"
    ),
    "a provider's error answer": (
        f"{upstream_message.MAX_READ_BYTES >> 20} MiB, "
        f"and of one sentence {upstream_message.MAX_SENTENCE_CHARS:,} characters"
    ),
}


def test_every_bound_is_documented_with_its_number() -> None:
    assert admin.MAX_BODY_BYTES == console.MAX_BODY_BYTES
    assert request_buffer.MAX_BLANK_BYTES == http1_body.MAX_OVERHEAD_BYTES
    assert {row[0]: row[1] for row in rows("Bounds and timeouts")} == BOUNDS


def test_the_documented_number_of_clients_is_that_of_the_documented_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clients.resource, "getrlimit", lambda _: (65_536, 65_536))
    assert f"some {round(clients.max_clients(), -2):,} client connections" in PAGE


def test_the_times_that_a_supervisor_waits_are_documented() -> None:
    [section] = re.findall(r"\n## Workers\n(.*?)\n## ", PAGE, re.DOTALL)
    said = " ".join(section.split())
    assert f"has not ended {supervisor.SLACK_S:g} s after" in said
    assert f"does not answer within {supervisor.ANSWER_S:g} s" in said
    assert f"started again after {worker_pool.restart_delay_s(0):g} s" in said
    assert f"up to {worker_pool.LONGEST_DELAY_S:g} s" in said


async def test_a_log_line_is_written_at_the_documented_time() -> None:
    assert "written at once. An ordinary line is written with the others of the same turn of" in PAGE
    log = logging.getLogger("tollgate")
    with configured_log() as lines:
        log.warning("at once")
        assert len(lines.all) == 1
        log.info("one")
        log.info("other")
        assert len(lines.all) == 1
        await asyncio.sleep(0)
        assert len(lines.all) == 3
