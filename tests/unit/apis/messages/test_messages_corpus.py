"""Every recorded Messages request, of providers' tests and of real clients, is read and becomes a chat request."""

import json
from collections.abc import Iterator
from typing import Any

from rig.corpus import needs_corpus, read_corpus
from rig.messages_requests import needs_agents, read_agents

from addon.apis.chat.schema import validate as validate_chat
from addon.apis.chat_body import ChatBody
from addon.apis.messages.request import to_chat
from addon.apis.messages.schema import validate
from addon.text.json_decode import decode_object

STORED_FILES = 5
"""How many recordings name files of the Files API."""


def read(request: dict[str, Any], *, counts_only: bool = False) -> ChatBody:
    body = decode_object(json.dumps(request).encode())
    given = {name: value for name, value in body.items() if value is not None}
    validate(given, counts_only=counts_only)
    made = to_chat(given)
    validate_chat(made.body)
    return made


def texts(value: Any) -> Iterator[str]:
    """Yield what the user, the system, the assistant and the tools say in a request."""
    if isinstance(value, dict):
        yield from (value[name] for name in ("text", "content") if isinstance(value.get(name), str))
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from texts(item)


@needs_corpus
def test_recorded_requests():
    """None is refused: the recorded 400s are about models, or about what a provider's model does not take."""
    found = [
        read(one["request"], counts_only=one["api"] == "anthropic_count_tokens")
        for one in read_corpus("anthropic_messages", "anthropic_count_tokens", "bedrock_invoke_anthropic")
        if isinstance(one["request"], dict) and "messages" in one["request"]
    ]
    assert len(found) > 250
    assert sum(made.obstacle is not None for made in found) == STORED_FILES
    named = {name for made in found for name in made.untranslated}
    assert not {name for name in named if name.startswith("messages.")} - {
        "messages.citations",
        "messages.server_tool_use",
        "messages.web_search_tool_result",
    }


@needs_agents
def test_requests_of_real_clients_lose_no_text():
    for one in read_agents():
        made = read(one["request"], counts_only="count_tokens" in one["path"])
        assert made.obstacle is None
        assert set(made.untranslated) <= {"context_management", "tools.defer_loading"}
        said = set(texts(made.body["messages"]))
        assert said.issuperset(texts([one["request"].get("system"), one["request"]["messages"]]))
