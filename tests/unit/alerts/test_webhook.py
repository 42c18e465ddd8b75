"""One event to one receiver: what counts as taken, and that no reason shows the URL."""

import hashlib
import hmac
import json
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import trustme
from pydantic import SecretStr
from rig.alerts import PATH_TOKEN, SIGNING_SECRET, Receiver
from rig.egress_proxy import run_egress_proxy
from rig.scripts import CLOSE, RESET, UNTIL_CLIENT_LEAVES, Script, response_head, whole
from rig.upstream import RefusingPort

from addon.alerts.webhook import NO_ANSWER, Outcome, Webhook
from addon.settings.alert_target import AlertTarget
from addon.settings.egress_proxy import parse_proxy

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
PACKED = json.dumps({"id": "evt_1", "type": "test", "text": "This is a test."})


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


async def send(url: str, secret: str = SIGNING_SECRET, **changes: Any) -> Outcome:
    target = AlertTarget(SecretStr(url), SecretStr(secret) if secret else None)
    webhook = Webhook(target, changes.pop("proxy", None), **changes)
    try:
        return await webhook.send(PACKED, NOW, 3)
    finally:
        await webhook.close()


def drip(_: object) -> Script:
    return (response_head(200).removesuffix(b"\r\n\r\n"), UNTIL_CLIENT_LEAVES)


# answer, whether it is taken, what is said of it, whether another event may pass
ANSWERS: dict[str, tuple[Any, bool, str, bool]] = {
    "200": (whole(b"ok"), True, "200", False),
    "204": (whole(b"", status=204), True, "204", False),
    "a redirect": (
        whole(b"", 302, [("Location", "/elsewhere")]),
        False,
        "302 (redirects are not followed)",
        False,
    ),
    "400": (whole(b"no", 400), False, "400", True),
    "404": (whole(b"no", 404), False, "404", False),
    "429": (whole(b"no", 429), False, "429", False),
    "500": (whole(b"no", 500), False, "500", False),
    "an endless body": (
        (response_head(200, [("Content-Length", "1000000000")]), UNTIL_CLIENT_LEAVES),
        True,
        "200",
        False,
    ),
    "no answer": ((CLOSE,), False, "no answer (RemoteProtocolError)", False),
    "a reset": ((RESET,), False, "connection reset by peer", False),
    "no HTTP": ((b"220 smtp\r\n\r\n", CLOSE), False, "no answer (RemoteProtocolError)", False),
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_an_event_is_taken_only_with_a_2xx(receiver: Receiver, case: str) -> None:
    answer, is_taken, said, is_event_refused = ANSWERS[case]
    receiver.behave(answer)
    outcome = await send(receiver.url)
    assert (outcome.is_taken, outcome.answer, outcome.is_event_refused) == (is_taken, said, is_event_refused)
    assert len(receiver.requests) == 1
    assert PATH_TOKEN not in repr(outcome)


@pytest.mark.parametrize("answer", [(UNTIL_CLIENT_LEAVES,), drip(None)])
async def test_a_receiver_that_hangs_is_given_up(receiver: Receiver, answer: Script) -> None:
    receiver.behave(answer)
    outcome = await send(receiver.url, timeout_s=0.2)
    assert (outcome.is_taken, outcome.answer) == (False, NO_ANSWER)


async def test_the_body_is_signed_with_the_time_of_the_attempt(receiver: Receiver) -> None:
    await send(receiver.url)
    request = receiver.last
    expected = hmac.new(SIGNING_SECRET.encode(), request.body, hashlib.sha256).hexdigest()
    assert request.header("X-Tollgate-Signature") == f"sha256={expected}"
    assert request.json() == json.loads(PACKED) | {"sent_at": "2026-11-22T12:00:00.000+00:00", "attempt": 3}
    assert (request.method, request.target) == ("POST", f"/hooks/{PATH_TOKEN}")
    assert request.header("Content-Type") == "application/json"


async def test_without_a_secret_there_is_no_signature(receiver: Receiver) -> None:
    assert (await send(receiver.url, secret="")).is_taken
    assert "x-tollgate-signature" not in receiver.last.header_names


async def test_a_port_that_refuses_and_a_host_that_does_not_exist_are_named_in_words() -> None:
    with RefusingPort() as refusing:
        outcome = await send(f"http://127.0.0.1:{refusing.port}/{PATH_TOKEN}")
    assert outcome.answer == "connection refused"
    outcome = await send(f"http://no-such-host.invalid/{PATH_TOKEN}")
    assert outcome.answer == "its host name can't be resolved"


async def test_a_certificate_that_no_one_trusts_is_refused() -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("localhost").configure_cert(context)
    with Receiver(tls=context) as receiver:
        outcome = await send(receiver.url)
        assert not outcome.is_taken
        assert outcome.answer.startswith("its certificate can't be verified")
        assert receiver.requests == []


async def test_a_trusted_certificate_is_accepted(
    authority: trustme.CA, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    with Receiver(tls=context) as receiver:
        async with run_egress_proxy() as (proxy, asked):
            outcome = await send(receiver.url, proxy=parse_proxy(f"http://user:pass@127.0.0.1:{proxy.port}"))
        assert outcome.is_taken, outcome
        assert b"Proxy-Authorization: Basic dXNlcjpwYXNz" in asked[0]
        assert PATH_TOKEN.encode() not in asked[0]
        assert "proxy-authorization" not in receiver.last.header_names
