"""JSON as it is sent: short, and always valid UTF-8. Pure."""

import json
from typing import Any

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


def json_text(value: Any) -> bytes:
    """Return ``value`` as JSON without needless white space. Half a surrogate pair stays the escape that it was."""
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()
