"""The requests that the gateway would send for the models of its own catalog, built without sending anything."""

import json
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from addon.apis import APIS
from addon.calls.call_state import Call
from addon.calls.hold_request import make_hold_request
from addon.calls.upstream_request import (
    accept_request,
    accept_route,
    ask_policies,
    find_route,
    find_window_cap_of,
    make_attempt,
    prepare_next_target,
)
from addon.settings.settings import Settings, load_settings
from addon.text.http_heads import Headers
from policies.call_stages import Stage
from policies.completion_cap import find_completion_cap
from policies.exchange import Exchange
from policies.model import Model
from policies.refusal import Refusal
from policies.spend import Hold, place_hold
from rig.configuration import ROOT, key_hash, new_key
from rig.toml_text import toml_text

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Built:
    """A request as it would go upstream, and what ``X-Gateway-Dropped`` would name."""

    path: str
    content: bytes
    dropped: str | None

    @property
    def body(self) -> Any:
        return json.loads(self.content)


@cache
def shipped_settings() -> Settings:
    """Return the settings of an operator who has a key for each provider of the shipped catalog."""
    key = new_key()
    workspace = {"name": "Acme", "plan": "pro", "keys": [{"id": "k", "hash": key_hash(key), "active": True}]}
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "workspaces").mkdir()
        (folder / "workspaces" / "acme.toml").write_text(toml_text(workspace), encoding="utf-8")
        paths = {"catalog": str(ROOT / "catalog_data"), "workspaces": "workspaces", "database": "tollgate.db"}
        tables = {"paths": paths, "sandbox": {"enabled": False}}
        (folder / "proxy.conf").write_text(toml_text(tables), encoding="utf-8")
        providers = tomllib.loads((ROOT / "catalog_data" / "providers.toml").read_text(encoding="utf-8"))
        named = [table.get("platform_key", "") for table in providers.values()]
        keys = {one.removeprefix("env:"): f"fake-{one}" for one in named if one}
        return load_settings(folder / "proxy.conf", keys)


def active_models() -> list[Model]:
    """Return the active chat models of the shipped catalog, without those of the built-in upstream."""
    models = shipped_settings().models.values()
    return [one for one in models if one.active and one.serves == "chat" and not one.provider.builtin]


def build(body: dict[str, Any], api: str = "chat") -> Built | Refusal:
    """Return the request that the gateway would send for a client's body of an API, or why it refuses it."""
    settings = shipped_settings()
    workspace = settings.workspaces["acme"]
    call = Call(Exchange("built", NOW, 0.0, Stage.ADMITTED, workspace, workspace.keys[0]), settings)
    call.api = APIS[api]
    try:
        accept_request(call, call.api.parse(json.dumps(body).encode(), Headers([])))
        accept_route(call, find_route(call))
        prepare_next_target(call, NOW)
        _, cap_tokens = ask_policies(call)
        cap_tokens = find_completion_cap(cap_tokens, find_window_cap_of(call, cap_tokens))
        hold = place_hold(make_hold_request(call, cap_tokens).max_cost, (), {})
        assert isinstance(hold, Hold)
        attempt = make_attempt(call, call.exchange.next_target, cap_tokens, hold)
    except Refusal as refusal:
        return refusal
    return Built(attempt.request.url, attempt.request.content, attempt.dropped)
