"""The receiver of a webhook, and a gateway with one."""

from pathlib import Path
from typing import Any

import httpx

from rig.bounds import BOUND_S
from rig.configuration import model, new_key, workspace
from rig.gateway import Gateway
from rig.metrics import read
from rig.scripts import whole
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"
PATH_TOKEN = "Zq7token3in4the5path6Kx"
SIGNING_SECRET = "obviously9fake2signing7secret"
TAKEN = whole(b"", status=204)
MODELS = {"dear": model(input_price_per_m="1000", output_price_per_m="1000")}
"""A call of it has 11 tokens and costs 0.01144 USD."""
TEN_CALLS = "0.1144"


class Receiver(Upstream):
    """A receiver. It takes each event, unless the test lets it behave in another way."""

    def __init__(self, **changes: Any) -> None:
        super().__init__(**changes)
        self.behave(TAKEN)

    @property
    def url(self) -> str:
        return self.base_url.removesuffix("/v1") + f"/hooks/{PATH_TOKEN}"

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of one type so far, each attempt."""
        return [body for one in list(self.requests) if (body := one.json())["type"] == kind]

    def percents(self) -> list[int]:
        return [event["percent"] for event in self.events("budget.threshold")]


class Alerting:
    """A gateway with a webhook, and one key of the workspace ``acme``. ``acme`` are changes of its file."""

    def __init__(self, start: Any, receiver: Receiver, **acme: Any) -> None:
        self._start, self.receiver, self.key = start, receiver, new_key()
        key = acme.pop("key", {})
        pro = {"plan": "pro", "overage_protection": False, "default_model": "dear"}
        self.acme = workspace(("ci", self.key, True), **pro | acme)
        self.acme["keys"][0] |= key
        self.folder: Path | None = None
        self.gateway: Gateway

    def start(self, **changes: Any) -> Gateway:
        """Start it, with the files of the last start."""
        settings: dict[str, Any] = {"models": MODELS, "workspaces": {"acme": self.acme}} | changes
        settings["sections"] = {"alerts": {"webhook": "env:HOOK", "secret": "env:HOOK_SECRET"}} | dict(
            changes.get("sections", {})
        )
        hook = {"HOOK": self.receiver.url, "HOOK_SECRET": SIGNING_SECRET}
        settings["environment"] = hook | dict(changes.get("environment", {}))
        self.gateway = self._start(folder=self.folder, **settings)
        self.folder = self.gateway.folder
        return self.gateway

    def call(self, times: int = 1, **body: Any) -> list[int]:
        """Make calls one after the other. Return their statuses."""
        return [call(self.gateway, self.key, **body) for _ in range(times)]

    def wait_for_percents(self, *percents: int) -> None:
        """Wait until so many thresholds arrived, and compare them."""
        self.gateway.wait_until(lambda: len(self.receiver.percents()) >= len(percents))
        arrived = self.receiver.percents()
        assert arrived == list(percents), arrived

    def wait_for_event(self, kind: str) -> dict[str, Any]:
        """Return the only event of a type."""
        self.gateway.wait_until(lambda: bool(self.receiver.events(kind)))
        [event] = self.receiver.events(kind)
        return event


def call(gateway: Gateway, key: str, **body: Any) -> int:
    made = {"messages": [{"role": "user", "content": "hello"}]} | body
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.post(
        gateway.url + CHAT, headers=headers, json=made, timeout=BOUND_S, trust_env=False
    ).status_code


def scrape(gateway: Gateway, name: str, **labels: str) -> float | None:
    """Return one number of the metrics page, None when there is none."""
    answer = httpx.get(f"{gateway.admin_url}/metrics", timeout=BOUND_S, trust_env=False)
    samples = read((answer.headers["content-type"], answer.content))
    return samples.get(name, {}).get(frozenset(labels.items()))
