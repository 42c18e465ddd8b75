"""The lists of models, read with the real SDKs of their vendors."""

from collections.abc import Iterator

import anthropic
import httpx
import openai
import pytest
from conftest import MODELS
from rig.bounds import BOUND_S
from rig.gateway import Gateway
from rig.metrics import read, value

ACTIVE = sorted(slug for slug, row in MODELS.items() if row["active"])


@pytest.fixture
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway.url, trust_env=False, timeout=BOUND_S) as made:
        yield made


def test_the_openai_sdk_lists_the_models_below_its_base_path(gateway: Gateway) -> None:
    with openai.OpenAI(base_url=f"{gateway.url}/openai/v1", api_key=gateway.key, max_retries=0) as sdk:
        listed = list(sdk.models.list())
        assert [one.id for one in listed] == ACTIVE
        assert {(one.object, one.created) for one in listed} == {("model", 0)}
        assert sdk.models.retrieve("vendor/tall").owned_by == "tester"
        with pytest.raises(openai.NotFoundError) as raised:
            sdk.models.retrieve("no-such-model")
        assert raised.value.code == "model_not_found"
        answer = sdk.chat.completions.create(
            model="tester-large", messages=[{"role": "user", "content": "hello"}]
        )
    assert answer.model == "tester-large"


def test_the_anthropic_sdk_lists_the_models_page_by_page(gateway: Gateway) -> None:
    with anthropic.Anthropic(base_url=gateway.url, api_key=gateway.key, max_retries=0) as sdk:
        first = sdk.models.list(limit=2)
        assert (first.has_more, first.first_id, first.last_id) == (True, ACTIVE[0], ACTIVE[1])
        assert [one.id for one in first] == ACTIVE
        assert [one.id for one in sdk.models.list(limit=2, before_id=ACTIVE[3])] == [
            *ACTIVE[1:3],
            ACTIVE[0],
        ]
        one = sdk.models.retrieve("vendor/tall")
        assert (one.type, one.id, one.display_name, one.lifecycle) == (
            "model",
            "vendor/tall",
            "vendor/tall",
            "active",
        )
        assert one.created_at.year == 1970
        with pytest.raises(anthropic.NotFoundError):
            sdk.models.retrieve("no-such-model")
        with pytest.raises(anthropic.BadRequestError, match="limit"):
            sdk.models.list(limit=0)


def test_each_list_has_its_own_etag_and_the_contracts_array_is_for_all_others(client: httpx.Client) -> None:
    version = {"anthropic-version": "2023-06-01"}
    plain = client.get("/v1/models")
    assert plain.text.startswith('[{"modelSlug":')
    others = [client.get("/v1/models", headers=version), client.get("/openai/v1/models", headers=version)]
    tags = [one.headers["etag"] for one in (plain, *others)]
    assert len(set(tags)) == 3
    again = client.get("/v1/models", headers={**version, "If-None-Match": tags[1]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/v1/models", headers={**version, "If-None-Match": tags[0]}).status_code == 200
    assert client.head("/openai/v1/models").headers["content-length"] == str(len(others[1].content))


def test_a_refused_list_counts_for_the_api_in_whose_shape_it_is_asked_for(
    gateway: Gateway, client: httpx.Client
) -> None:
    def refused() -> float:
        page = httpx.get(f"{gateway.admin_url}/metrics", trust_env=False, timeout=BOUND_S)
        samples = read((page.headers["content-type"], page.content))
        return value(samples, "tollgate_api_calls_total", api="messages", outcome="refused")

    before = refused()
    answer = client.get("/v1/models?limit=0", headers={"anthropic-version": "2023-06-01"})
    assert (answer.status_code, answer.json()["type"]) == (400, "error")
    assert refused() == before + 1
