"""The public catalog: the active models with their retail prices, without any float. Pure.

Source: contract, "Catalog row" and "GET /v1/models".
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
"""Keys of a row beyond the contract, for clients that look for them. Source: OpenAI, API reference, "Models"."""


class Page(NamedTuple):
    """A JSON body and its strong ETag."""

    body: bytes
    tag: str


class PublicCatalog:
    """The answers to ``GET /v1/models`` and ``GET /v1/models/{slug}`` for one set of models."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = models
        self._all = _page(format_catalog(models.values()))

    def page(self, slug: str | None) -> Page:
        """Return all rows, or the row of ``slug``. Raises Refusal ``model_not_found``."""
        if slug is None:
            return self._all
        model = find_model(slug, self._models)
        if model is None or not model.active:
            message = "No active model of that name is in the catalog: GET /v1/models lists them."
            raise Refusal("model_not_found", message, "model")
        return _page(_object_json(_row(model)).encode())


def make_public_rows(models: Iterable[Model]) -> list[dict[str, Any]]:
    """Return the active models as rows, sorted by slug. Prices are exact, in USD."""
    active = sorted((model for model in models if model.active), key=lambda model: model.slug)
    return [_row(model) for model in active]


def _row(model: Model) -> dict[str, Any]:
    """Return a row: the contract's six keys and ``CLIENTS_KEYS``."""
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


def format_catalog(models: Iterable[Model]) -> bytes:
    """Return the body of ``GET /v1/models``, a JSON array. Equal models give equal bytes."""
    return format_rows(make_public_rows(models)).encode()


def _page(body: bytes) -> Page:
    return Page(body, etag(body))


def format_rows(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as a JSON array. A Decimal becomes a plain number with exactly its digits."""
    return "[" + ",".join(_object_json(row) for row in rows) + "]"


def etag(body: bytes) -> str:
    """Return the strong ETag of these bytes, with its quotes."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def _object_json(row: Mapping[str, Any]) -> str:
    return "{" + ",".join(f"{json.dumps(key)}:{_value_json(value)}" for key, value in row.items()) + "}"


def _value_json(value: Any) -> str:
    # "f" never writes an exponent. The contract wants plain decimals.
    return format(value, "f") if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def is_fresh(tag: str, if_none_match: str) -> bool:
    """Return whether a client that sent ``If-None-Match`` has the catalog of ``tag`` already (RFC 9110, 13.1.2)."""
    known = {part.strip().removeprefix("W/") for part in if_none_match.split(",")}
    return tag in known or "*" in known
