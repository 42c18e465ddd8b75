"""Which errors end the client's connection."""

from dataclasses import replace

import pytest

from addon.calls.responses import make_error_response
from addon.text.errors import INTERNAL_ERROR


@pytest.mark.parametrize(("status", "closes"), [(400, False), (408, True), (413, True), (500, False)])
def test_only_an_unread_body_ends_the_connection(status: int, closes: bool) -> None:
    error = replace(INTERNAL_ERROR, status=status)
    assert make_error_response(error, []).close is closes
    assert make_error_response(error, [], close=True).close
