"""The URL of a target and the header with its key, in each form; invalid model ids are refused."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr

from addon.dialects import DIALECTS
from addon.dialects.endpoint import auth_headers, endpoint_url
from policies.family import Family
from policies.model import Model
from policies.prices import Prices
from policies.provider import NO_SECRET, Provider
from policies.route import Target

PRICES = Prices(1, 1, 1)
BODY: Mapping[str, Any] = {
    "model": "m-1",
    "messages": [{"role": "user", "content": "hello"}],
    "max_tokens": 9,
}


def target(model_id: str = "m-1", secret: str = "key-1", **provider: Any) -> Target:
    made = Provider(
        **{"name": "P", "base_url": "https://p.example/v1", "dialect": "openai", **provider},
        platform_keys=(),
    )
    model = Model("slug", made, model_id, Family("plain"), PRICES, PRICES, 100, False, True)
    return Target(model, "payg", SecretStr(secret) if secret else NO_SECRET)


@pytest.mark.parametrize(
    ("auth", "header"),
    [
        ("bearer", ("authorization", "Bearer key-1")),
        ("google_service_account", ("authorization", "Bearer key-1")),
        ("api-key", ("api-key", "key-1")),
        ("x-api-key", ("x-api-key", "key-1")),
        ("x-goog-api-key", ("x-goog-api-key", "key-1")),
    ],
)
def test_a_key_is_sent_in_the_providers_header(auth: str, header: tuple[str, str]) -> None:
    assert auth_headers(target(auth=auth)) == (header,)
    request = DIALECTS["openai"].request(target(auth=auth), dict(BODY))
    assert [value for _, value in request.headers if "key-1" in value] == [header[1]]
    assert "key-1" not in request.url


def test_a_provider_without_keys_gets_none() -> None:
    keyless = target(secret="", auth="none")
    assert auth_headers(keyless) == ()
    assert keyless.secrets == ()


def test_a_signed_request_has_no_key_and_all_parts_of_its_credentials_are_secrets() -> None:
    signed = target(secret="AKID:secret-1:token-1", auth="aws_sigv4", aws_region="r-1", aws_service="s")
    assert auth_headers(signed) == (("x-amz-security-token", "token-1"),)
    assert auth_headers(target(secret="AKID:secret-1", auth="aws_sigv4")) == ()
    assert signed.secrets == ("AKID:secret-1:token-1", "AKID", "secret-1", "token-1")
    request = DIALECTS["openai"].request(signed, dict(BODY))
    lines = request.sign(datetime(2026, 11, 22, tzinfo=UTC)).decode().split("\r\n")
    names = "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token"
    assert lines[0] == "x-amz-date: 20261122T000000Z"
    assert lines[1].startswith(
        f"authorization: AWS4-HMAC-SHA256 Credential=AKID/20261122/r-1/s/aws4_request, {names}"
    )
    assert "secret-1" not in f"{lines}{request!r}{request.endpoint!r}"


AZURE = "/openai/deployments/{model}/chat/completions?api-version=2024-10-21"


@pytest.mark.parametrize(
    ("path", "model_id", "url"),
    [
        ("/chat/completions", "any/thing?", "https://p.example/v1/chat/completions"),
        (
            AZURE,
            "my-4o",
            "https://p.example/v1/openai/deployments/my-4o/chat/completions?api-version=2024-10-21",
        ),
        (
            "/models/{model}:generateContent",
            "gemini-2.5-flash",
            "https://p.example/v1/models/gemini-2.5-flash:generateContent",
        ),
        ("/{model}/x", "accounts/fireworks/models/x", "https://p.example/v1/accounts/fireworks/models/x/x"),
        ("/{model}/x", "@cf/meta/llama:free", "https://p.example/v1/@cf/meta/llama:free/x"),
        ("/{model}/x", "a?b#c d%2Fé", "https://p.example/v1/a%3Fb%23c%20d%252F%C3%A9/x"),
    ],
)
def test_the_model_is_quoted_in_the_path(path: str, model_id: str, url: str) -> None:
    assert endpoint_url(target(model_id), path) == url


@pytest.mark.parametrize("model_id", ["..", ".", "a/../../admin", "a//b", "/a", "a/"])
def test_a_model_can_not_change_the_path(model_id: str) -> None:
    with pytest.raises(ValueError, match="can't be part of a path"):
        endpoint_url(target(model_id), "/{model}/x")


def test_the_openai_dialect_uses_the_providers_own_path() -> None:
    request = DIALECTS["openai"].request(target("my-4o", chat_path=AZURE), dict(BODY))
    assert request.url == "https://p.example/v1" + AZURE.replace("{model}", "my-4o")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_configured_headers_win_over_the_dialects_own(dialect: str) -> None:
    headers = {"anthropic-version": "2024-01-01", "anthropic-beta": "b-1", "user-agent": "acme"}
    request = DIALECTS[dialect].request(target(dialect=dialect, headers=headers), dict(BODY))
    names = [name for name, _ in request.headers]
    assert len(names) == len(set(names))
    assert headers.items() <= dict(request.headers).items()


def test_each_dialect_has_its_own_endpoint() -> None:
    requests = {name: DIALECTS[name].request(target(dialect=name), dict(BODY)) for name in DIALECTS}
    assert {name: request.url for name, request in requests.items()} == {
        "openai": "https://p.example/v1/chat/completions",
        "anthropic": "https://p.example/v1/messages",
        "gemini": "https://p.example/v1/models/m-1:generateContent",
        "bedrock": "https://p.example/v1/model/m-1/converse",
        "responses": "https://p.example/v1/responses",
    }
    versions = {name: dict(request.headers).get("anthropic-version") for name, request in requests.items()}
    assert versions == dict.fromkeys(DIALECTS, None) | {"anthropic": "2023-06-01"}


def test_the_calls_to_a_target_share_its_url_and_headers() -> None:
    called = target()
    one, other = (DIALECTS["openai"].request(called, dict(BODY)) for _ in range(2))
    assert one.endpoint is other.endpoint
    streamed = DIALECTS["openai"].request(called, {**BODY, "stream": True})
    assert dict(streamed.headers)["accept"] == "text/event-stream"
    assert dict(one.headers)["accept"] == "application/json"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_another_key_has_headers_of_its_own(dialect: str) -> None:
    called = target(dialect=dialect)
    for secret in ("key-1", "key-2", "key-1"):
        with_key = called.with_platform_key(SecretStr(secret), int(secret[-1]))
        request = DIALECTS[dialect].request(with_key, dict(BODY))
        assert f"Bearer {secret}" in dict(request.headers).values()
        assert f"Bearer {secret}".encode() in request.endpoint.head_start
        for shown in (repr(with_key), repr(request), repr(request.endpoint), str(vars(with_key))):
            assert secret not in shown


def test_a_target_is_the_same_while_its_key_is_the_same_object() -> None:
    called, key = target(), SecretStr("key-2")
    assert called.with_platform_key(key, 2) is called.with_platform_key(key, 2)
    # A key that rests becomes another object, which shows whether a call was sent before.
    renewed = SecretStr("key-2")
    assert called.with_platform_key(renewed, 2).secret is renewed
    assert called.with_platform_key(renewed, 2) is called.with_platform_key(renewed, 2)
