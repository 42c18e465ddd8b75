"""The contract's shape of an error."""

import json
from typing import get_args

from addon.text.errors import (
    ErrorAnswer,
    ErrorType,
)


def assert_contract_shape(answer: ErrorAnswer) -> None:
    """Assert that the body is one line of JSON in UTF-8 with exactly the contract's members."""
    decoded = json.loads(answer.body().decode("utf-8"))
    assert list(decoded) == ["error"]
    error = decoded["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"].strip()
    assert error["type"] in get_args(ErrorType)
    assert error["code"]
    assert error["param"] is None or error["param"]
    assert len(answer.body().splitlines()) == 1
    assert answer.sse_event() == b"data: " + answer.body() + b"\n\n"
