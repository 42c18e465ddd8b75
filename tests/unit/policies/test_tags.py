import pytest

from policies.tags import is_tag


@pytest.mark.parametrize("text", ["tag:team", "tag:a b", "tag:x.y_z:1@+-", "tag:" + "n" * 64])
def test_a_tag_is_the_word_and_a_name(text: str):
    assert is_tag(text)


@pytest.mark.parametrize(
    "text", ["tag:", "tag", "team", "tag:a,b", 'tag:a"b', "tag:a/b", "tag:a'b", "tag:é", "tag:" + "n" * 65]
)
def test_all_else_is_none(text: str):
    assert not is_tag(text)
