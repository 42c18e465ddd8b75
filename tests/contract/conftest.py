"""A gateway with one workspace. The test chooses its limits and its wallet."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, workspace
from rig.gateway import Gateway
from rig.money import credit
from rig.scripts import completion, whole
from rig.upstream import Upstream

PATH = "/v1/chat/completions"
MODELS = {
    # Retail prices: 1 USD for 1,000 prompt tokens, 1 USD for 100 completion tokens.
    "dear": model(input_price_per_m="1000", output_price_per_m="10000", max_completion_tokens=1_000),
    "cheap": model(input_price_per_m="0.001", output_price_per_m="0.001"),
}
PAID = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
PAID_NANOUSD = 10 * 1_000_000 + 5 * 10_000_000


class Limited:
    """A gateway with one workspace. The test sets its file and its wallet."""

    def __init__(self, start: StartGateway, key: dict[str, Any], wallet: str | None, **settings: Any) -> None:
        secret = new_key()
        made = workspace(
            ("ci", secret, True), **{"rpm_override": 1_000, "overage_protection": False} | settings
        )
        made["keys"][0] |= key
        made = {name: value for name, value in made.items() if value is not None}
        self.gateway: Gateway = start(
            models=MODELS, workspaces={"acme": made}, sections={"billing": {"markup_percent": "0"}}
        )
        self.headers = {"Authorization": f"Bearer {secret}"}
        if wallet:
            credit(self.ledger, "acme", wallet)

    @property
    def ledger(self) -> Path:
        return self.gateway.folder / "var" / "tollgate.db"

    def chat(self, **body: Any) -> httpx.Response:
        asked = {"model": "dear", "messages": HELLO} | body
        return httpx.post(
            self.gateway.url + PATH, json=asked, headers=self.headers, timeout=BOUND_S, trust_env=False
        )

    def settled(self, answer: httpx.Response) -> dict[str, Any]:
        return self.gateway.wait_for_row(answer.headers["x-request-id"])


@pytest.fixture
def limited(start_gateway: StartGateway, upstream: Upstream) -> Any:
    upstream.behave(whole(completion(usage=PAID)))

    def make(key: dict[str, Any] | None = None, wallet: str | None = None, **settings: Any) -> Limited:
        return Limited(start_gateway, key or {}, wallet, **settings)

    return make
