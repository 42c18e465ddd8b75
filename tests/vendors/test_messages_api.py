"""Every active model × requests of the Messages API: its vendor accepts what the gateway makes of them."""

import json
from typing import Any

import pytest
from rig.built_requests import Built, active_models, build
from rig.large import sampled
from rig.messages_requests import HELLO, MARK, PNG, TOOL, ask, result, talk, text, tool_use
from rig.vendors import find_vendor
from rig.vendors.rules import find_refusal

from addon.dialects.opaque_reasoning import seal
from policies.model import Model

MODELS = {model.slug: model for model in active_models()}
LATE = {"role": "system", "content": [text("9 tokens left", cache_control=MARK)]}
SIGNED = {"type": "thinking", "thinking": "Hm", "signature": "EqQB"}
SEALED = {"type": "thinking", "thinking": "Hm", "signature": seal([])}
PICTURE = {"type": "image", "source": PNG}
AGENT = {
    "system": [text("An agent."), text("Be brief.", cache_control=MARK)],
    "tools": [TOOL],
    "thinking": {"type": "adaptive", "display": "omitted"},
    "output_config": {"effort": "max"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "metadata": {"user_id": '{"device_id":"d","session_id":"s"}'},
    "max_tokens": 4_000,
    "stream": True,
}
ASKED: dict[str, dict[str, Any]] = {
    "an agent's first turn": ask([*HELLO, LATE], **AGENT),
    "an agent's next turn": ask(
        [
            *talk(
                [SIGNED, text("I look."), tool_use("t1", city="Oslo"), tool_use("t2", city="Rome")],
                result("Rain"),
                result("No such city", "t2", is_error=True, cache_control=MARK),
            ),
            LATE,
        ],
        **AGENT,
    ),
    "a loop with sealed thinking": ask(
        talk([SEALED, tool_use()], result(), text("Go on")), **AGENT, top_k=5, temperature=1
    ),
    "without thinking": ask(thinking={"type": "disabled"}, stop_sequences=["a", "b", "c", "d", "e", "f"]),
    "a format": ask(
        output_config={"format": {"type": "json_schema", "schema": TOOL["input_schema"]}}, max_tokens=2_000
    ),
    "a picture in a result": ask(talk([tool_use()], result([text("See"), PICTURE])), tools=[TOOL]),
}


@sampled(every=4)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_vendor_accepts_what_it_is_sent(model: Model) -> None:
    for name, body in ASKED.items():
        made = build({**body, "model": model.slug}, "messages")
        if not isinstance(made, Built):
            assert "does not take" in made.message, (name, made.message)
            continue
        vendor = find_vendor(model.provider.name, made.path)
        assert find_refusal(vendor, made.path, json.loads(made.content)) is None, name
        assert made.dropped is None or "+" not in made.dropped, "each is named"
