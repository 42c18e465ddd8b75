"""The text of a file is edited without its hashes and secrets, and keeps its line ends."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.settings_files import ACME

from addon.edits.file_text import plan_text, read_editable, restore_line_ends
from addon.edits.hidden_values import HiddenValueError, hide_values, mask_values
from addon.edits.workspace_files import EditError
from addon.settings.settings import SettingsFiles

HASH, OTHER = "ab" * 32, "cd" * 32
TOKEN = "gAAAAABlT0k-en_" + "x" * 60 + "=="
TEXT = f"""\
name = "Acme"
[[keys]]
id = "ci"
hash = "sha256:{HASH}"  # made in May
[byok.OPENAI]
secret = "sealed:{TOKEN}"
[byok.GROQ]
secret = "env:GROQ_KEY"
# was {OTHER}
"""
SHOWN = """\
name = "Acme"
[[keys]]
id = "ci"
hash = "sha256:(unchanged 1)"  # made in May
[byok.OPENAI]
secret = "sealed:(unchanged 2)"
[byok.GROQ]
secret = "env:GROQ_KEY"
# was (unchanged 3)
"""


def test_hashes_and_secrets_are_hidden_and_come_back() -> None:
    hidden = hide_values(TEXT)
    assert hidden.text == SHOWN
    assert hidden.restore(SHOWN) == TEXT
    moved = SHOWN.replace('id = "ci"\n', "").replace("[[keys]]\n", '[[keys]]\nid = "x"\n')
    assert hidden.restore(moved) == TEXT.replace('id = "ci"', 'id = "x"')


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("secret = 'sk-live-0123456789'", "secret = '(unchanged 1)'"),
        ("secret = sk-live-0123456789", "secret = (unchanged 1)"),
        ('secret = "half a secret', "secret = (unchanged 1)"),
        ('"secret"="a\\"b" # c', '"secret"="(unchanged 1)" # c'),
        ('hash = "sha256:\\u0061bc"', 'hash = "sha256:(unchanged 1)"'),
        ('secret = "file:keys/a.txt"', 'secret = "file:keys/a.txt"'),
        ('secret = ""', 'secret = ""'),
        ('label = "tg_0123456789abcdef"', 'label = "(unchanged 1)"'),
        ("# Authorization: Bearer abcdef0123456789", "# Authorization: Bearer (unchanged 1)"),
        (
            f'keys = [{{ hash = "sha256:{HASH}" }}, {{ hash = "sha256:{OTHER}" }}]',
            'keys = [{ hash = "sha256:(unchanged 1)" }, { hash = "sha256:(unchanged 2)" }]',
        ),
        ('# "(unchanged 1)"', '# "(unchanged 1)"'),
        (f"# (unchanged 1) {HASH}", "# (unchanged 1) (unchanged- 1)"),
    ],
)
def test_each_notation_is_hidden(line: str, shown: str) -> None:
    hidden = hide_values(line)
    assert hidden.text == shown
    assert hidden.restore(shown) == line


def test_a_secret_in_three_quotes_is_refused() -> None:
    with pytest.raises(HiddenValueError, match="three quotes"):
        hide_values('secret = """\nabc"""')


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("(unchanged 2)", "(unchanged 9)", "line 6 has (unchanged 9), and there is no such value"),
        ("(unchanged 2)", "(unchanged 1)", "line 6 has (unchanged 1) a second time"),
        ("(unchanged 2)", TOKEN, "line 6 has a hash or a secret"),
        ("(unchanged 1)", OTHER, "line 4 has a hash or a secret"),
        ("sealed:(unchanged 2)", "a-bare-secret", "line 6 has a hash or a secret"),
        ('"Acme"', '"sk-live-0123456789"', "line 1 has a hash or a secret"),
    ],
)
def test_no_other_value_is_accepted(old: str, new: str, reason: str) -> None:
    with pytest.raises(HiddenValueError) as caught:
        hide_values(TEXT).restore(SHOWN.replace(old, new, 1))
    assert str(caught.value).startswith(reason)
    assert new in reason or new not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ('secret = """\nabc"de\n"""\nb = 2', 'secret = """***"""\nb = 2'),
        ("secret = '''\nabc\n", "secret = '''***"),
        ('hash="""a"""\nsecret="""b"""\n', 'hash="""***"""\nsecret="""***"""\n'),
        ('name = """\nabc\n"""', 'name = """\nabc\n"""'),
    ],
)
def test_a_typed_secret_in_three_quotes_is_masked_and_refused(text: str, masked: str) -> None:
    assert mask_values(text) == masked
    if masked != text:
        with pytest.raises(HiddenValueError, match="line 1 has a hash or a secret in three quotes"):
            hide_values("").restore(text)


