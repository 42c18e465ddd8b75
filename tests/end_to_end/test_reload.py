"""Edits take effect in a running gateway. A bad one changes only what the gateway reports."""

import re
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import environment
from rig.gateway import Gateway
from rig.large import large_only, sampled
from rig.raw_clients import RawClient
from rig.scripts import DONE, USAGE, Gate, chunk, chunked, completion, event, whole
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"
RELOADED = "settings reloaded"
SLUG = "tester-large"


@pytest.fixture
def own(start_gateway: StartGateway, tmp_path: Path, upstream: Upstream) -> Iterator[Gateway]:
    """A gateway with files that the test may edit."""
    assert upstream.requests == []
    gateway = start_gateway(folder=tmp_path)
    yield gateway
    assert gateway.stop() == 0
    gateway.assert_no_secret_logged()


@pytest.fixture
def client(own: Gateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=own.url, headers=own.headers, timeout=BOUND_S, trust_env=False) as made:
        yield made


def _edit_price(own: Gateway, output_price_per_m: str) -> None:
    """Give SLUG another price, as an editor does that rewrites the file."""
    file = own.folder / "catalog_data" / "models.toml"
    table = re.compile(rf'(\[{SLUG}\][^\[]*output_price_per_m = )"[^"]*"')
    edited, count = table.subn(rf'\g<1>"{output_price_per_m}"', file.read_text())
    assert count == 1
    file.write_text(edited)


def _reloads(own: Gateway) -> int:
    return sum(line["message"].startswith(RELOADED) for line in own.logs)


def _wait_for_reload(own: Gateway, after: int) -> None:
    own.wait_until(lambda: _reloads(own) > after)


def _output_price(client: httpx.Client) -> Decimal:
    answer = client.get("/v1/models")
    rows = {row["modelSlug"]: row for row in answer.json()}
    return Decimal(str(rows[SLUG]["outputPricePerMRetail"]))


def _ready(own: Gateway) -> dict[str, Any]:
    answer = own.readiness()
    assert answer.status_code == 200
    return dict(answer.json())


def test_a_new_price_is_in_the_catalog_and_on_the_next_bill(own: Gateway, client: httpx.Client) -> None:
    before = client.get("/v1/models")
    assert _output_price(client) == Decimal("0.624")
    _edit_price(own, "10")
    own.wait_until(lambda: _output_price(client) == Decimal("10.4"))
    fresh = client.get("/v1/models", headers={"If-None-Match": before.headers["etag"]})
    assert fresh.status_code == 200
    row = own.wait_for_row(client.post(CHAT, json={"messages": HELLO}).headers["x-request-id"])
    assert row["retail_nanousd"] == USAGE["prompt_tokens"] * 156 + USAGE["completion_tokens"] * 10_400


