"""An edit of a key keeps all comments and changes the meaning of no other line."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.commands.key_edits import add_key, turn_off_key


def test_a_header_inside_a_text_is_not_a_table() -> None:
    text = 'name = """\n[[keys]]\nactive = true\n"""\n[[keys]]\nid = "ci"\nactive = true\n'
    with pytest.raises(ValueError, match="can't be edited line by line"):
        turn_off_key(text, 0)


COMMENTS = st.lists(st.sampled_from(["# a note", "", "   ", "# [[keys]]", "# active = true"]), max_size=3)


@given(
    activities=st.lists(
        st.sampled_from([None, "true", "false", "true  # since May"]), min_size=1, max_size=4
    ),
    notes=st.lists(COMMENTS, min_size=5, max_size=5),
    line_end=st.sampled_from(["\n", "\r\n"]),
    last_end=st.booleans(),
    picked=st.integers(0, 3),
)
def test_edits_keep_every_comment_and_change_only_the_key(
    activities: list[str | None], notes: list[list[str]], line_end: str, last_end: bool, picked: int
) -> None:
    lines = ['name = "Acme"', *notes[4]]
    for number, activity in enumerate(activities):
        lines += ["[[keys]]", f'id = "key-{number}"', *notes[number]]
        lines += [] if activity is None else [f"active = {activity}"]
        lines += ["[[rules]]", 'keywords = ["x"]', "active = true"]
    text = line_end.join(lines) + (line_end if last_end else "")
    index = picked % len(activities)

    off = turn_off_key(text, index)
    expected = tomllib.loads(text)
    expected["keys"][index]["active"] = False
    assert tomllib.loads(off) == expected
    assert off.count("#") == text.count("#")
    assert off.count("\n") - text.count("\n") == (activities[index] is None)
    assert off.count("\r") == off.count("\n") * (line_end == "\r\n")

    added = add_key(text, "new", "e" * 64)
    assert added.startswith(text.rstrip())
    assert tomllib.loads(added)["keys"][-1]["id"] == "new"
    assert added.count("\r") == added.count("\n") * (line_end == "\r\n")