def test_a_text_that_is_shown_again_has_no_secret() -> None:
    assert mask_values(SHOWN) == SHOWN
    assert mask_values(TEXT) == SHOWN.replace("(unchanged 1)", "***").replace("(unchanged 2)", "***").replace(
        "(unchanged 3)", "***"
    )


PIECES = st.sampled_from(
    [
        *(
            "name = ",
            "hash = ",
            "secret=",
            '"',
            "'",
            "sha256:",
            "sealed:",
            HASH,
            TOKEN,
            "env:X",
            "(unchanged 1)",
        ),
        *(
            "sk-live-01234567",
            "Bearer abc0123456789abcd",
            "\n",
            " ",
            "# ",
            "key: pro****12",
            "=",
            "\\",
            "a b",
            "\r",
        ),
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_any_text_comes_back(text: str) -> None:
    try:
        hidden = hide_values(text)
    except HiddenValueError:
        return
    assert HASH not in hidden.text
    assert TOKEN not in hidden.text
    assert hidden.restore(hidden.text) == text


LINES = st.lists(st.sampled_from(["a", "b", "", "c = 1"]), max_size=8)


@given(LINES, st.data())
def test_line_ends_stay(lines: list[str], data: st.DataObject) -> None:
    ends = data.draw(st.lists(st.sampled_from(["\n", "\r\n"]), min_size=len(lines), max_size=len(lines)))
    before = "".join(line + end for line, end in zip(lines, ends, strict=True)) + data.draw(
        st.sampled_from(["", "z"])
    )
    shown = before.replace("\r\n", "\n")
    assert restore_line_ends(before, shown) == before
    typed = "\n".join([*data.draw(LINES), shown])
    assert restore_line_ends(before, typed).replace("\r\n", "\n") == typed


def test_a_plan_keeps_the_rest_of_a_file(folder: Path) -> None:
    workspaces, file = (folder / ACME).parent, folder / ACME
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    before = file.read_text(newline="")
    shown = read_editable(workspaces, "acme")
    assert plan_text(workspaces, "acme", shown.digest, shown.hidden.text).after == before
    typed = shown.hidden.text.replace('plan = "pro"', 'plan = "standard"')
    plan = plan_text(workspaces, "acme", shown.digest, typed)
    assert plan.after == before.replace('plan = "pro"', 'plan = "standard"')
    with pytest.raises(EditError, match="has changed since"):
        plan_text(workspaces, "acme", "0" * 64, typed)


@pytest.mark.parametrize("content", [b"\xef\xbb\xbfname = 'x'\n", b"name = \n[", b"name = 'x\xff'\n"])
def test_a_broken_file_is_mended(folder: Path, content: bytes) -> None:
    workspaces, file = (folder / ACME).parent, folder / ACME
    file.write_bytes(content)
    shown = read_editable(workspaces, "acme")
    plan = plan_text(workspaces, "acme", shown.digest, "name = 'y'\n")
    assert (plan.before, plan.after) == (content, "name = 'y'\n")
    assert plan.check(SettingsFiles(folder / "proxy.conf")).error is None
    assert shown.is_damaged == (b"\xff" in content)


def test_a_hidden_value_stays_in_its_key(folder: Path) -> None:
    workspaces, file = (folder / ACME).parent, folder / ACME
    file.write_text(TEXT)
    shown = read_editable(workspaces, "acme")
    for key in ("name", "label"):
        typed = SHOWN.replace('hash = "sha256:(unchanged 1)"', f'{key} = "(unchanged 1)"').replace(
            'name = "Acme"\n', ""
        )
        with pytest.raises(HiddenValueError, match=f"the key {key} can't have a hidden value"):
            plan_text(workspaces, "acme", shown.digest, typed)


def test_the_quotes_of_a_value_stay_with_it() -> None:
    hidden = hide_values('secret = "half a secret\n')
    assert hidden.text == "secret = (unchanged 1)\n"
    with pytest.raises(HiddenValueError, match="in quotes of its own"):
        hidden.restore('name = (unchanged 1)"\n')


def test_a_large_file_is_refused(folder: Path) -> None:
    (folder / ACME).write_text("#\n" * 20_001)
    with pytest.raises(EditError, match="use a text editor"):
        read_editable((folder / ACME).parent, "acme")
