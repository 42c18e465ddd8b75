"""A difference shows the lines that change, and no secret, whatever notation the file has."""

import pytest

from addon.edits.diff import MAX_LINES, NO_KEY_YET, make_diff, read_diff

HASH = "0123456789abcdef" * 4
SEALED = "sealed:gAAAAABm0123456789abcdefghijklmnopqrstuvwxyz"
SECRETS = (HASH, HASH.upper(), SEALED, "sk-obviously-fake-0123", "hunter22hunter")
HIDDEN = [
    f'hash = "sha256:{HASH}"',
    f'  "hash"="sha256:{HASH}" # made in May',
    f"previous_hash = 'sha256:{HASH.upper()}'",
    f'keys = [{{ id = "ci", hash = "sha256:{HASH}" }}]',
    f'hash = """sha256:{HASH}"""',
    f"# the old one was {HASH}",
    f"secret = '{SEALED}'",
    'secret = "hunter22hunter"',
    'byok.OPENAI = { secret = "hunter22hunter", routing = true }',
    'label = "sk-obviously-fake-0123"',
]


def shown(before: str, after: str) -> list[str]:
    return [str(line) for line in make_diff(before, after) if line.kind != "place"]


def test_lines_around_a_change_are_shown() -> None:
    before = "".join(f"{number}\n" for number in range(20))
    assert shown(before, before.replace("10\n", "ten\n")) == [
        *(" 7", " 8", " 9", "-10", "+ten", " 11", " 12", " 13"),
    ]


@pytest.mark.parametrize("line", HIDDEN)
def test_no_secret_is_shown(line: str) -> None:
    for text in (shown("", line), shown(line, ""), shown(f"{line}\nx = 1", f"{line}\nx = 2")):
        assert not [secret for secret in SECRETS if secret in "\n".join(text)]


@pytest.mark.parametrize("place", ["env:ACME_KEY", "file:/run/secrets/acme"])
def test_the_place_of_a_secret_is_shown(place: str) -> None:
    assert shown("", f'secret = "{place}"') == [f'+secret = "{place}"']


def test_the_hash_of_a_key_that_is_not_made_yet_is_words() -> None:
    [line] = shown("", f'hash = "sha256:{NO_KEY_YET}"')
    assert line == "+hash = (the hash of the new key, which is made when you confirm)"


def test_text_of_others_can_t_control_the_page() -> None:
    [line] = shown("", 'label = "\u202eevil\x1b[0m"')
    assert line == '+label = "\\u202eevil\\x1b[0m"'


def test_a_long_difference_is_cut_off() -> None:
    lines = make_diff("", "x\n" * (2 * MAX_LINES))
    assert len(lines) == MAX_LINES + 1
    assert "more lines" in lines[-1].text


def test_a_difference_is_read_from_its_text() -> None:
    lines = make_diff("a\n\nb\n", "a\n\n++c\n")
    assert read_diff("\n".join(map(str, lines))) == lines
