"""What an explanation says of requests in another API than chat."""

from typing import Any

import pytest
from rig.configuration import Configuration, model, provider, workspace
from rig.explanations import UNUSED

from addon.explain.caller import make_admitted_call
from addon.explain.explaining import explain
from addon.explain.explanation import Explanation
from addon.settings.settings import Settings, load_settings
from addon.text.json_encode import encode_json

KEY = f"tg_{'explain':0<40}"
MESSAGES = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9, "top_k": 3, "new_field": 1}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    native = provider("http://127.0.0.1:20000/v1", dialect="anthropic")
    written = Configuration(
        providers={"CHAT": provider("http://127.0.0.1:20000/v1"), "NATIVE": native},
        models={
            "native": model(provider="NATIVE", family="openai-chat"),
            "chat": model(provider="CHAT"),
        },
        workspaces={"acme": workspace(("ci", KEY, True))},
    )
    return load_settings(
        written.write(tmp_path_factory.mktemp("explained")), {"TEST_PROVIDER_KEY": "fake-key"}
    )


def explained(settings: Settings, api: str, body: dict[str, Any]) -> Explanation:
    acme = settings.workspaces["acme"]
    call = make_admitted_call(settings, acme, acme.keys[0], api)
    return explain(call, encode_json(body), lambda *_: UNUSED, {})


def test_a_native_body_is_kept_but_for_what_the_provider_may_not_get(settings: Settings) -> None:
    (attempt,) = explained(settings, "messages", {"model": "native", **MESSAGES}).attempts
    assert attempt.is_native
    assert {change.field: change.action for change in attempt.fields} == {
        **{"model": "set", "messages": "kept", "max_tokens": "kept"},
        **{"top_k": "dropped", "new_field": "dropped"},
    }


def test_a_translated_body_names_what_chat_can_not_carry(settings: Settings) -> None:
    (attempt,) = explained(settings, "messages", {"model": "chat", **MESSAGES}).attempts
    assert attempt.is_native is False
    actions = {change.field: change.action for change in attempt.fields}
    assert actions["new_field"] == actions["top_k"] == "dropped"
    assert actions["messages"] == "kept"


def test_a_chat_request_has_no_way(settings: Settings) -> None:
    body = {"model": "chat", "messages": [{"role": "user", "content": "Hi"}]}
    (attempt,) = explained(settings, "chat", body).attempts
    assert attempt.is_native is None
