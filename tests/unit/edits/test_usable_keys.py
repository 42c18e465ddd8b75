"""Which keys a text lets in: as far as it can be read, and whatever someone has written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.settings_files import ACME, FILES, HASH_A, HASH_B

from addon.edits.usable_keys import find_hashes_of, find_usable

TWO_SECRETS = f"""
[[keys]]
id = "ci"
hash = "sha256:{HASH_A.upper()}"
previous_hash = "sha256:{HASH_B}"
active = true
"""


@pytest.mark.parametrize(
    ("text", "usable", "of_ci"),
    [
        (FILES[ACME], {HASH_A}, {HASH_A}),
        (FILES[ACME].replace("true", "false"), set(), {HASH_A}),
        (TWO_SECRETS, {HASH_A, HASH_B}, {HASH_A, HASH_B}),
        (TWO_SECRETS.replace("active = true", ""), set(), {HASH_A, HASH_B}),
        (TWO_SECRETS.replace("active = true", 'active = "true"'), set(), {HASH_A, HASH_B}),
        (
            f'[[keys]]\nid = "ci"\nhash = {{}}\nprevious_hash = "sha256:{HASH_B}"\nactive = true',
            {HASH_B},
            {HASH_B},
        ),
        ('[[keys]]\nid = "other"\nhash = "sha256:0"\nactive = true', {"0"}, set()),
        ("keys = 1", set(), set()),
        ('keys = ["ci"]', set(), set()),
        ('[keys]\nid = "ci"', set(), set()),
        ("no TOML", set(), set()),
        ("", set(), set()),
    ],
)
def test_the_keys_of_a_text(text: str, usable: set[str], of_ci: set[str]) -> None:
    assert find_usable(text.encode()) == usable
    assert find_hashes_of(text.encode(), "ci") == of_ci


@given(st.binary(max_size=200), st.text(max_size=20))
def test_any_bytes_are_read(content: bytes, key_id: str) -> None:
    assert find_hashes_of(content, key_id) >= set()
    assert find_usable(content + b"\xff") >= set()
