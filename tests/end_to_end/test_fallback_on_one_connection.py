"""Second attempts on a client connection that goes on, and of clients that leave and gateways that are killed.

Providers fail in every way of tests/end_to_end/test_fault_matrix.py. The fallback answers or stays silent.
"""

import asyncio
import json
import os
import signal
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from conftest import StartGateway
from rig.attempt_checks import SECOND_NANOUSD, assert_paid, assert_served
from rig.bounds import BOUND_S
from rig.faults import FAULTS, Fault, silence
from rig.gateway import Gateway
from rig.money import holds, select
from rig.raw_clients import RawClient, request_bytes
from rig.scripts import Received
from rig.situation import Situation
from rig.situations import PATH, Found, Situations
from rig.upstream import Upstream

FORMS = {"whole": False, "stream": True}
# One after another, each call waits for the timeouts of the earlier ones. So one timeout must be enough.
IN_TURN = [(fault, form) for fault in FAULTS for form in FORMS if not FAULTS[fault].waits]
IN_TURN.insert(len(IN_TURN) // 2, ("silence", "stream"))
LEFT = {
    "in the first": {"fault": Fault(silence, waits=True)},
    "in the second": {"fault": FAULTS["503"], "then": silence},
}
KILLED = ("killed",)


def _all_situations() -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    for fault, form in IN_TURN:
        yield ("HTTP/1.1", fault, form), {"fault": FAULTS[fault], "stream": FORMS[form]}
    for fault in FAULTS:
        for form, stream in FORMS.items():
            yield ("HTTP/2", fault, form), {"fault": FAULTS[fault], "stream": stream}
    for where, settings in LEFT.items():
        yield ("left", where), settings | {"stream": True}
    yield KILLED, {"fault": FAULTS["503"], "then": silence}


SITUATIONS = {
    name: Situation(number, name, **settings) for number, (name, settings) in enumerate(_all_situations())
}


class Running:
    """The situations, their gateway, and a function that starts it again."""

    def __init__(self, start: StartGateway, situations: Situations, **settings: Any) -> None:
        self._start = start
        self._settings = settings | situations.settings()
        self._settings["environment"] |= settings["environment"]
        self.situations = situations
        self.gateway: Gateway = start(**self._settings)

    def again(self) -> None:
        self.gateway = self._start(folder=self.gateway.folder, **self._settings)


@pytest.fixture(scope="module")
def running(
    start_gateway: StartGateway,
    upstreams: dict[str, Any],
    authority: trustme.CA,
    secure_sections: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Running]:
    upstream: Upstream = upstreams["TESTER"]
    upstream.reset()
    ca_file = tmp_path_factory.mktemp("trusted") / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    situations = Situations(SITUATIONS.values(), upstream)
    good, bad = (ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) for _ in range(2))
    authority.issue_cert("localhost").configure_cert(good)
    trustme.CA().issue_cert("localhost").configure_cert(bad)
    timeouts = {"connect_timeout_s": 3, "first_byte_timeout_s": 5, "idle_timeout_s": 5}
    timeouts["whole_timeout_s"] = 10  # A first attempt gets half.
    with situations.providers_running(good, bad):
        sections = {"upstream": timeouts, **secure_sections}
        made = Running(
            start_gateway, situations, sections=sections, environment={"SSL_CERT_FILE": str(ca_file)}
        )
        situations.fill_wallets(made.gateway)
        yield made
    failures = list(upstream.failures)
    upstream.reset()
    assert failures == []


def _ledger(gateway: Gateway) -> Path:
    return gateway.folder / "var" / "tollgate.db"


def _client_port(answer: httpx.Response) -> Any:
    return answer.extensions["network_stream"].get_extra_info("client_addr")


def assert_all_served(found: Found) -> None:
    for name, left in found.items():
        assert_served(SITUATIONS[name], left, "second", "payg", SECOND_NANOUSD)


