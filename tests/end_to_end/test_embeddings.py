"""``POST /v1/embeddings`` with the real SDK: every input, both formats, money and limits as for any call."""

import base64
import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import openai
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, provider, workspace
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.money import credit, holds
from rig.scripts import Received, Script, whole
from rig.upstream import Upstream

VECTOR = [0.25, -0.5, 1.0]
PACKED = base64.b64encode(struct.pack("<3f", *VECTOR)).decode()


def embedder(**changes: Any) -> dict[str, Any]:
    """Return a model of embeddings at $1 per million tokens."""
    made = model(serves="embeddings", input_price_per_m="1", **changes)
    return {
        name: value
        for name, value in made.items()
        if name not in ("output_price_per_m", "max_completion_tokens")
    }


def embedded(request: Received) -> Script:
    """Answer as OpenAI does: 3 tokens for each input."""
    asked = request.json()
    given = asked["input"]
    count = len(given) if isinstance(given, list) and not isinstance(given[0], int) else 1
    vector = PACKED if asked.get("encoding_format") == "base64" else VECTOR
    data = [{"object": "embedding", "index": at, "embedding": vector} for at in range(count)]
    usage = {"prompt_tokens": 3 * count, "total_tokens": 3 * count}
    return whole({"object": "list", "data": data, "model": asked["model"], "usage": usage})


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, upstreams: dict[str, Any]) -> Gateway:
    base = upstreams["TESTER"].base_url
    keys = {name: new_key() for name in ("acme", "own", "poor", "slow")}
    path = "/deployments/{model}/chat/completions?api-version=1"
    made = start_gateway(
        providers={"A": provider(base), "B": provider(base, chat_path=path), "C": provider(base)},
        families={"openai-chat": {}, "ada": {"drops": ["dimensions"]}},
        models={
            "embed": embedder(
                provider="A",
                upstream_model_id="a",
                aliases=["embed-2024"],
                order="first",
                deployments=[{"provider": "B", "upstream_model_id": "b"}],
            ),
            "ada": embedder(provider="A", family="ada", upstream_model_id="ada"),
            "dear": embedder(provider="A", upstream_model_id="dear") | {"input_price_per_m": "1000"},
            "chat": model(provider="A", upstream_model_id="chat"),
        },
        workspaces={
            "acme": workspace(
                ("ci", keys["acme"], True),
                fallback_model="chat",
                default_model="chat",
                rules=[{"keywords": ["sql"], "model": "chat"}],
                aliases=[{"name": "text-embedding-*", "model": "embed"}],
            ),
            "own": workspace(
                ("ci", keys["own"], True), byok={"C": {"secret": "env:TEST_OWN_KEY", "routing": True}}
            ),
            "poor": workspace(("ci", keys["poor"], True), plan="standard"),
            "slow": workspace(("ci", keys["slow"], True), rpm_override=1),
        },
        environment={"TEST_OWN_KEY": "customer-key"},
    )
    made.keys = keys
    return made


@pytest.fixture
def provider_(upstream: Upstream) -> Upstream:
    upstream.behave(embedded)
    return upstream


@pytest.fixture
def sdk(gateway: Gateway, provider_: Upstream) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.keys["acme"], max_retries=0) as made:
        yield made
    assert provider_.failures == []
    gateway.wait_until(lambda: not holds(gateway.folder / "var" / "tollgate.db"))


