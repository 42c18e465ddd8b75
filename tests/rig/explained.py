"""A catalog with all dialects and kinds of workspaces, for requests that are explained and then made."""

import tomllib
from pathlib import Path
from typing import Any

from rig.configuration import PROVIDER_KEY, ROOT, model, provider, workspace

CUSTOMER_KEY = "fake-customer-key-" + "1" * 24
ENVIRONMENT = {"TEST_PROVIDER_KEY": PROVIDER_KEY, "TEST_CUSTOMER_KEY": CUSTOMER_KEY}
MAX_REQUEST_BYTES = 20_000

FAMILIES = tomllib.loads((ROOT / "catalog_data" / "families.toml").read_text(encoding="utf-8"))
MODELS = {
    "gpt": model(
        provider="OPENAI", upstream_model_id="gpt-2026", max_completion_tokens=16_384, aliases=["gpt-latest"]
    ),
    "thinker": model(provider="OPENAI", family="openai-reasoning"),
    "split": model(provider="OPENAI", family="openai-reasoning-or-tools", dialect="responses"),
    "mistral": model(provider="OPENAI", family="mistral", context_window=16_384),
    "fire": model(provider="OPENAI", family="fireworks"),
    "claude": model(provider="CLAUDE", family="claude-sampling", max_completion_tokens=8_000),
    "gem": model(provider="GOOGLE", family="gemini", upstream_model_id="gem-9"),
    "dear": model(provider="OPENAI", input_price_per_m="1000", output_price_per_m="10000"),
    "own": model(provider="FOUNDRY", upstream_model_id="foundry/own"),
    "own-only": model(provider="FOUNDRY", byok_only=True),
    "paid-only": model(provider="OPENAI", byok_only=True),
    "old": model(provider="OPENAI", active=False),
    "keyless": model(provider="KEYLESS"),
    # A mistake of an operator: no Gemini model knows this word for "required".
    "odd": model(provider="GOOGLE", family="mistral"),
    "local": model(provider="LOCAL"),
    "lost": model(provider="LOST"),
    "echo": model(provider="SANDBOX", upstream_model_id="sandbox-chat-001", family="sandbox"),
    "broken": model(provider="OPENAI", upstream_model_id="broken-1"),
    "many": model(
        provider="OPENAI",
        upstream_model_id="many-1",
        context_window=20_000,
        deployments=[
            {"provider": "LOCAL", "upstream_model_id": "many-2", "weight": 3},
            {"provider": "KEYLESS", "upstream_model_id": "many-3"},
            {"provider": "OPENAI", "upstream_model_id": "many-4", "weight": 0},
        ],
    ),
    "cheap": model(
        provider="OPENAI",
        order="cheapest",
        deployments=[
            {
                "provider": "LOCAL",
                "upstream_model_id": "c",
                "input_price_per_m": "0",
                "output_price_per_m": "0",
            }
        ],
    ),
    "fast": model(
        provider="OPENAI", order="fastest", deployments=[{"provider": "LOCAL", "upstream_model_id": "f"}]
    ),
    "in-turn": model(
        provider="OPENAI",
        order="first",
        deployments=[{"provider": "FOUNDRY", "upstream_model_id": "t", "rpm": 60}],
    ),
    "own-broken": model(provider="FOUNDRY", upstream_model_id="broken-2"),
}
BYOK = {
    "FOUNDRY": {"secret": "env:TEST_CUSTOMER_KEY", "routing": True},
    "LOST": {"secret": "env:TEST_OWN_KEY_THAT_IS_NOT_SET", "routing": True},
    "QUIET": {"secret": "env:TEST_CUSTOMER_KEY", "routing": False},
}
RULES = [{"keywords": ["sql"], "model": "thinker"}, {"keywords": ["數據庫"], "model": "claude"}]
HEURISTICS = [{"when": "tools", "model": "mistral"}, {"when": "json", "model": "gem"}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]


def workspaces(keys: dict[str, str]) -> dict[str, Any]:
    """Return the workspaces, each with the name of its key. ``retired`` is a second, inactive key of ``plain``."""

    def one(name: str, **changes: Any) -> dict[str, Any]:
        return workspace((name, keys[name], True), **changes)

    aliases = [{"name": "haiku-*", "model": "claude"}]
    chosen = {"default_model": "gpt", "rules": RULES, "heuristics": HEURISTICS, "aliases": aliases}
    plain = workspace(("plain", keys["plain"], True), ("retired", keys["retired"], False), **chosen)
    capped = one("capped", monthly_spend_cap_usd="4", overage_protection=True, **chosen)
    capped["keys"][0] |= {"spend_cap_usd": "3", "spend_reset": "daily"}
    once = one("once", **chosen)
    once["keys"][0] |= {"request_cap": 1, "request_reset": "weekly"}
    return {
        "plain": plain,
        "capped": capped,
        "once": once,
        "bare": one("bare"),
        "acme": one("acme", byok=BYOK),
        "poor": one("poor", plan="standard", byok=BYOK, **chosen),
        "broke": one("broke", monthly_spend_cap_usd="0.015", overage_protection=True),
        "hop": one("hop", fallback_model="claude"),
        "long": one("long", context_fallback_model="claude"),
        "net": one("net", byok=BYOK, safety_net=True),
        "poor-net": one("poor-net", plan="standard", byok=BYOK, safety_net=True),
        "poor-hop": one(
            "poor-hop", monthly_spend_cap_usd="0.005", overage_protection=True, fallback_model="dear"
        ),
    }


NAMES = (
    "plain",
    "retired",
    "capped",
    "once",
    "bare",
    "acme",
    "poor",
    "broke",
    "hop",
    "long",
    "net",
    "poor-net",
    "poor-hop",
)


POLICY = """\
from policies.refusal import Refusal
from policies.review import Narrowing


def review(call):
    if "forbidden" in call.last_user_text:
        raise Refusal("byok_required", "Not here.", "messages")
    if "faulty" in call.last_user_text:
        raise KeyError(call.last_user_text)
    if "short" in call.last_user_text:
        return Narrowing(max_completion_tokens=10 if call.is_fallback else 40)
"""


def write_policy(folder: Path) -> None:
    """Write the policy that ``settings`` lists, next to the future proxy.conf."""
    file = folder / "policies" / "house.py"
    file.parent.mkdir(parents=True)
    file.write_text(POLICY, encoding="utf-8")


def settings(base: str, keys: dict[str, str], retries: int = 0) -> dict[str, Any]:
    """Return the fields of a ``Configuration``. All providers are at ``base``; ``keys`` have the names of ``NAMES``."""
    keyless = provider(base, platform_key="env:TEST_KEY_THAT_IS_NOT_SET")
    return {
        "providers": {
            **{name: provider(base) for name in ("OPENAI", "FOUNDRY", "LOST", "QUIET")},
            "CLAUDE": provider(base, dialect="anthropic"),
            "GOOGLE": provider(base, dialect="gemini"),
            "KEYLESS": keyless,
            "LOCAL": {"base_url": base, "dialect": "openai", "auth": "none"},
            "SANDBOX": {"dialect": "openai", "builtin": True},
        },
        "families": FAMILIES,
        "models": MODELS,
        "workspaces": workspaces(keys),
        "sections": {
            "sandbox": {"enabled": True},
            "upstream": {"retries": retries},
            "limits": {"max_request_bytes": MAX_REQUEST_BYTES},
            "policies": {"extra": ["house"]},
        },
        "environment": {"TEST_CUSTOMER_KEY": CUSTOMER_KEY},
    }
