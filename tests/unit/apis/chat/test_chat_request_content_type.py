"""Chat requests: JSON in UTF-8 is the one content type."""

import pytest

from addon.apis.chat.request import check_content_type
from policies.refusal import Refusal


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        'Application/JSON ;charset="UTF-8"',
        "application/json;charset=utf8; x=y",
        " application/json;",
    ],
)
@pytest.mark.parametrize("content_encoding", [None, "", "identity", " Identity "])
def test_json_in_utf8_is_the_one_content_type(content_type: str, content_encoding: str | None) -> None:
    check_content_type(content_type, content_encoding)


@pytest.mark.parametrize(
    ("content_type", "content_encoding"),
    [
        (None, None),
        ("", None),
        ("text/plain", None),
        ("application/x-www-form-urlencoded", None),
        ("application/jsonl", None),
        ("application/json, text/plain", None),
        ("text/plain; application/json", None),
        ("application/json; charset=utf-16", None),
        ("application/json; charset=latin-1", None),
        ("application/json; charset", None),
        ("application/json", "gzip"),
        ("application/json", "identity, gzip"),
        ("application/json", "br"),
    ],
)
def test_every_other_content_type_is_unsupported(
    content_type: str | None, content_encoding: str | None
) -> None:
    with pytest.raises(Refusal) as raised:
        check_content_type(content_type, content_encoding)
    assert raised.value.code == "unsupported_media_type"
