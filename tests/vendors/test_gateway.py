"""A sample of the matrix through a real gateway, whose providers answer as the strict vendors do."""

import tomllib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.configuration import ROOT, new_key, provider, workspace
from rig.gateway import Gateway
from rig.strict_vendors import answer, base_url
from rig.upstream import Upstream
from rig.vendor_cases import CASES

CATALOG = ROOT / "catalog_data"
SLUGS = (
    *(
        "gpt-5.5",
        "claude-opus-5-5",
        "gemini-3.8-flash",
        "nova-lite",
        "llama-3.3-70b-bedrock",
        "mistral-large-3",
    ),
    *(
        "kimi-k2.6",
        "deepseek-v4-pro",
        "grok-4.5",
        "glm-5.3",
        "minimax-m3",
        "command-a",
        "hermes-4-405b-openrouter",
    ),
)
SAMPLE = (
    *(
        "no cap, whole",
        "no cap, streamed",
        "cap above any maximum, whole",
        "tool loop",
        "JSON schema",
        "image",
    ),
    *("effort none", "effort max", "n 2", "six stops", "penalties", "late system message"),
)
KEY = new_key()


def table(name: str) -> dict[str, Any]:
    return tomllib.loads((CATALOG / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway) -> Iterator[Gateway]:
    with Upstream() as upstream:
        upstream.behave(answer)
        models = {slug: table("models.toml")[slug] for slug in SLUGS}
        shipped = table("providers.toml")
        providers = {
            name: provider(base_url(upstream.base_url, name), dialect=shipped[name]["dialect"])
            for name in {model["provider"] for model in models.values()}
        }
        yield start_gateway(
            providers=providers,
            models=models,
            families=table("families.toml"),
            workspaces={"acme": workspace(("k", KEY, True))},
        )
        assert upstream.failures == []


@pytest.mark.parametrize("slug", SLUGS)
def test_no_vendor_refuses_what_the_gateway_sends(gateway: Gateway, slug: str) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    with httpx.Client(headers=headers, timeout=BOUND_S, trust_env=False) as client:
        for case in SAMPLE:
            body = {"model": slug, **CASES[case](0)}
            answered = client.post(f"{gateway.url}/v1/chat/completions", json=body)
            if answered.status_code != 200:
                # The gateway's own refusals name a field; those of a vendor have its message.
                error = answered.json()["error"]
                assert (answered.status_code, error["code"]) == (400, "validation_failed"), (case, error)
            else:
                assert '"finish_reason":"stop"' in answered.text.replace(": ", ":"), (case, answered.text)
