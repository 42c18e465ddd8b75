"""The Lua scripts of ``lua/``, each with the digest that Redis knows it by. A script may include others."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Script:
    """The text of a script, and its SHA-1."""

    text: str
    sha: str


_LUA = Path(__file__).parent / "lua"
_INCLUDE = re.compile(r"^(?:  )?-- include (\w+\.lua)$", re.MULTILINE)
_FIRST_LINE = re.compile(r"^#!lua.*\n")


def _load(name: str) -> Script:
    text = (_LUA / f"{name}.lua").read_text(encoding="utf-8")
    text = _INCLUDE.sub(
        lambda found: _FIRST_LINE.sub("", (_LUA / found[1]).read_text(encoding="utf-8")), text
    )
    return Script(text, hashlib.sha1(text.encode()).hexdigest())  # noqa: S324  (Redis names scripts by SHA-1)


TAKE_TOKEN = _load("take_token")
HOLD = _load("hold")
TAKE_AND_HOLD = _load("take_and_hold")
VOID = _load("void")
SETTLE = _load("settle")
CREDIT = _load("credit")

CHECK_STATE = _load("check_state")
REGISTER_WORKSPACE = _load("register_workspace")
REFILL_BUCKET = _load("refill_bucket")
RENEW_LEASES = _load("renew_leases")
FORGET_LEASE = _load("forget_lease")
FORGET_ENTRIES = _load("forget_entries")
SWAP_CIRCUIT = _load("swap_circuit")
ADD_REFUSALS = _load("add_refusals")
TAKE_REFUSALS = _load("take_refusals")
FORGET_REFUSALS = _load("forget_refusals")
