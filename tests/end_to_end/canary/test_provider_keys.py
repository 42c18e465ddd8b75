"""The key of each provider is sent to that provider only, and masked where the provider repeats it."""

import json
from itertools import product
from urllib.parse import parse_qs

import pytest
from rig.canaries import Canaries
from rig.canary_scene import CHAT, CLIENT_HEADERS, DIALECTS, KEYS, MESSAGES, PROVIDER_SECRETS, Scene
from rig.large import sampled
from rig.leaky import Leaks, leaks_of_answers, leaks_of_streams
from rig.leaky_errors import WIRE, leaks_of_errors
from rig.raw_clients import RawClient, request_bytes

CONVERSATIONS = 8
"""So many of them use each of two keys."""


def test_each_secret_is_sent_to_its_own_provider(scene: Scene) -> None:
    scene.used.clear()
    for stream in (False, True):
        for name, run in product(DIALECTS, range(CONVERSATIONS)):
            asked = {"stream": stream, "prompt_cache_key": f"run {run}"}
            assert scene.call("solo", name.lower(), **asked).status_code == 200
        for name in ("alpha", "beta", "gamma"):
            assert scene.call("own", name, stream=stream).status_code == 200
    assert scene.used == PROVIDER_SECRETS.keys()


def test_the_secrets_of_a_rotated_and_of_an_expired_key_are_shown_nowhere(scene: Scene) -> None:
    assert scene.call("former", "alpha").status_code == 200
    assert scene.call("ended", "alpha").status_code == 401
    for event, key_id in (("previous secret used", "solo"), ("key refused", "ended")):
        scene.gateway.wait_for_log(
            lambda line, event=event, key_id=key_id: (
                (line.get("event"), line.get("key_id")) == (event, key_id)
            )
        )


FAILING: Leaks = leaks_of_errors("openai")
HOPS = {
    ("hops", "alpha"): [("ALPHA", "platform"), ("BETA", "platform")],
    ("hops", "delta"): [("BETA", "platform"), ("DELTA", "platform")],
    ("onward", "beta"): [("BETA", "platform"), ("GAMMA", "platform")],
    ("mixed", "gamma"): [("BETA", "customer"), ("GAMMA", "platform")],
    ("net", "alpha"): [("ALPHA", "customer"), ("ALPHA", "platform")],
    ("net", "beta"): [("BETA", "customer"), ("BETA", "platform")],
    ("net", "gamma"): [("GAMMA", "customer"), ("GAMMA", "platform")],
}
MENDING = {("solo", "alpha"), ("solo", "beta"), ("solo", "gamma"), ("mixed", "beta")}
"""Calls that close the circuits of the providers, so that the next attempts reach them."""


@pytest.mark.parametrize(("client", "slug"), HOPS)
def test_a_second_attempt_sends_only_its_own_secret(scene: Scene, client: str, slug: str) -> None:
    for name in (
        "403",
        "500",
        "200, message",
    ):  # After a 401 the only key rests, and the next call begins elsewhere.
        for always in (False, True):
            stream = always != (name == "500")
            answer = scene.call(client, slug, (name, FAILING[name]), always=always, stream=stream)
            assert answer.is_success is not always
            assert sorted(scene.took) == HOPS[client, slug]
        assert {scene.call(*healthy).status_code for healthy in {(client, slug), *MENDING}} == {200}


def leaks_of(dialect: str) -> Leaks:
    return {**leaks_of_answers(dialect), **leaks_of_streams(dialect), **leaks_of_errors(dialect)}


@sampled(every=3)
@pytest.mark.parametrize("slug", ["alpha", "beta", "gamma"])
def test_a_key_that_its_provider_repeats_is_masked(scene: Scene, slug: str) -> None:
    for name, leak in leaks_of(DIALECTS[slug.upper()]).items():
        for client, stream in (("solo", name.startswith("stream")), ("own", not name.startswith("stream"))):
            scene.call(client, slug, (name, leak), stream=stream)
            assert len(scene.took) == 1


@sampled(every=3)
@pytest.mark.parametrize(
    ("api", "slug", "dialect"),
    [
        *(("responses", "beta", "anthropic"), ("messages", "alpha", "openai")),
        *(("messages", "alpha-responses", "responses"), ("messages", "beta", "anthropic")),
        *(("responses", "alpha-responses", "responses"), ("responses", "gamma", "gemini")),
    ],
)
def test_a_key_that_its_provider_repeats_is_masked_in_each_api(
    scene: Scene, api: str, slug: str, dialect: str
) -> None:
    for name, leak in leaks_of(dialect).items():
        for client, stream in (("solo", name.startswith("stream")), ("own", not name.startswith("stream"))):
            scene.call(client, slug, (name, leak), api=api, stream=stream)
            assert len(scene.took) == 1


def test_an_access_token_that_its_provider_repeats_is_masked(scene: Scene) -> None:
    for name, leak in {**leaks_of_answers("openai"), **FAILING}.items():
        scene.call("solo", "delta", (name, leak), stream=name.startswith("stream"))
        assert len(scene.took) == 1


def test_a_key_in_the_providers_headers_reaches_no_client(scene: Scene) -> None:
    headers = [("Authorization", f"Bearer {KEYS['solo']}"), ("Connection", "close"), *CLIENT_HEADERS.items()]
    for (name, leak), stream in product(WIRE.items(), (False, True)):
        scene.prepare(leak)
        body = json.dumps({"model": "alpha", "messages": MESSAGES, "stream": stream}).encode()
        # Read as raw bytes, because HTTP clients hide early hints and trailers.
        with RawClient(scene.gateway.url) as client:
            client.send(request_bytes("POST", CHAT, headers, body))
            scene.look(f"{name}: answer", client.read_to_close())
        assert scene.providers["ALPHA"].requests


def test_a_token_request_is_not_logged(scene: Scene) -> None:
    scene.tokens.requests.clear()
    assert scene.call("solo", "epsilon").status_code == 502
    (request,) = scene.tokens.requests
    scene.look("head for a token", f"{request.target} {request.headers}".encode())
    scene.look("body for a token", request.body)
    # The signature is the secret part: without it, no one can get a token.
    signature = Canaries({"signature": parse_qs(request.body.decode())["assertion"][0].rpartition(".")[2]})
    assert signature.found_in(request.body)
    assert not signature.found_in("\n".join(scene.gateway.stderr_lines).encode())
