"""Calls to Amazon Bedrock: signed or with an API key, whole and streamed, by the official OpenAI SDK.

The fake Bedrock checks each signature, and plays recorded answers, if there are some.
"""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from conftest import HELLO, StartGateway
from openai import OpenAI
from rig import fake_bedrock
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, provider, workspace
from rig.corpus import FOLDER, read_corpus
from rig.gateway import Gateway
from rig.native_converse_stream import event_frame, exception_frame
from rig.readers import Answer, client, converse, difference
from rig.scripts import Received, Script, chunked, whole
from rig.upstream import Upstream

PLATFORM = ("AKIAFAKEPLATFORM0000", "fakePlatform/Secret+0000000000000000000", "fakeToken/0000000000+/==")
CUSTOMER = ("AKIAFAKECUSTOMER0000", "fakeCustomer/Secret+0000000000000000000", "")
API_KEY = "ABSKfake0000000000000000"
HOUSE, OWN = new_key(), new_key()
ENVIRONMENT = {
    "BEDROCK_AWS_ACCESS_KEY_ID": PLATFORM[0],
    "BEDROCK_AWS_SECRET_ACCESS_KEY": PLATFORM[1],
    "BEDROCK_AWS_SESSION_TOKEN": PLATFORM[2],
    "CUSTOMER_AWS": f"{CUSTOMER[0]}:{CUSTOMER[1]}",
    "WRONG_AWS": f"{PLATFORM[0]}:fakeWrong/Secret+000000000000000000000",
    "AWS_BEARER_TOKEN_BEDROCK": API_KEY,
}
MODEL_ID = "us.amazon.nova-lite-v1:0"
FAMILY = {"clamps": {"temperature": [0, 1]}, "n_limit": 1, "extra": ["thinking"]}


@pytest.fixture(scope="module")
def bedrock() -> Iterator[Upstream]:
    with Upstream() as made:
        yield made


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, bedrock: Upstream) -> Gateway:
    signed = {"dialect": "bedrock", "auth": "aws_sigv4", "aws_region": "eu-central-1"}
    base = bedrock.base_url.removesuffix("/v1")
    return start_gateway(
        providers={
            "SIGNED": provider(base, platform_key="env:BEDROCK_AWS_ACCESS_KEY_ID", **signed),
            "WRONG": provider(base, platform_key="env:WRONG_AWS", **signed),
            "KEYED": provider(base, platform_key="env:AWS_BEARER_TOKEN_BEDROCK", dialect="bedrock"),
        },
        families={"nova": FAMILY},
        models={
            name.lower(): model(provider=name, upstream_model_id=MODEL_ID, family="nova")
            for name in ("SIGNED", "WRONG", "KEYED")
        },
        workspaces={
            "house": workspace(("house", HOUSE, True)),
            "own": workspace(
                ("own", OWN, True),
                byok={"SIGNED": {"secret": "env:CUSTOMER_AWS", "routing": True}},
                safety_net=False,
            ),
        },
        environment=ENVIRONMENT,
    )


@pytest.fixture
def sdk(gateway: Gateway, bedrock: Upstream) -> Iterator[OpenAI]:
    bedrock.reset()
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=HOUSE, max_retries=0, timeout=BOUND_S) as made:
        yield made
    assert bedrock.failures == []


def behave(bedrock: Upstream, keys: tuple[str, str, str], said: dict[str, Any] = fake_bedrock.HELLO) -> None:
    """Answer with ``said`` to requests that are signed with ``keys``."""

    def answer(request: Received) -> Script:
        refused = fake_bedrock.refusal_of_signature(request, *keys)
        return refused or fake_bedrock.answer(request, said)

    bedrock.behave(answer)


def ask(sdk: OpenAI, slug: str, *, stream: bool) -> Answer:
    if stream:
        options: Any = {"include_usage": True}
        return client.read_stream(
            list(sdk.chat.completions.create(model=slug, messages=HELLO, stream=True, stream_options=options))
        )
    return client.read_whole(sdk.chat.completions.create(model=slug, messages=HELLO))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_signed_call_is_answered(sdk: OpenAI, bedrock: Upstream, stream: bool) -> None:
    behave(bedrock, PLATFORM)
    assert difference(ask(sdk, "signed", stream=stream), converse.read(fake_bedrock.HELLO)) is None
    asked = bedrock.last
    assert asked.target == f"/model/us.amazon.nova-lite-v1%3A0/{'converse-stream' if stream else 'converse'}"
    assert asked.header("x-amz-security-token") == PLATFORM[2]
    assert "/eu-central-1/bedrock/aws4_request" in (asked.header("authorization") or "")
    names = [name.lower() for name, _ in asked.headers]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_customers_own_credentials_sign_its_calls(
    gateway: Gateway, bedrock: Upstream, stream: bool
) -> None:
    bedrock.reset()
    behave(bedrock, CUSTOMER)
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=OWN, max_retries=0, timeout=BOUND_S) as sdk:
        assert ask(sdk, "signed", stream=stream).choices[0].text == "hello"
    assert "x-amz-security-token" not in bedrock.last.header_names


