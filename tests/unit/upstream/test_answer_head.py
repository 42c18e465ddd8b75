"""``AnswerHeadReader``: heads in pieces."""

import pytest

from addon.text.http1_heads import HttpSyntaxError
from addon.upstream.answer_head import AnswerHeadReader


@pytest.mark.parametrize("at", range(1, 4))
def test_an_empty_head_is_refused_however_it_is_cut(at: int) -> None:
    reader, data = AnswerHeadReader(), b"\r\n\r\n"
    assert reader.feed(data[:at]) is None
    with pytest.raises(HttpSyntaxError):
        reader.feed(data[at:])
