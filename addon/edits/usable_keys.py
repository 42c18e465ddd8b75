"""Which API keys a text of a workspace lets in, as far as it can be read: so an edit knows which keys it ends."""

from typing import Any

from addon.text.toml import TomlError, load_toml

_PREFIX = "sha256:"


def find_usable(text: bytes) -> frozenset[str]:
    """Return the hashes of the secrets of active keys, none for a text that is no TOML."""
    return frozenset(one for key in _read_keys(text) if key.get("active") is True for one in _hashes(key))


def find_hashes_of(text: bytes, key_id: str) -> frozenset[str]:
    """Return the hashes of one key, whether it is active or not."""
    return frozenset(one for key in _read_keys(text) if key.get("id") == key_id for one in _hashes(key))


def _read_keys(text: bytes) -> list[dict[str, Any]]:
    try:
        keys = load_toml(text.decode(errors="replace")).get("keys")
    except TomlError:
        return []
    return [key for key in keys if isinstance(key, dict)] if isinstance(keys, list) else []


def _hashes(key: dict[str, Any]) -> list[str]:
    named = (key.get("hash"), key.get("previous_hash"))
    return [one.removeprefix(_PREFIX).lower() for one in named if isinstance(one, str)]