def test_a_wrong_signature_is_the_providers_error_without_a_credential(
    sdk: OpenAI, bedrock: Upstream
) -> None:
    behave(bedrock, PLATFORM)
    with pytest.raises(openai.PermissionDeniedError) as caught:
        ask(sdk, "wrong", stream=False)
    assert "security token" in str(caught.value)


def test_an_api_key_is_sent_as_a_bearer_token(sdk: OpenAI, bedrock: Upstream) -> None:
    bedrock.behave(fake_bedrock.answer)
    assert ask(sdk, "keyed", stream=True).choices[0].text == "hello"
    assert bedrock.last.header("authorization") == f"Bearer {API_KEY}"
    assert "x-amz-date" not in bedrock.last.header_names


def test_an_exception_before_the_first_text_is_an_error_with_its_status(
    sdk: OpenAI, bedrock: Upstream
) -> None:
    frame = exception_frame("throttlingException", {"message": "Too many requests."})
    bedrock.behave(lambda _request: chunked(frame, content_type="application/vnd.amazon.eventstream"))
    with pytest.raises(openai.RateLimitError, match="Too many requests"):
        ask(sdk, "keyed", stream=True)


def test_an_exception_after_the_first_text_ends_the_stream(sdk: OpenAI, bedrock: Upstream) -> None:
    frames = [
        event_frame("messageStart", {"role": "assistant"}),
        event_frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "hel"}}),
        exception_frame("modelStreamErrorException", {"message": "The model stopped."}),
    ]
    bedrock.behave(lambda _request: chunked(*frames, content_type="application/vnd.amazon.eventstream"))
    chunks = iter(sdk.chat.completions.create(model="keyed", messages=HELLO, stream=True))
    assert [next(chunks).choices[0].delta.content for _ in frames[:2]] == [None, "hel"]
    with pytest.raises(openai.APIError, match="The model stopped"):
        next(chunks)


@pytest.mark.parametrize("field", ["message", "Message", "errorMessage"])
def test_a_credential_in_an_error_is_masked(sdk: OpenAI, bedrock: Upstream, field: str) -> None:
    said = f"Not authorized: {PLATFORM[0]}, {PLATFORM[1]}, {PLATFORM[2]}"
    bedrock.behave(lambda _request: whole({field: said}, 403))
    with pytest.raises(openai.PermissionDeniedError) as caught:
        ask(sdk, "signed", stream=False)
    assert not [part for part in PLATFORM if part in str(caught.value)]
    assert ("Not authorized" in str(caught.value)) is (field != "errorMessage")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_credential_in_an_answer_is_masked(sdk: OpenAI, bedrock: Upstream, stream: bool) -> None:
    said = json.loads(json.dumps(fake_bedrock.HELLO))
    said["output"]["message"]["content"] = [{"text": f"the secret is {PLATFORM[1]}, the token {PLATFORM[2]}"}]
    behave(bedrock, PLATFORM, said)
    text = ask(sdk, "signed", stream=stream).choices[0].text
    assert text.startswith("the secret is ***")
    assert not [part for part in PLATFORM if part in text]


@pytest.mark.skipif(not FOLDER, reason="TOLLGATE_CORPUS names no folder of recordings")
def test_each_recorded_answer_is_the_same_as_a_stream(sdk: OpenAI, bedrock: Upstream) -> None:
    records = [record for record in read_corpus("bedrock_converse") if record["status"] == 200]
    problems = {}
    for record in records:
        said = json.loads(record["response_text"])
        behave(bedrock, PLATFORM, said)
        expected = converse.read(said)
        for call in expected.choices[0].calls:
            call.id = call.id or None
        if problem := difference(ask(sdk, "signed", stream=True), expected):
            problems[record["id"]] = problem
    assert problems == {}
    assert len(records) > 50


def test_no_log_line_shows_a_credential(gateway: Gateway) -> None:
    gateway.assert_no_secret_logged([*PLATFORM, *filter(None, CUSTOMER), API_KEY])
