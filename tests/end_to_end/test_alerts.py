"""Alerts reach a real receiver, signed, each threshold once: over workers, machines, restarts and crashes."""

import hashlib
import hmac
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.commands import tollgate
from rig.configuration import CLI, model, new_key, workspace
from rig.gateway import Gateway
from rig.metrics import read
from rig.scripts import whole
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"
SECRET = "obviously-fake-signing-secret"
TAKEN = whole(b"", status=204)
# A call has 11 tokens and costs 0.01144 USD, so ten calls use up this cap.
MODELS = {"dear": model(input_price_per_m="1000", output_price_per_m="1000")}
CAP = "0.1144"
TWO_WORKERS = ("--port", "0", "--workers", "2")


def scraped(gateway: Gateway, name: str, **labels: str) -> float | None:
    """Return one number of the metrics page, None when there is none."""
    answer = httpx.get(f"{gateway.admin_url}/metrics", timeout=BOUND_S, trust_env=False)
    samples = read((answer.headers["content-type"], answer.content))
    return samples.get(name, {}).get(frozenset(labels.items()))


class Receiver(Upstream):
    """A webhook's receiver. It takes each event, unless the test lets it behave in another way."""

    def __init__(self) -> None:
        super().__init__()
        self.behave(TAKEN)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks/token-in-the-path"

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the bodies of one type so far."""
        return [body for one in list(self.requests) if (body := one.json())["type"] == kind]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


class Scene:
    """A gateway with a webhook, and one key of the workspace ``acme``."""

    def __init__(self, start: StartGateway, receiver: Receiver, **acme: Any) -> None:
        self._start, self.receiver, self.key = start, receiver, new_key()
        self._acme = {"plan": "pro", "overage_protection": False, "default_model": "dear"} | acme
        self.gateway: Gateway | None = None

    def start(self, sections: Any = (), folder: Path | None = None, **changes: Any) -> Gateway:
        keys = [{"id": "ci", **self._acme.pop("key", {})}]
        made = workspace(("ci", self.key, True), **self._acme)
        made["keys"][0] |= keys[0]
        self.gateway = self._start(
            folder=folder or (self.gateway.folder if self.gateway else None),
            models=MODELS,
            workspaces={"acme": made},
            sections={"alerts": {"webhook": "env:HOOK", "secret": "env:HOOK_SECRET"}} | dict(sections),
            environment={"HOOK": self.receiver.url, "HOOK_SECRET": SECRET},
            **changes,
        )
        return self.gateway

    def call(self, times: int = 1) -> list[int]:
        assert self.gateway
        headers = {"Authorization": f"Bearer {self.key}"}
        url = self.gateway.url + CHAT
        return [
            httpx.post(
                url, headers=headers, json={"messages": HELLO}, timeout=BOUND_S, trust_env=False
            ).status_code
            for _ in range(times)
        ]

    def percents(self) -> list[int]:
        return [event["percent"] for event in self.receiver.events("budget.threshold")]

    def wait_for_percents(self, *percents: int) -> None:
        assert self.gateway
        self.gateway.wait_until(lambda: len(self.percents()) >= len(percents))
        assert self.percents() == list(percents)


def test_each_threshold_of_a_month_is_sent_once_signed_and_survives_a_restart(
    start_gateway: StartGateway, upstream: Upstream, receiver: Receiver
) -> None:
    scene = Scene(start_gateway, receiver, monthly_spend_cap_usd=CAP)
    gateway = scene.start()
    assert scene.call(8) == [200] * 8
    scene.wait_for_percents(80)
    [request] = receiver.requests
    signature = hmac.new(SECRET.encode(), request.body, hashlib.sha256).hexdigest()
    assert request.header("X-Tollgate-Signature") == f"sha256={signature}"
    assert request.target == "/hooks/token-in-the-path"
    event = request.json()
    assert event["id"].startswith("evt_")
    assert (event["workspace"], event["key_id"], event["limit"]) == ("acme", None, "monthly_spend_cap")
    assert (event["used_nanousd"], event["limit_nanousd"]) == (91_520_000, 114_400_000)
    assert event["left_nanousd"] == 22_880_000
    assert event["text"] == "acme has used 80% of its monthly spend cap: 0.09152 of 0.1144 USD."
    gateway.stop()
    gateway = scene.start(program=CLI)
    assert scene.call(3) == [200, 200, 402]
    scene.wait_for_percents(80, 95, 100)
    assert len({one.json()["id"] for one in receiver.requests}) == 3
    gateway.wait_until(lambda: scraped(gateway, "tollgate_alert_deliveries_total", outcome="sent") == 2)
    assert scraped(gateway, "tollgate_alerts_total", type="budget.threshold") == 2
    gateway.wait_until(lambda: scraped(gateway, "tollgate_alerts_waiting") == 0)


def test_a_wallet_and_the_caps_of_a_key_have_thresholds(
    start_gateway: StartGateway, upstream: Upstream, receiver: Receiver
) -> None:
    scene = Scene(
        start_gateway,
        receiver,
        plan="standard",
        alert_at_percent=[50],
        key={"spend_cap_usd": CAP, "spend_reset": "daily", "request_cap": 6},
    )
    gateway = scene.start(sections={"metrics": {"workspaces": True}})
    assert tollgate(gateway.folder, "wallet", "credit", "acme", "0.09152").returncode == 0
    assert scene.call(5) == [200] * 5
    gateway.wait_until(lambda: len(receiver.events("budget.threshold")) >= 3)
    by_limit = {event["limit"]: event for event in receiver.events("budget.threshold")}
    assert set(by_limit) == {"wallet", "spend_cap", "request_cap"}
    assert by_limit["request_cap"]["used_requests"] in (3, 4, 5)
    assert by_limit["request_cap"]["limit_requests"] == 6
    assert by_limit["spend_cap"]["key_id"] == by_limit["request_cap"]["key_id"] == "ci"
    assert by_limit["wallet"]["limit_nanousd"] == 91_520_000
    gateway.wait_until(
        lambda: scraped(gateway, "tollgate_workspace_wallet_usd", workspace="acme") == pytest.approx(0.03432)
    )
