"""The public catalog: the contract's keys, exact prices, the same bytes for the same models."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from addon.calls.public_catalog import PublicCatalog, etag, format_catalog, is_fresh, make_public_rows
from policies.family import Family
from policies.model import Model
from policies.price_times import TimedPrices
from policies.prices import Prices
from policies.provider import Provider

WHOLESALE = Prices(150_000, 75_000, 600_000)
MODEL = Model(
    slug="vendor-large",
    provider=Provider("VENDOR", "https://vendor.example", "openai", (SecretStr("key"),)),
    upstream_model_id="vendor/large-2026",
    family=Family("plain"),
    wholesale=WHOLESALE,
    retail=Prices(156_000, 78_000, 624_000),
    max_completion_tokens=4096,
    byok_only=False,
    active=True,
)

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def test_a_row_has_the_keys_of_the_contract_at_retail_and_those_that_clients_look_for() -> None:
    assert json.loads(format_catalog([MODEL], NOW)) == [
        {
            "modelSlug": "vendor-large",
            "provider": "VENDOR",
            "upstreamModelId": "vendor/large-2026",
            "inputPricePerMRetail": 0.156,
            "outputPricePerMRetail": 0.624,
            "isByokOnly": False,
            "id": "vendor-large",
            "object": "model",
        }
    ]


def test_rows_are_active_and_ordered_by_slug() -> None:
    models = [replace(MODEL, slug=slug, active=slug != "b") for slug in ("c", "b", "a")]
    assert [row["modelSlug"] for row in make_public_rows(models, NOW)] == ["a", "c"]


def test_an_empty_catalog_is_an_empty_array() -> None:
    assert format_catalog([replace(MODEL, active=False)], NOW) == b"[]"


def test_byok_only_models_say_so() -> None:
    assert json.loads(format_catalog([replace(MODEL, byok_only=True)], NOW))[0]["isByokOnly"] is True


@pytest.mark.parametrize(
    ("provider", "byok_only"),
    [
        (Provider("VENDOR", "https://vendor.example", "openai", ()), True),
        (Provider("VENDOR", "https://vendor.example", "openai", (SecretStr("key"),)), False),
        (Provider("VENDOR", "https://vendor.example", "openai", (), auth="none"), False),
        (Provider("SANDBOX", "", "openai", (), builtin=True), False),
    ],
)
def test_a_model_whose_provider_wants_a_platform_key_and_has_none_is_for_own_keys_only(
    provider: Provider, byok_only: bool
) -> None:
    [row] = json.loads(format_catalog([replace(MODEL, provider=provider)], NOW))
    assert row["isByokOnly"] is byok_only


@pytest.mark.parametrize(
    ("microusd", "written"),
    [
        (0, "0"),
        (1, "0.000001"),
        (156_000, "0.156"),
        (3_000_000, "3"),
        (10**12, "1000000"),
        (3_120_001, "3.120001"),
    ],
)
def test_a_price_is_written_in_full_without_noise_or_exponent(microusd: int, written: str) -> None:
    body = format_catalog([replace(MODEL, retail=Prices(microusd, 0, 0))], NOW).decode()
    assert f'"inputPricePerMRetail":{written},' in body


@given(st.integers(0, 10**13))
def test_every_price_is_a_json_number_of_at_most_six_decimals(microusd: int) -> None:
    body = format_catalog([replace(MODEL, retail=Prices(0, 0, microusd))], NOW)
    price: Any = json.loads(body, parse_float=Decimal, parse_int=Decimal)[0]["outputPricePerMRetail"]
    assert price * 10**6 == microusd
    assert "e" not in str(price).lower()
    assert -price.as_tuple().exponent <= 6


def test_any_text_is_kept() -> None:
    awkward = 'quote " backslash \\ ü \u2028'
    assert (
        json.loads(format_catalog([replace(MODEL, upstream_model_id=awkward)], NOW))[0]["upstreamModelId"]
        == awkward
    )


def test_the_etag_is_strong_and_follows_the_bytes() -> None:
    body = format_catalog([MODEL], NOW)
    assert etag(body) == etag(format_catalog([replace(MODEL, max_completion_tokens=1)], NOW))
    assert etag(body) != etag(format_catalog([replace(MODEL, byok_only=True)], NOW))
    assert etag(body).startswith('"')
    assert etag(body).endswith('"')
    assert len(etag(body)) > 30


@pytest.mark.parametrize(
    ("if_none_match", "fresh"),
    [
        ('"abc"', True),
        ('W/"abc"', True),
        ('"x", "abc"', True),
        ("*", True),
        ("", False),
        ('"abcd"', False),
        ('x"abc"', False),
    ],
)
def test_a_client_that_has_the_catalog_gets_304(if_none_match: str, fresh: bool) -> None:
    assert is_fresh('"abc"', if_none_match) is fresh


def test_the_catalog_shows_the_prices_that_hold_now_without_a_restart() -> None:
    doubled = Prices(312_000, 156_000, 1_248_000)
    timed = TimedPrices(doubled, doubled, date(2027, 1, 1))
    catalog = PublicCatalog({"vendor-large": replace(MODEL, timed=(timed,)), "b": replace(MODEL, slug="b")})
    before, after = (
        datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(2027, 1, 1, tzinfo=UTC),
    )
    first, last = catalog.page(None, before), catalog.page(None, after)
    assert [row["inputPricePerMRetail"] for row in json.loads(first.body)] == [0.156, 0.156]
    assert [row["inputPricePerMRetail"] for row in json.loads(last.body)] == [0.156, 0.312]
    assert first.tag != last.tag
    assert catalog.page(None, after) is last
    assert json.loads(catalog.page("vendor-large", before).body)["outputPricePerMRetail"] == 0.624
    assert json.loads(catalog.page("vendor-large", after).body)["outputPricePerMRetail"] == 1.248