@pytest.fixture
def post(gateway: Gateway, provider_: Upstream) -> Callable[..., httpx.Response]:
    def send(key: str, **body: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {gateway.keys[key]}"}
        return httpx.post(
            f"{gateway.url}/v1/embeddings", json=body, headers=headers, timeout=BOUND_S, trust_env=False
        )

    return send


@pytest.mark.parametrize("given", ["one", ["one", "two"], [1, 2, 3], [[1, 2], [3]]], ids=str)
def test_the_sdk_gets_vectors_for_each_kind_of_input(
    sdk: openai.OpenAI, provider_: Upstream, gateway: Gateway, given: Any
) -> None:
    raw = sdk.embeddings.with_raw_response.create(model="embed", input=given, dimensions=3, user="u-1")
    answer = raw.parse()
    count = 1 if given == "one" or given == [1, 2, 3] else 2
    assert answer.model == "embed"
    assert [one.embedding for one in answer.data] == [VECTOR] * count
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (3 * count, 3 * count)
    # The SDK asks for base64 by itself.
    assert provider_.last.json() == {
        "model": "a", "input": given, "dimensions": 3, "user": "u-1", "encoding_format": "base64"
    }  # fmt: skip
    assert provider_.last.target == "/v1/embeddings"
    row = gateway.wait_for_row(raw.headers["x-request-id"])
    assert (row["api"], row["model_slug"], row["stream"], row["status"]) == ("embeddings", "embed", 0, 200)
    assert (row["prompt_tokens"], row["completion_tokens"], row["usage_source"]) == (3 * count, 0, "provider")
    assert (row["wholesale_nanousd"], row["retail_nanousd"]) == (3_000 * count, 3_120 * count)
    assert row["end_user"] == "u-1"


def test_floats_come_as_the_provider_wrote_them(sdk: openai.OpenAI, provider_: Upstream) -> None:
    vector = b'{"data":[{"index":0,"embedding":[1e-3,-0.50]}],'
    body = vector + b'"model":"a","id":7,"usage":{"total_tokens":1}}'
    provider_.behave(whole(body))
    raw = sdk.embeddings.with_raw_response.create(model="embed", input="x", encoding_format="float")
    assert raw.http_response.content == body.replace(b'"model":"a"', b'"model":"embed"')


@pytest.mark.parametrize("name", ["embed-2024", "text-embedding-3-small", "EMBED"])
def test_aliases_name_models_of_embeddings(sdk: openai.OpenAI, gateway: Gateway, name: str) -> None:
    raw = sdk.embeddings.with_raw_response.create(model=name, input="sql")
    assert raw.parse().model == "embed"
    row = gateway.wait_for_row(raw.headers["x-request-id"])
    assert (row["requested_model"], row["model_slug"]) == (name, "embed")


def test_another_place_serves_but_never_another_model(
    sdk: openai.OpenAI, provider_: Upstream, gateway: Gateway
) -> None:
    down = whole({"error": {"message": "down"}}, 503)
    provider_.behave(lambda request: down if request.json()["model"] != "b" else embedded(request))
    raw = sdk.embeddings.with_raw_response.create(model="embed", input="x")
    assert [one.target for one in provider_.requests] == [
        "/v1/embeddings",
        "/v1/deployments/b/embeddings?api-version=1",
    ]
    assert "x-gateway-fallback" not in raw.headers
    row = gateway.wait_for_row(raw.headers["x-request-id"])
    assert (row["deployment"], row["attempts"], row["fallback"]) == ("B/b", 2, 0)
    provider_.behave(down)
    with pytest.raises(openai.InternalServerError, match="down"):
        sdk.embeddings.create(model="ada", input="x")
    assert {one.json()["model"] for one in provider_.requests[2:]} == {"ada"}


def test_a_field_that_the_model_does_not_take_is_named(
    post: Callable[..., httpx.Response], provider_: Upstream
) -> None:
    answer = post("acme", model="ada", input="x", dimensions=5, nonsense=1, metadata={"team": "a"}, user=None)
    assert answer.status_code == 200
    assert answer.headers["x-gateway-dropped"] == "dimensions, nonsense"
    assert provider_.last.json() == {"model": "ada", "input": "x"}


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({"model": "embed"}, "input", "Field required"),
        ({"input": "x"}, "model", "Field required"),
        ({"model": "embed", "input": ""}, "input", "none of them empty"),
        ({"model": "embed", "input": []}, "input", "none of them empty"),
        ({"model": "embed", "input": ["a", ""]}, "input", "none of them empty"),
        ({"model": "embed", "input": ["a", 1]}, "input", "array of tokens"),
        ({"model": "embed", "input": [[]]}, "input", "none of them empty"),
        ({"model": "embed", "input": [1, True]}, "input", "array of tokens"),
        ({"model": "embed", "input": [-1]}, "input", "array of tokens"),
        ({"model": "embed", "input": {"a": 1}}, "input", "Input should be a string"),
        ({"model": "embed", "input": "x", "encoding_format": "hex"}, "encoding_format", "'float' or 'base64'"),
        ({"model": "embed", "input": "x", "dimensions": 0}, "dimensions", "greater than 0"),
        ({"model": "embed", "input": "x", "user": 1}, "user", "string"),
    ],
)  # fmt: skip
def test_an_invalid_field_is_named(
    post: Callable[..., httpx.Response], provider_: Upstream, body: dict[str, Any], param: str, words: str
) -> None:
    error = assert_error(post("acme", **body), 400, "validation_failed", "invalid_request_error")
    assert (error["param"], words in error["message"]) == (param, True)
    assert provider_.requests == []


