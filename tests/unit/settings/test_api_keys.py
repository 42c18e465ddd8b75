"""New API keys are random, and a key is stored as its hash."""

import re
import string

from addon.settings.api_keys import hash_key, make_key


def test_a_new_key_is_tg_and_40_base62_characters_and_always_another() -> None:
    made = {make_key() for _ in range(50)}
    assert len(made) == 50
    assert all(re.fullmatch(r"tg_[0-9A-Za-z]{40}", key) for key in made)
    assert set(string.digits + string.ascii_letters) == set("".join(key[3:] for key in made))


def test_the_hash_is_the_hex_sha256_of_the_whole_key() -> None:
    # Computed by coreutils: printf tg_abc | sha256sum
    assert hash_key("tg_abc") == "7af245a637190511429eebe49c47109f76108599b036ee9e51d082cc877ed3d5"
