"""The Lua scripts of ``lua/``, each with the digest that Redis knows it by."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from policies.token_bucket import GROUPS, WINDOW_US, slice_us


@dataclass(frozen=True, slots=True)
class Script:
    """The text of a script, and its SHA-1."""

    text: str
    sha: str


def _load(name: str) -> Script:
    text = (Path(__file__).parent / "lua" / f"{name}.lua").read_text(encoding="utf-8")
    return Script(text, hashlib.sha1(text.encode()).hexdigest())  # noqa: S324  (Redis names scripts by SHA-1)


TAKE_TOKEN = _load("take_token")
READ_CIRCUITS = _load("read_circuits")
SWAP_CIRCUIT = _load("swap_circuit")
CLAIM = _load("claim")


def bucket_arguments(limit_rpm: int) -> tuple[int, ...]:
    """Return the arguments of ``take_token.lua``: the limit and the constants of the rule."""
    return limit_rpm, WINDOW_US, slice_us(limit_rpm), GROUPS + 1
