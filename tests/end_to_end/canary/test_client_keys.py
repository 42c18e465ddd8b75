"""A client's key in any field of its request is in no answer, no head for a provider and no log."""

import pytest
from rig.canary_requests import BODIES, ITS_KEY, RAW, SAID, SAID_IN
from rig.canary_scene import CHAT, Scene
from rig.raw_clients import RawClient, request_bytes


@pytest.mark.parametrize("slug", ["alpha", "beta", "gamma"])
def test_a_key_in_a_field_of_a_request_is_in_no_answer_and_no_head(scene: Scene, slug: str) -> None:
    for client in ("solo", "own"):
        for name, body in SAID.items():
            scene.call(client, slug, said=ITS_KEY, **({"metadata": {"case": name}} | body))


@pytest.mark.parametrize("api", SAID_IN)
@pytest.mark.parametrize("slug", ["alpha", "alpha-responses", "beta"])
def test_a_key_in_a_field_of_a_request_of_another_api_is_in_no_answer(
    scene: Scene, api: str, slug: str
) -> None:
    for body in SAID_IN[api].values():
        scene.call("solo", slug, said=ITS_KEY, api=api, **body)


def test_a_key_anywhere_in_a_request_that_is_refused_is_in_no_answer(scene: Scene) -> None:
    for upstream in scene.providers.values():
        upstream.reset()
    refused = {name: raw.encode() for name, raw in RAW.items()}
    refused |= {name: request_bytes("POST", CHAT, *request) for name, request in BODIES.items()}
    for name, raw in refused.items():
        with RawClient(scene.gateway.url) as client:
            client.send(raw)
            client.half_close()
            scene.look(f"{name}: answer", client.read_to_close())
    assert not [request for upstream in scene.providers.values() for request in upstream.requests]


def test_a_policy_that_leaks_its_input_leaks_no_secret_to_the_client(scene: Scene) -> None:
    assert scene.call("nosy", "alpha").status_code == 500
    assert scene.took == []
