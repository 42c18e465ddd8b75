"""A gateway whose providers fail at the will of each test: its settings, calls to it, and its open circuits."""

from dataclasses import dataclass, field
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from rig.bounds import BOUND_S
from rig.chat_requests import HELLO
from rig.configuration import model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.scripts import Received, Script, ordinary, whole
from rig.upstream import Upstream

PATH = "/v1/chat/completions"
FAILURES = 5
TESTS = ("passed-over", "clients-own", "alone", "own-key", "both", "clients", "too-dear", "stream")
CUSTOMER, PLATFORM = (f"fake-{whose}-key-{'0' * 24}" for whose in ("customer", "platform"))


def provider_of(test: str, place: str) -> str:
    return f"{test}-{place}".upper().replace("-", "_")


def circuit_settings(provider_url: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings of a gateway, and the keys of its clients.

    Each test has two providers with a model each, and workspaces with and without a fallback.
    """
    origin = provider_url.removesuffix("/v1")
    providers, models, workspaces, keys = {}, {}, {}, {}
    for test in TESTS:
        for place in ("first", "second"):
            name = provider_of(test, place)
            url = f"{origin}/{test}/{place}"
            providers[name] = provider(url, platform_key="env:TEST_PLATFORM_KEY")
            dear = {"input_price_per_m": "1000"} if (test, place) == ("too-dear", "second") else {}
            models[f"{test}/{place}"] = model(provider=name, **dear)
        own = {provider_of(test, "first"): {"secret": "env:TEST_CUSTOMER_KEY", "routing": True}}
        kinds: dict[str, dict[str, Any]] = {
            "safe": {"fallback_model": f"{test}/second"},
            "third": {"fallback_model": f"{test}/second"},
            "lone": {},
            "own": {"byok": own, "safety_net": True},
            "poor": {"fallback_model": f"{test}/second", "monthly_spend_cap_usd": "0.01"},
        }
        for kind, settings in kinds.items():
            keys[f"{test}-{kind}"] = new_key()
            made = workspace(("ci", keys[f"{test}-{kind}"], True), overage_protection=True, **settings)
            workspaces[f"{test}-{kind}"] = made
    settings = {
        "providers": providers,
        "models": models,
        "workspaces": workspaces,
        "environment": {"TEST_PLATFORM_KEY": PLATFORM, "TEST_CUSTOMER_KEY": CUSTOMER},
    }
    return settings, keys


@dataclass
class Scenario:
    """The providers and workspaces of one test. ``failing`` has the error status of a provider or of a key, by name."""

    test: str
    gateway: Gateway
    upstream: Upstream
    client: httpx.Client
    failing: dict[str, int] = field(default_factory=dict)

    def behave(self, request: Received) -> Script:
        place = request.target.split("/")[2]
        key = "customer" if CUSTOMER in str(request.headers) else "platform"
        status = self.failing.get(place) or self.failing.get(key)
        return whole({"error": {"message": f"{place} says no"}}, status) if status else ordinary(request)

    def call(self, kind: str, **body: Any) -> httpx.Response:
        """Call the first model, as the workspace of this kind."""
        headers = {"Authorization": f"Bearer {self.gateway.keys[f'{self.test}-{kind}']}"}
        asked = {"messages": HELLO, "model": f"{self.test}/first", "max_tokens": 5} | body
        return self.client.post(PATH, json=asked, headers=headers)

    def calls_that_open(self, kind: str, **body: Any) -> list[httpx.Response]:
        """Make as many calls as open a circuit."""
        return [self.call(kind, **body) for _ in range(FAILURES)]

    def row(self, answer: httpx.Response) -> dict[str, Any]:
        """Return attempts, fallback, slug, mode and status of the ledger row."""
        row = self.gateway.wait_for_row(answer.headers["x-request-id"])
        return {name: row[name] for name in ("attempts", "fallback", "model_slug", "mode", "status")}

    def asked(self) -> list[str]:
        """Return the providers called since the last call of this function, in order."""
        places = [request.target.split("/")[2] for request in self.upstream.requests]
        self.upstream.requests.clear()
        return places

    def circuits(self) -> str:
        """Return the text of /readyz on circuits. An open circuit never makes a gateway unready."""
        readiness = self.gateway.readiness()
        assert readiness.status_code == 200
        text: str = readiness.json()["checks"]["circuits"]
        return text

    def open_of(self, place: str) -> dict[tuple[str, str], int]:
        """Return the provider's number of open circuits in /metrics, by mode and scope."""
        metrics = httpx.get(f"{self.gateway.admin_url}/metrics", timeout=BOUND_S, trust_env=False).text
        return {
            (sample.labels["mode"], sample.labels["scope"]): int(sample.value)
            for family in text_string_to_metric_families(metrics)
            for sample in family.samples
            if sample.name == "tollgate_circuits_open"
            and sample.labels["provider"] == provider_of(self.test, place)
            and sample.value
        }

    def wait_until_open(self, place: str, mode: str = "payg") -> None:
        self.gateway.wait_until(lambda: self.open_of(place) == {(mode, "workspace"): 1})

    def wait_until_open_for_all(self, place: str, workspaces: int = 2) -> None:
        expected = {("payg", "workspace"): workspaces, ("payg", "all"): 1}
        self.gateway.wait_until(lambda: self.open_of(place) == expected)
