"""The public catalog is made from the loaded models alone: active rows, retail prices, no float.

Source: contract, "Catalog row" and "GET /v1/models". Pure.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from policies.model import Model
from policies.money import price_usd_per_mtok
from policies.refusal import Refusal
from policies.routing import find_model

CLIENTS_KEYS: Final = ("id", "object")
"""What a row bears beyond the contract, for clients that look for it. Source: OpenAI, API reference, "Models"."""


class Page(NamedTuple):
    """A JSON body and its strong ETag."""

    body: bytes
    tag: str


class PublicCatalog:
    """What ``GET /v1/models`` and ``GET /v1/models/{slug}`` answer, for one set of models."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = models
        self._all = _page(catalog_json(models.values()))

    def page(self, slug: str | None) -> Page:
        """Return all rows, or the one of ``slug``. Raises Refusal ``model_not_found``."""
        if slug is None:
            return self._all
        model = find_model(slug, self._models)
        if model is None or not model.active:
            message = "No active model of that name is in the catalog: GET /v1/models lists them."
            raise Refusal("model_not_found", message, "model")
        return _page(_object_json(_row(model)).encode())


def public_rows(models: Iterable[Model]) -> list[dict[str, Any]]:
    """Return the active models as rows, by slug; prices are exact (USD)."""
    active = sorted((model for model in models if model.active), key=lambda model: model.slug)
    return [_row(model) for model in active]


def _row(model: Model) -> dict[str, Any]:
    """Return the contract's six keys, and ``CLIENTS_KEYS``."""
    return {
        "modelSlug": model.slug,
        "provider": model.provider.name,
        "upstreamModelId": model.upstream_model_id,
        "inputPricePerMRetail": price_usd_per_mtok(model.retail.input_microusd_per_mtok),
        "outputPricePerMRetail": price_usd_per_mtok(model.retail.output_microusd_per_mtok),
        "isByokOnly": model.needs_own_key,
        "id": model.slug,
        "object": "model",
    }


def catalog_json(models: Iterable[Model]) -> bytes:
    """Return the body of ``GET /v1/models``: a JSON array at the root; equal models give equal bytes."""
    return rows_json(public_rows(models)).encode()


def _page(body: bytes) -> Page:
    return Page(body, etag(body))


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
