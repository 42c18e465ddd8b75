"""Everything of a client in an upstream body is in the prompt's estimate, for every shipped family."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from rig.configuration import ROOT

from addon.apis.chat.request import FORWARDED, parse_chat_request
from addon.dialects import DIALECTS
from addon.settings.settings import load_settings
from policies.model import Model
from policies.provider import NO_SECRET
from policies.refusal import Refusal
from policies.route import Target
from policies.sanitize import sanitize

TEXT = "quxes and bazes " * 500
HELLO = [{"role": "user", "content": "hello"}]
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f", "description": TEXT, "parameters": {}}}
SCHEMA = {"name": "x", "schema": {"type": "object", "description": TEXT}}
SAMPLES: dict[str, Any] = {
    "messages": [{"role": "user", "content": TEXT}],
    "tools": [TOOL],
    "tool_choice": {"type": "function", "function": {"name": TEXT}},
    "response_format": {"type": "json_schema", "json_schema": SCHEMA},
    "stop": [TEXT],
    "user": TEXT,
    "logit_bias": {TEXT: 1},
}
SCALARS: dict[str, Any] = {
    "temperature": 0.7,
    "top_p": 0.9,
    "n": 1,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "seed": 12,
    "logprobs": True,
    "top_logprobs": 2,
    "parallel_tool_calls": False,
}


def models() -> dict[str, Model]:
    """Return one model of each shipped family."""
    with TemporaryDirectory() as folder:
        conf = Path(folder) / "proxy.conf"
        conf.with_name("none").mkdir()
        conf.write_text(
            f'[paths]\ncatalog = "{ROOT / "catalog_data"}"\nworkspaces = "none"\n', encoding="utf-8"
        )
        return {model.family.name: model for model in load_settings(conf, {}).models.values()}


MODELS = models()


def sent(body: dict[str, Any], model: Model) -> tuple[str, int]:
    """Return the upstream body for a client's body, and the estimate of its prompt."""
    chat = parse_chat_request(json.dumps(body).encode())
    made = sanitize(chat.sendable(model.family), model, 100, stream=False).body
    secret = model.provider.platform_secret
    request = DIALECTS[model.provider.dialect].request(Target(model, "payg", secret or NO_SECRET), made)
    return request.content.decode(), chat.prompt_tokens(model.family)


def test_every_field_of_the_contract_is_among_the_samples() -> None:
    assert SAMPLES.keys() | SCALARS.keys() == FORWARDED


@pytest.mark.parametrize("family", sorted(MODELS))
def test_everything_in_an_upstream_body_is_estimated(family: str) -> None:
    model, reached = MODELS[family], 0
    _, plain_tokens = sent({"messages": HELLO}, model)
    extras = {name: {"deep": [TEXT]} for name in model.family.extra}
    for name, value in (SAMPLES | extras).items():
        try:
            content, tokens = sent({"messages": HELLO, name: value}, model)
        except Refusal:
            continue
        if TEXT.strip() in content:
            reached += 1
            assert tokens - plain_tokens >= len(TEXT) / 5, name
    assert reached >= 2


@pytest.mark.parametrize("name", sorted(SCALARS))
def test_a_number_counts_a_little(name: str) -> None:
    model = MODELS["openai-chat"]
    content, tokens = sent({"messages": HELLO, name: SCALARS[name]}, model)
    _, plain_tokens = sent({"messages": HELLO}, model)
    assert name not in json.loads(content) or plain_tokens < tokens <= plain_tokens + 5
