"""The public catalog is made from the loaded models alone: active rows, six keys, retail prices, no float.

Source: contract, "Catalog row" and "GET /v1/models". Pure.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from policies.facts import Model
from policies.money import price_usd_per_mtok


def public_rows(models: Iterable[Model]) -> list[dict[str, Any]]:
    """Return the active models as rows of exactly the contract's six keys, by slug; prices are exact (USD)."""
    active = sorted((model for model in models if model.active), key=lambda model: model.slug)
    return [
        {
            "modelSlug": model.slug,
            "provider": model.provider.name,
            "upstreamModelId": model.upstream_model_id,
            "inputPricePerMRetail": price_usd_per_mtok(model.retail.input_microusd_per_mtok),
            "outputPricePerMRetail": price_usd_per_mtok(model.retail.output_microusd_per_mtok),
            "isByokOnly": model.needs_own_key,
        }
        for model in active
    ]


def catalog_json(models: Iterable[Model]) -> bytes:
    """Return the body of ``GET /v1/models``: a JSON array at the root; equal models give equal bytes."""
    return rows_json(public_rows(models)).encode()


def rows_json(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as a JSON array in which a Decimal is a plain number with the digits that it has."""
    return "[" + ",".join(_object_json(row) for row in rows) + "]"


def etag(body: bytes) -> str:
    """Return the strong ETag of exactly these bytes, quotes included."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def _object_json(row: Mapping[str, Any]) -> str:
    return "{" + ",".join(f"{json.dumps(key)}:{_value_json(value)}" for key, value in row.items()) + "}"


def _value_json(value: Any) -> str:
    # "f" never writes an exponent, which the contract's six decimals leave no room for.
    return format(value, "f") if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def is_fresh(tag: str, if_none_match: str) -> bool:
    """Tell whether a client that sent ``If-None-Match`` has the catalog of ``tag`` already (RFC 9110, 13.1.2)."""
    known = {part.strip().removeprefix("W/") for part in if_none_match.split(",")}
    return tag in known or "*" in known
