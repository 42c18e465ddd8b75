"""The public catalog: the active models with their retail prices, without any float; and as vendors list them. Pure.

Source: contract, "Catalog row" and "GET /v1/models".
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

from addon.calls.model_lists import (
    format_anthropic_list,
    format_openai_list,
    make_anthropic_model,
    make_openai_model,
)
from addon.text.json_encode import encode_json
from policies.model import Model
from policies.model_names import ModelNames
from policies.money import price_usd_per_mtok
from policies.price_times import TimedPrices, find_in_force
from policies.refusal import Refusal

CLIENTS_KEYS: Final = ("id", "object")
"""Keys of a row beyond the contract, for clients that look for them. Source: OpenAI, API reference, "Models"."""


type ListShape = Literal["contract", "anthropic", "openai"]
"""Whose shape an answer has: the contract's rows, or what the SDKs of a vendor read."""


class Page(NamedTuple):
    """A JSON body and its strong ETag."""

    body: bytes
    tag: str


class PublicCatalog:
    """The answers to ``GET /v1/models`` and ``GET /v1/models/{slug}`` for one set of models."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = models
        self._names = ModelNames(models)
        self._timed = [model.timed for model in models.values() if model.timed]
        self._all: tuple[list[TimedPrices | None], Page] | None = None

    def page(self, slug: str | None, now: datetime) -> Page:
        """Return all rows, or the row of ``slug``, at the prices of ``now``. Raises Refusal ``model_not_found``."""
        if slug is None:
            return self._page_of_all(now)
        return _page(_object_json(_row(self._find(slug).at(now))).encode())

    def anthropic_page(self, slug: str | None, query: str) -> Page:
        """Return the models that ``query`` asks for, or one, as Anthropic has them. Raises Refusal."""
        if slug is None:
            return _page(format_anthropic_list(self._models.values(), query))
        return _page(encode_json(make_anthropic_model(self._find(slug))))

    def openai_page(self, slug: str | None) -> Page:
        """Return all models, or one, as OpenAI has them. Raises Refusal ``model_not_found``."""
        if slug is None:
            return _page(format_openai_list(self._models.values()))
        return _page(encode_json(make_openai_model(self._find(slug))))

    def _find(self, slug: str) -> Model:
        model = self._names.find(slug)
        if model is None or not model.active:
            message = "No active model of that name is in the catalog: GET /v1/models lists them."
            raise Refusal("model_not_found", message, "model")
        return model

    def _page_of_all(self, now: datetime) -> Page:
        """Return all rows. They are made again once another price holds."""
        in_force = [find_in_force(timed, now) for timed in self._timed]
        if self._all is None or self._all[0] != in_force:
            self._all = in_force, _page(format_catalog(self._models.values(), now))
        return self._all[1]


def make_public_rows(models: Iterable[Model], now: datetime) -> list[dict[str, Any]]:
    """Return the active chat models as rows, sorted by slug, with the prices that hold ``now``: exact, in USD.

    Clients offer each of them for chat, and the contract knows no other calls.
    """
    active = sorted((one for one in models if one.active and one.serves == "chat"), key=lambda one: one.slug)
    return [_row(model.at(now)) for model in active]


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


def format_catalog(models: Iterable[Model], now: datetime) -> bytes:
    """Return the body of ``GET /v1/models``, a JSON array. Equal models and prices give equal bytes."""
    return format_rows(make_public_rows(models, now)).encode()


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