def test_chat_models_make_no_embeddings_and_the_other_way(
    post: Callable[..., httpx.Response], sdk: openai.OpenAI, provider_: Upstream
) -> None:
    for name, words in (("chat", "'chat' makes no embeddings: name one of ada, dear, embed."),
                        ("gone", "No model of that name makes embeddings: name one of ada, dear, embed.")):  # fmt: skip
        error = assert_error(post("acme", model=name, input="x"), 400, "bad_request", "invalid_request_error")
        assert (error["param"], error["message"]) == ("model", words)
    with pytest.raises(
        openai.BadRequestError, match="'embed' makes embeddings: POST /v1/embeddings"
    ) as raised:
        sdk.chat.completions.create(model="embed", messages=HELLO)  # type: ignore[arg-type]
    assert raised.value.code == "bad_request"
    assert provider_.requests == []


def test_only_openais_list_has_models_of_embeddings(gateway: Gateway, sdk: openai.OpenAI) -> None:
    rows = httpx.get(f"{gateway.url}/v1/models", trust_env=False, timeout=BOUND_S).json()
    assert [row["modelSlug"] for row in rows] == ["chat"]
    with openai.OpenAI(base_url=f"{gateway.url}/openai/v1", api_key="unused", max_retries=0) as other:
        assert [one.id for one in other.models.list()] == ["ada", "chat", "dear", "embed"]
    assert sdk.models.retrieve("embed").to_dict()["inputPricePerMRetail"] == 1.04


def test_a_wallet_pays_for_the_input_and_refuses_what_it_can_not_hold(
    post: Callable[..., httpx.Response], gateway: Gateway
) -> None:
    assert_error(post("poor", model="embed", input="x"), 402, "payment_required", "invalid_request_error")
    credit(gateway.folder / "var" / "tollgate.db", "poor", "0.5")
    answer = post("poor", model="embed", input=["one", "two"])
    assert answer.status_code == 200, answer.text
    # 1,000 tokens at $1,040 per million are more than is left.
    error = assert_error(
        post("poor", model="dear", input=list(range(1_000))), 402, "payment_required", "invalid_request_error"
    )
    assert "prompt" in error["message"]


def test_a_customers_own_key_calls_models_outside_the_catalog(
    post: Callable[..., httpx.Response], gateway: Gateway, provider_: Upstream
) -> None:
    answer = post("own", model="C/new-embedder", input="x")
    assert (answer.status_code, answer.json()["model"]) == (200, "C/new-embedder")
    assert provider_.last.header("authorization") == "Bearer customer-key"
    row = gateway.wait_for_row(answer.headers["x-request-id"])
    assert (row["mode"], row["retail_nanousd"], row["prompt_tokens"]) == ("byok", 0, 3)


def test_the_rate_of_a_workspace_holds(post: Callable[..., httpx.Response]) -> None:
    assert post("slow", model="embed", input="x").status_code == 200
    assert_error(post("slow", model="embed", input="x"), 429, "rate_limit_exceeded", "rate_limit_error")


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ({"object": "list", "data": [], "usage": {"total_tokens": 1}}, 502, "no embedding"),
        ({"choices": []}, 502, "no embedding"),
        ({"error": {"message": "broken inside", "code": 500}}, 500, "broken inside"),
        (b"nonsense", 502, "not JSON"),
        ({"error": {"message": "the model is away"}}, 502, "the model is away"),
    ],
)
def test_an_answer_without_vectors_is_a_failure_and_costs_nothing(
    post: Callable[..., httpx.Response],
    provider_: Upstream,
    gateway: Gateway,
    answer: Any,
    status: int,
    words: str,
) -> None:
    provider_.behave(whole(answer))
    got = post("acme", model="ada", input="x")
    assert got.status_code == status, got.text
    assert words in got.json()["error"]["message"]
    row = gateway.wait_for_row(got.headers["x-request-id"])
    assert (row["retail_nanousd"], row["api"]) == (0, "embeddings")


def test_tokens_that_a_provider_does_not_count_are_estimated(
    post: Callable[..., httpx.Response], provider_: Upstream, gateway: Gateway
) -> None:
    provider_.behave(whole({"data": [{"embedding": VECTOR}]}))
    answer = post("acme", model="ada", input=[7] * 50)
    assert answer.json() == {"data": [{"embedding": VECTOR}], "model": "ada"}
    row = gateway.wait_for_row(answer.headers["x-request-id"])
    # 50 tokens, and what the family adds to each prompt.
    assert (row["usage_source"], row["prompt_tokens"]) == ("estimated", 250)
    assert row["retail_nanousd"] == 250 * 1_040


def test_a_large_body_goes_as_it_came(post: Callable[..., httpx.Response], provider_: Upstream) -> None:
    texts = ["é" * 300_000, "b" * 100_000]
    assert post("acme", model="embed", input=texts).status_code == 200
    assert json.loads(provider_.last.body)["input"] == texts
