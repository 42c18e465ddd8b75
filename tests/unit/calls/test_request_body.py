"""The declared length of a request body, which is checked before the body is read."""

import pytest

from addon.calls.request_body import check_size, declared_length
from addon.text.http_heads import Headers, RequestHead
from policies.refusal import Refusal


def head(length: str) -> RequestHead:
    return RequestHead("POST", "/", "1.1", Headers([("content-length", length)]))


@pytest.mark.parametrize(("text", "length"), [("17", 17), ("0", 0), ("", 0), ("-1", 0), ("1e3", 0)])
def test_a_declared_length_is_a_plain_number(text: str, length: int) -> None:
    assert declared_length(head(text)) == length


def test_a_declared_length_above_the_limit_is_refused() -> None:
    check_size(head("10"), 10)
    with pytest.raises(Refusal, match="exceeds 10 bytes") as refused:
        check_size(head("11"), 10)
    assert refused.value.code == "request_too_large"
