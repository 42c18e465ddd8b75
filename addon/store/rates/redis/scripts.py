"""Lua scripts, each with the digest that Redis knows it by. A script may include others, also of ``lua/`` here."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from policies.token_bucket import GROUPS, WINDOW_US, slice_us

LUA = Path(__file__).parent / "lua"

_INCLUDE = re.compile(r"^(?:  )?-- include (\w+\.lua)$", re.MULTILINE)
_FIRST_LINE = re.compile(r"^#!lua.*\n")


@dataclass(frozen=True, slots=True)
class Script:
    """The text of a script, and its SHA-1."""

    text: str
    sha: str


def load_script(name: str, folder: Path = LUA) -> Script:
    """Read ``name.lua`` of ``folder``, and what it includes."""
    text = _read(f"{name}.lua", folder)
    return Script(text, hashlib.sha1(text.encode()).hexdigest())  # noqa: S324  (Redis names scripts by SHA-1)


def _read(name: str, folder: Path) -> str:
    path = folder / name
    text = (path if path.exists() else LUA / name).read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda found: _FIRST_LINE.sub("", _read(found[1], folder)), text)


TAKE_TOKEN = load_script("take_token")
READ_CIRCUITS = load_script("read_circuits")
SWAP_CIRCUIT = load_script("swap_circuit")
CLAIM = load_script("claim")


def bucket_arguments(limit_rpm: int) -> tuple[int, ...]:
    """Return the arguments of ``take_token.lua``: the limit and the constants of the rule."""
    return limit_rpm, WINDOW_US, slice_us(limit_rpm), GROUPS + 1
