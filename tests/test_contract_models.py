"""Contract, "GET /v1/models" and "Catalog row"."""

import re
from decimal import Decimal
from typing import Any

import httpx
import pytest
from conftest import MODELS, StartGateway
from rig.configuration import model
from rig.gateway import Gateway
from rig.upstream import BOUND_S, Upstream

SIX_KEYS = {
    "modelSlug": str,
    "provider": str,
    "upstreamModelId": str,
    "inputPricePerMRetail": Decimal,
    "outputPricePerMRetail": Decimal,
    "isByokOnly": bool,
}


def _rows(answer: httpx.Response) -> dict[str, dict[str, Any]]:
    assert answer.status_code == 200
    listed = answer.json(parse_float=Decimal, parse_int=Decimal)
    assert isinstance(listed, list)
    return {row["modelSlug"]: row for row in listed}


@pytest.fixture
def anonymous(gateway: Gateway) -> Any:
    with httpx.Client(base_url=gateway.url, trust_env=False, timeout=BOUND_S) as made:
        yield made


def test_the_catalog_is_public_json_with_an_array_at_the_root(anonymous: httpx.Client) -> None:
    answer = anonymous.get("/v1/models")
    assert answer.headers["content-type"].split(";")[0] == "application/json"
    assert answer.headers["x-request-id"]
    assert answer.text.startswith("[")


def test_every_row_has_exactly_the_six_keys_of_the_contract(anonymous: httpx.Client) -> None:
    for row in _rows(anonymous.get("/v1/models")).values():
        assert {name: type(value) for name, value in row.items()} == SIX_KEYS


def test_every_active_model_is_listed_once_and_no_other(anonymous: httpx.Client) -> None:
    answer = anonymous.get("/v1/models")
    assert set(_rows(answer)) == {slug for slug, row in MODELS.items() if row["active"]}
    assert len(answer.json()) == len(_rows(answer))


@pytest.mark.parametrize(
    ("slug", "key", "value"),
    [
        ("tester-large", "provider", "TESTER"),
        ("tester-large", "upstreamModelId", "vendor/large-2026"),
        ("tester-large", "inputPricePerMRetail", Decimal("0.156")),
        ("tester-large", "outputPricePerMRetail", Decimal("0.624")),
        ("tester-large", "isByokOnly", False),
        ("tester-byok", "isByokOnly", True),
        ("keyless-model", "isByokOnly", True),
        ("refusing-model", "provider", "REFUSING"),
    ],
)
def test_a_row_says_what_the_catalog_says(anonymous: httpx.Client, slug: str, key: str, value: Any) -> None:
    assert _rows(anonymous.get("/v1/models"))[slug][key] == value


RETAIL: list[tuple[str, str]] = [
    ("0", "0"),
    ("0.000001", "0.000001"),
    ("0.000012", "0.000012"),
    ("0.000013", "0.000014"),
    ("0.15", "0.156"),
    ("0.075", "0.078"),
    ("1.234567", "1.28395"),
    ("0.000037", "0.000038"),
    ("2.5", "2.6"),
    ("15", "15.6"),
    ("600", "624"),
]


def test_a_retail_price_is_the_wholesale_price_and_four_percent_rounded_to_six_digits(
    start_gateway: StartGateway,
) -> None:
    models = {f"m{n}": model(input_price_per_m=given) for n, (given, _) in enumerate(RETAIL)}
    models["tester-large"] = model()
    gateway = start_gateway(models=models)
    answer = httpx.get(f"{gateway.url}/v1/models", timeout=BOUND_S, trust_env=False)
    rows = _rows(answer)
    seen = {given: rows[f"m{n}"]["inputPricePerMRetail"] for n, (given, _) in enumerate(RETAIL)}
    assert seen == {given: Decimal(retail) for given, retail in RETAIL}
    numbers = re.findall(r'"(?:in|out)putPricePerMRetail":\s*([^,}\s]+)', answer.text)
    assert numbers
    assert all(re.fullmatch(r"\d+(\.\d{1,6})?", number) for number in numbers)


def test_the_etag_saves_the_second_download(anonymous: httpx.Client) -> None:
    first = anonymous.get("/v1/models")
    etag = first.headers["etag"]
    again = anonymous.get("/v1/models", headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == etag
    other = anonymous.get("/v1/models", headers={"If-None-Match": '"another"'})
    assert (other.status_code, other.content) == (200, first.content)


def test_the_catalog_touches_no_upstream_and_no_ledger(
    anonymous: httpx.Client, upstream: Upstream, gateway: Gateway
) -> None:
    before = len(gateway.ledger_rows())
    assert anonymous.get("/v1/models").status_code == 200
    assert upstream.requests == []
    assert len(gateway.ledger_rows()) == before


@pytest.mark.parametrize("authorization", ["Bearer wrong", "Basic x", "", "Bearer"])
def test_no_key_is_looked_at(anonymous: httpx.Client, authorization: str) -> None:
    assert anonymous.get("/v1/models", headers={"Authorization": authorization}).status_code == 200


def test_a_browser_gets_no_leave_to_read_it(anonymous: httpx.Client) -> None:
    answer = anonymous.get("/v1/models", headers={"Origin": "https://page.test"})
    assert not [name for name in answer.headers if name.startswith("access-control")]
