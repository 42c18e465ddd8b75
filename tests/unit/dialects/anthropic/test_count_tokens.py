"""Anthropic's count of a prompt: the recorded requests are sent as they were, and the recorded answers are read."""

import json

import pytest
from pydantic import SecretStr
from rig.corpus import needs_corpus, read_corpus

from addon.dialects.anthropic.count_tokens import read, request
from addon.dialects.native_request import NativeRequest
from policies.family import CUSTOM_FAMILY
from policies.model import Model
from policies.prices import Prices
from policies.provider import Provider
from policies.route import Target

PROVIDER = Provider("CLAUDE", "https://claude.example/v1", "anthropic", (), auth="x-api-key")
PRICES = Prices(1, 1, 1)


def target(model: str) -> Target:
    """Return a model outside the catalog, which gets what its client wrote."""
    made = Model("slug", PROVIDER, model, CUSTOM_FAMILY, PRICES, PRICES, None, True, True)
    return Target(made, "byok", SecretStr("fake-key"))


@needs_corpus
def test_recorded_counts():
    for one in read_corpus("anthropic_count_tokens"):
        asked = one["request"]
        made = request(target(asked["model"]), NativeRequest(asked), frozenset())
        assert made.url == "https://claude.example/v1/messages/count_tokens"
        assert json.loads(made.content) == asked
        assert read(one["response_text"].encode()) == json.loads(one["response_text"])["input_tokens"]


def test_only_what_is_part_of_the_prompt_is_sent():
    asked = {"messages": [], "max_tokens": 9, "stream": True, "metadata": {"user_id": "u"}, "temperature": 1}
    headers = {"anthropic-beta": "context-management-2025-06-27, unknown"}
    made = request(target("m"), NativeRequest(asked, headers), frozenset())
    assert json.loads(made.content) == {"model": "m", "messages": []}
    assert dict(made.headers)["anthropic-beta"] == "context-management-2025-06-27"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b'{"input_tokens": null}', b'{"input_tokens": 1.5}', b'{"input_tokens": -1}'],
)
def test_any_other_answer_is_no_count(content: bytes):
    assert read(content) is None
