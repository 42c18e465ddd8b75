"""The contract's shape of an error."""

import json
from typing import Any, get_args

import httpx

from addon.text.errors import (
    ErrorAnswer,
    ErrorType,
)
from rig.configuration import PROVIDER_KEY
from rig.raw_clients import Answer


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


def assert_error(answer: httpx.Response | Answer, status: int, code: str, kind: str) -> dict[str, Any]:
    """Check that the answer is the contract's error object with these values. Return its ``error``."""
    headers = dict(answer.headers)
    assert headers["content-type"].split(";")[0] == "application/json"
    assert headers["x-request-id"]
    body = answer.json()
    assert set(body) == {"error"}
    error: dict[str, Any] = body["error"]
    assert (answer.status_code, error["code"], error["type"]) == (status, code, kind)
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"].strip()
    assert error["param"] is None or isinstance(error["param"], str)
    assert PROVIDER_KEY not in str(body)
    return error
