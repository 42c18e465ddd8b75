"""Heads of HTTP/2: the encoding of answers."""

import pytest
from hpack import Decoder
from hypothesis import given
from hypothesis import strategies as st

from addon.text.http2_heads import encode_literals, encode_response_fields


@pytest.mark.parametrize(
    "field", [("a", "b\nc"), ("a", "b\0c"), ("a:b", "c"), ("A", "b"), ("a", "b\nc\0d"), ("", "b")]
)
def test_no_field_of_an_answer_can_be_read_as_two(field: tuple[str, str]):
    with pytest.raises(ValueError):
        encode_response_fields(200, [field])


@given(
    st.lists(st.tuples(st.binary(max_size=300), st.binary(max_size=40_000)), max_size=5),
    st.sampled_from(["200", "404"]),
)
def test_every_decoder_can_read_our_heads(fields: list[tuple[bytes, bytes]], status: str):
    sent = [(b":status", status.encode()), *fields]
    assert [
        tuple(one) for one in Decoder(max_header_list_size=2**20).decode(encode_literals(sent), raw=True)
    ] == sent