def test_a_model_turned_off_leaves_the_catalog_and_is_refused(own: Gateway, client: httpx.Client) -> None:
    file = own.folder / "catalog_data" / "models.toml"
    table = re.compile(r"(\[tester-small\][^\[]*active = )true")
    file.write_text(table.sub(r"\g<1>false", file.read_text()))
    own.wait_until(lambda: "tester-small" not in client.get("/v1/models").text)
    refused = client.post(CHAT, json={"messages": HELLO, "model": "tester-small"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_state")


BAD_EDITS = {
    "an unknown key": ("catalog_data/models.toml", '\n["new-model"]\nprovidr = "TESTER"\n', "providr"),
    "no TOML": ("catalog_data/models.toml", "\n[[[\n", "models.toml"),
    "two keys with one name": ("policies/workspaces/acme.toml", '\n[[keys]]\nid = "ci"\n', "keys"),
    "a wrong number": ("proxy.conf", "\n[limits]\npro_rpm = 0\n", "pro_rpm"),
}


@sampled(every=2)
@pytest.mark.parametrize(("name", "addition", "reason"), BAD_EDITS.values(), ids=BAD_EDITS)
def test_a_bad_edit_changes_nothing_is_logged_once_and_can_be_undone(
    own: Gateway, client: httpx.Client, name: str, addition: str, reason: str
) -> None:
    file = own.folder / name
    good = file.read_text()
    file.write_text(good + addition)
    failed = own.wait_for_log(lambda line: line.get("event") == "file broken")
    assert failed["level"] == "error"
    assert reason in failed["message"]
    assert file.name in failed["message"]
    # By now the page shows the same line, and the gateway is still ready.
    readiness = _ready(own)
    assert readiness["ready"] is True
    assert readiness["checks"]["settings"] in failed["message"]
    assert reason in readiness["checks"]["settings"]
    assert client.post(CHAT, json={"messages": HELLO}).status_code == 200
    assert _output_price(client) == Decimal("0.624")

    file.write_text(good)
    own.wait_for_log(lambda line: line.get("event") == "file mended")
    assert _ready(own)["checks"]["settings"] == "ok"
    assert sum(line["level"] == "error" for line in own.logs) == 1


def _gauge(own: Gateway, name: str) -> float:
    page = httpx.get(f"{own.admin_url}/metrics", timeout=BOUND_S, trust_env=False).text
    [number] = re.findall(rf"^{name} (\S+)$", page, re.MULTILINE)
    return float(number)


def test_a_reload_names_keys_and_no_value_and_a_failed_one_is_a_metric(own: Gateway) -> None:
    acme = own.folder / "policies" / "workspaces" / "acme.toml"
    good = acme.read_text()
    before = _gauge(own, "tollgate_settings_age_seconds")
    assert _gauge(own, "tollgate_reload_failed") == 0
    added = f'\n[[keys]]\nid = "spare"\nhash = "sha256:{"5" * 64}"\n'
    acme.write_text(good.replace('id = "ci"', 'id = "ci"\nrequest_cap = 987654321', 1) + added)
    line = own.wait_for_log(lambda line: line.get("event") == "settings reloaded")
    assert line["message"] == "settings reloaded: acme.toml: keys[ci].request_cap added, keys[spare] added"
    assert not [line for line in own.stderr_lines if "987654321" in line or "5" * 64 in line]
    assert 0 < before < BOUND_S

    acme.write_text("broken")
    own.wait_until(lambda: _gauge(own, "tollgate_reload_failed") == 1)
    age_s = _gauge(own, "tollgate_settings_age_seconds")
    acme.write_text(good)
    own.wait_until(lambda: _gauge(own, "tollgate_reload_failed") == 0)
    assert age_s > 0
    removed = "settings reloaded: acme.toml: keys[ci].request_cap removed, keys[spare] removed"
    own.wait_for_log(lambda line: line["message"] == removed)  # The log's thread may write it later.


@large_only
def test_a_good_edit_next_to_a_bad_one_waits_for_it(own: Gateway, client: httpx.Client) -> None:
    conf = own.folder / "proxy.conf"
    good = conf.read_text()
    conf.write_text(good + "\nsurprise = 1\n")
    own.wait_for_log(lambda line: "surprise" in line["message"])
    _edit_price(own, "10")
    own.wait_until(lambda: "surprise" in _ready(own)["checks"]["settings"])
    assert _output_price(client) == Decimal("0.624")
    conf.write_text(good)
    own.wait_until(lambda: _output_price(client) == Decimal("10.4"))


def test_a_revoked_key_is_refused_and_others_are_not(own: Gateway, client: httpx.Client) -> None:
    assert client.post(CHAT, json={"messages": HELLO}).status_code == 200
    conf = str(own.folder / "proxy.conf")
    command = [sys.executable, "-m", "addon.cli", "keys", "revoke", "acme", "ci", "--conf", conf]
    subprocess.run(command, env=environment({}), check=True, capture_output=True, timeout=BOUND_S)
    own.wait_until(lambda: client.post(CHAT, json={"messages": HELLO}).status_code == 401)
    other = {"Authorization": f"Bearer {own.keys['bare']}"}
    assert client.post(CHAT, headers=other, json={"messages": HELLO, "model": SLUG}).status_code == 200


def test_a_workspace_file_that_is_gone_takes_its_keys_with_it(own: Gateway, client: httpx.Client) -> None:
    (own.folder / "policies" / "workspaces" / "acme.toml").unlink()
    own.wait_until(lambda: client.post(CHAT, json={"messages": HELLO}).status_code == 401)


@sampled(every=2)
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_keeps_the_settings_that_it_started_with(
    own: Gateway, upstream: Upstream, stream: bool
) -> None:
    """The price rises and the call's key is revoked before the provider answers."""
    gate = Gate()
    tail = (event(chunk("two", finish="stop")), event(chunk(usage=USAGE)), DONE)
    upstream.behave(chunked(event(chunk("one")), gate, *tail) if stream else (gate, *whole(completion())))
    with RawClient(own.url) as caller:
        caller.send(own.chat_bytes(stream=stream))
        upstream.wait_for_requests()
        reloads = _reloads(own)
        _edit_price(own, "10")
        acme = own.folder / "policies" / "workspaces" / "acme.toml"
        acme.write_text(acme.read_text().replace("active = true", "active = false"))
        _wait_for_reload(own, reloads)
        own.wait_until(lambda: _is_refused(own))
        gate.open()
        answer = caller.read_answer()
    assert (answer.status, answer.complete) == (200, True)
    row = own.wait_for_row(str(answer.header("x-request-id")))
    assert (row["status"], row["key_id"], row["stream"]) == (200, "ci", int(stream))
    assert row["retail_nanousd"] == USAGE["prompt_tokens"] * 156 + USAGE["completion_tokens"] * 624


def _is_refused(own: Gateway) -> bool:
    answer = httpx.post(
        own.url + CHAT, headers=own.headers, json={"messages": []}, timeout=BOUND_S, trust_env=False
    )
    return answer.status_code == 401


@large_only
def test_a_section_that_needs_a_restart_is_logged_and_the_rest_applied(
    own: Gateway, client: httpx.Client
) -> None:
    conf = own.folder / "proxy.conf"
    text = conf.read_text().replace("drain_timeout_s = 120.0", "drain_timeout_s = 6")
    conf.write_text(text + '\n[billing]\nmarkup_percent = "0"\n')
    line = own.wait_for_log(lambda line: "after a restart" in line["message"])
    assert (line["level"], "[listen]" in line["message"]) == ("warning", True)
    own.wait_until(lambda: _output_price(client) == Decimal("0.6"))
