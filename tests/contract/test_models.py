"""Contract, "GET /v1/models" and "Catalog row"."""

import re
from decimal import Decimal
from typing import Any

import httpx
import openai
import pytest
from conftest import MODELS, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.upstream import Upstream

KEYS = {
    "modelSlug": str,
    "provider": str,
    "upstreamModelId": str,
    "inputPricePerMRetail": Decimal,
    "outputPricePerMRetail": Decimal,
    "isByokOnly": bool,
    # Not in the contract: some clients read these keys.
    "id": str,
    "object": str,
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


def test_each_row_has_the_six_keys_of_the_contract_and_the_extra_ones(
    anonymous: httpx.Client,
) -> None:
    for row in _rows(anonymous.get("/v1/models")).values():
        assert {name: type(value) for name, value in row.items()} == KEYS
        assert (row["id"], row["object"]) == (row["modelSlug"], "model")


def test_each_active_model_is_listed_once_and_no_other(anonymous: httpx.Client) -> None:
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


# --- one row ---------------------------------------------------------------------------------------------------


def test_one_row_equals_its_row_in_the_list_with_the_same_headers(anonymous: httpx.Client) -> None:
    listed = {row["modelSlug"]: row for row in anonymous.get("/v1/models").json()}
    for slug, row in listed.items():
        answer = anonymous.get(f"/v1/models/{slug}")
        assert (answer.status_code, answer.json()) == (200, row)
        assert answer.headers["content-type"].split(";")[0] == "application/json"
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["x-request-id"]


def test_one_row_has_an_etag_and_a_head(anonymous: httpx.Client) -> None:
    whole = anonymous.get("/v1/models/tester-large")
    etag = whole.headers["etag"]
    again = anonymous.get("/v1/models/tester-large", headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")
    head = anonymous.head("/v1/models/tester-large")
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", etag)
    assert head.headers["content-length"] == str(len(whole.content))


@pytest.mark.parametrize(
    "path",
    ["vendor/tall", "vendor%2Ftall", "vendor%2ftall", "Vendor/Tall", "vendor/tall?x=1", "%20vendor%2Ftall"],
)
def test_a_slug_with_a_slash_is_found_in_each_spelling(anonymous: httpx.Client, path: str) -> None:
    assert anonymous.get(f"/v1/models/{path}").json()["modelSlug"] == "vendor/tall"


@pytest.mark.parametrize(
    "slug", ["no-such-model", "tester-retired", "%FF", "tester-large/x", "a%252Fb", "%00"]
)
def test_an_unknown_slug_is_not_found_in_the_shape_of_the_contract(
    anonymous: httpx.Client, slug: str
) -> None:
    answer = anonymous.get(f"/v1/models/{slug}")
    error = assert_error(answer, 404, "model_not_found", "invalid_request_error")
    assert error["param"] == "model"
    assert slug not in error["message"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_one_row_can_only_be_read(anonymous: httpx.Client, method: str) -> None:
    answer = anonymous.request(method, "/v1/models/tester-large")
    assert_error(answer, 405, "method_not_allowed", "invalid_request_error")
    assert answer.headers["allow"] == "GET, HEAD"


def test_the_sdk_retrieves_one_model(gateway: Gateway) -> None:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="unused", max_retries=0) as sdk:
        assert sdk.models.retrieve("vendor/tall").id == "vendor/tall"
        with pytest.raises(openai.NotFoundError) as raised:
            sdk.models.retrieve("no-such-model")
    assert raised.value.code == "model_not_found"


def test_the_catalog_touches_no_upstream_and_no_ledger(
    anonymous: httpx.Client, upstream: Upstream, gateway: Gateway
) -> None:
    before = len(gateway.ledger_rows())
    assert anonymous.get("/v1/models").status_code == 200
    assert upstream.requests == []
    assert len(gateway.ledger_rows()) == before


@pytest.mark.parametrize("authorization", ["Bearer wrong", "Basic x", "", "Bearer"])
def test_the_catalog_ignores_keys(anonymous: httpx.Client, authorization: str) -> None:
    assert anonymous.get("/v1/models", headers={"Authorization": authorization}).status_code == 200


def test_the_catalog_has_no_cors_headers(anonymous: httpx.Client) -> None:
    answer = anonymous.get("/v1/models", headers={"Origin": "https://page.test"})
    assert not [name for name in answer.headers if name.startswith("access-control")]
