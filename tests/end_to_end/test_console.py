"""The console of a real gateway, as any HTTP client sees it."""

import httpx
from rig.bounds import BOUND_S
from rig.gateway import Gateway


def test_a_page_its_json_and_its_csv_have_the_same_rows(gateway: Gateway) -> None:
    page = httpx.get(f"{gateway.admin_url}/models", timeout=BOUND_S)
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=UTF-8"
    assert "tester-large" in page.text
    data = httpx.get(f"{gateway.admin_url}/api/v1/models", timeout=BOUND_S).json()
    slugs = [row["model_slug"] for row in data["models"]]
    assert "tester-large" in slugs
    text = httpx.get(f"{gateway.admin_url}/api/v1/models?format=csv", timeout=BOUND_S).text
    assert [line.split(",")[0] for line in text.splitlines()] == ["model_slug", *slugs]


def test_a_wrong_parameter_is_named(gateway: Gateway) -> None:
    page = httpx.get(f"{gateway.admin_url}/models?rnage=day", timeout=BOUND_S)
    assert page.status_code == 400
    assert "rnage: there is no such parameter here" in page.text
    data = httpx.get(f"{gateway.admin_url}/api/v1/models?format=xml", timeout=BOUND_S)
    assert data.status_code == 400
    assert data.json()["error"]["message"] == "format: must be one of json, csv"


def test_no_link_of_an_error_has_the_wrong_parameter(gateway: Gateway) -> None:
    page = httpx.get(f"{gateway.admin_url}/calls?range=yesteryear", timeout=BOUND_S)
    assert page.status_code == 400
    assert 'href="/calls"' in page.text
    assert "range=" not in page.text


def test_every_answer_has_the_headers_of_a_page_that_trusts_nothing(gateway: Gateway) -> None:
    for path in ("/models", "/api/v1/models", "/static/console.css", "/nothing", "/static/nothing"):
        headers = httpx.get(gateway.admin_url + path, timeout=BOUND_S).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; "), path
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers
