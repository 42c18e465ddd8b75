"""A JSON schema in the prompt, for models that have JSON mode but no schemas. Nothing enforces the schema.

Source: docs/catalog.md, "A schema in the prompt"; github.com/vercel/ai, packages/deepseek, which uses a similar text.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from policies.refusal import Refusal

type Message = Mapping[str, Any]

INSTRUCTION: Final = "Return one JSON object that conforms to the following JSON schema, and nothing else: "

_FIELD: Final = "response_format.json_schema.schema"


def add_schema(messages: Sequence[Message], response_format: Mapping[str, Any], role: str) -> list[Message]:
    """Return the messages with the schema of ``response_format`` in the first system message, or in a new one.

    ``role`` is the model's role for the system message. ``messages`` stay unchanged. Raises Refusal
    ``validation_failed``, naming the field, where there is no schema.
    """
    text = INSTRUCTION + json.dumps(_schema(response_format), ensure_ascii=False, separators=(",", ":"))
    first = messages[0]
    if first["role"] != role:
        return [{"role": role, "content": text}, *messages]
    content = first.get("content") or ""
    if isinstance(content, str):
        joined: Any = f"{content}\n\n{text}" if content else text
    else:
        joined = [*content, {"type": "text", "text": text}]
    return [{**first, "content": joined}, *messages[1:]]


def _schema(response_format: Mapping[str, Any]) -> Mapping[str, Any]:
    named = response_format.get("json_schema")
    schema = named.get("schema") if isinstance(named, Mapping) else None
    if not isinstance(schema, Mapping):
        raise Refusal("validation_failed", f"{_FIELD}: Input should be an object.", _FIELD)
    return schema