def test_one_connection_serves_call_after_call_whatever_fails(
    running: Running, trusting: ssl.SSLContext
) -> None:
    names = [("HTTP/1.1", *case) for case in IN_TURN]
    answers, ports = {}, set()
    with httpx.Client(
        base_url=running.gateway.url, verify=trusting, timeout=BOUND_S, trust_env=False
    ) as client:
        for name in names:
            one = SITUATIONS[name]
            with client.stream(
                "POST", PATH, json=running.situations.body(one), headers=running.situations.headers(one)
            ) as answer:
                answer.read()
                ports.add(_client_port(answer))
            answers[name] = answer
    assert len(ports) == 1, "the gateway closed the connection between two calls"
    assert_all_served(running.situations.gather(running.gateway, answers))


async def test_one_http2_connection_serves_all_calls_at_once_whatever_fails(
    running: Running, trusting: ssl.SSLContext
) -> None:
    names = [name for name in SITUATIONS if name[0] == "HTTP/2"]
    ports = set()
    async with httpx.AsyncClient(
        base_url=running.gateway.url,
        http1=False,
        http2=True,
        verify=trusting,
        timeout=BOUND_S,
        trust_env=False,
    ) as client:

        async def call(one: Situation) -> httpx.Response:
            headers = running.situations.headers(one)
            async with client.stream(
                "POST", PATH, json=running.situations.body(one), headers=headers
            ) as answer:
                await answer.aread()
                assert answer.http_version == "HTTP/2"
                ports.add(_client_port(answer))
            return answer

        answers = await asyncio.gather(*(call(SITUATIONS[name]) for name in names))
    assert len(ports) == 1
    found = running.situations.gather(running.gateway, dict(zip(names, answers, strict=True)))
    assert_all_served(found)


@pytest.mark.parametrize("where", LEFT)
def test_a_client_that_leaves_a_stream_ends_the_attempt_and_no_other_follows(
    running: Running, upstreams: dict[str, Any], trusting: ssl.SSLContext, where: str
) -> None:
    one = SITUATIONS["left", where]
    place, attempts = ("first", 1) if where == "in the first" else ("second", 2)
    with _pending(running, upstreams["TESTER"], one, place, trusting) as request:
        pass
    assert request.client_left.wait(BOUND_S)
    row = running.gateway.wait_for_row(lambda row: row["workspace"] == one.workspace_id)
    assert (row["status"], row["error_code"]) == (499, "client_disconnected")
    assert (row["model_slug"], row["attempts"], row["fallback"]) == (one.slug(place), attempts, 0)
    answer = httpx.Response(499, headers={"x-request-id": row["id"]})
    left = running.situations.gather(running.gateway, {one.name: answer})[one.name]
    assert [where for where, _ in left.asked] == ["first", "second"][:attempts]
    assert (row["usage_source"], row["completion_tokens"]) == ("estimated", 0)
    assert_paid(one, left, row["retail_nanousd"])


@contextmanager
def _pending(
    running: Running, upstream: Upstream, one: Situation, place: str, tls: ssl.SSLContext
) -> Iterator[Received]:
    """Yield a request that the provider at ``place`` does not answer. Its client leaves at the end."""
    target = f"/{one.number}/{place}/"
    content = json.dumps(running.situations.body(one)).encode()
    headers = running.situations.headers(one)
    with RawClient(running.gateway.url.replace("127.0.0.1", "localhost"), tls) as client:
        client.send(request_bytes("POST", PATH, headers.items(), content))
        running.gateway.wait_until(lambda: any(r.target.startswith(target) for r in upstream.requests))
        yield next(r for r in upstream.requests if r.target.startswith(target))


def test_a_gateway_killed_in_the_second_attempt_records_that_one(
    running: Running, upstreams: dict[str, Any], trusting: ssl.SSLContext
) -> None:
    one = SITUATIONS[KILLED]
    with _pending(running, upstreams["TESTER"], one, "second", trusting):
        (hold,) = holds(_ledger(running.gateway))
        assert hold["amount_nanousd"] > 200 * 52_000  # the second model's price for what the client allows
        os.kill(running.gateway.pid, signal.SIGKILL)
        running.gateway.wait()
    running.again()
    (row,) = select(_ledger(running.gateway), "SELECT * FROM usage WHERE workspace = ?", one.workspace_id)
    assert (row["status"], row["error_code"], row["retail_nanousd"]) == (499, "interrupted", 0)
    assert (row["model_slug"], row["attempts"], row["fallback"]) == (one.slug("second"), 2, 0)
    assert holds(_ledger(running.gateway)) == []
