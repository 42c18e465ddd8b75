"""The upstream request of a chat request, made with the gateway's own code."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import SecretStr

from addon.apis.chat.request import parse_chat_request
from addon.dialects import DIALECTS
from addon.settings.settings import load_settings
from policies.family import Family
from policies.field_change import CHAT_BODY, FieldChange
from policies.model import Model
from policies.prices import Prices
from policies.provider import Provider
from policies.route import Target
from policies.sanitize import sanitize
from rig.configuration import ROOT

DIALECT_OF = {"openai_chat": "openai", "anthropic_messages": "anthropic", "gemini_generate": "gemini"}
"""The dialect of each recorded API."""

MODEL_CAP = 64_000
_FREE = Prices(0, 0, 0)


@cache
def shipped_families() -> Mapping[str, Family]:
    """Return the families of ``catalog_data/families.toml``, loaded like the gateway loads them."""
    with TemporaryDirectory() as folder:
        conf = Path(folder) / "proxy.conf"
        conf.write_text(f'[paths]\ncatalog = "{ROOT / "catalog_data"}"\nworkspaces = "."\n', encoding="utf-8")
        return load_settings(conf, {}).families


def sent(
    request: Mapping[str, Any], family: Family, dialect: str
) -> tuple[dict[str, Any], tuple[FieldChange, ...]]:
    """Return the provider's body for a client's body, and the changes of its fields. Raise Refusal."""
    chat = parse_chat_request(json.dumps(request).encode())
    provider = Provider("VENDOR", "https://vendor.example", dialect, ())
    model = Model(
        "slug", provider, "vendor-id", family, _FREE, _FREE, MODEL_CAP, byok_only=False, active=True
    )
    extras = {name: value for name, value in chat.extras.items() if name in family.extra}
    cap = min(chat.requested_cap or MODEL_CAP, MODEL_CAP)
    sanitized = sanitize({**chat.fields, **extras}, model, cap, chat.stream)
    target = Target(model, "payg", SecretStr("key"))
    body = json.loads(DIALECTS[dialect].request(target, dict(sanitized.body)).content)
    ignored = tuple(
        FieldChange(name, "dropped", "unknown", CHAT_BODY)
        for name in sorted(chat.extras.keys() - family.extra)
    )
    return body, sanitized.changes + ignored
