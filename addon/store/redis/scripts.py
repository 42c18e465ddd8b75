"""The Lua scripts of ``lua/``, each with the digest that Redis knows it by."""

import hashlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Script:
    """The text of a script, and its SHA-1."""

    text: str
    sha: str


def _load(name: str) -> Script:
    text = (Path(__file__).parent / "lua" / f"{name}.lua").read_text(encoding="utf-8")
    return Script(text, hashlib.sha1(text.encode()).hexdigest())  # noqa: S324  (Redis names scripts by SHA-1)


TAKE_TOKEN = _load("take_token")
HOLD = _load("hold")
VOID = _load("void")
SETTLE = _load("settle")
CREDIT = _load("credit")

CHECK_STATE = _load("check_state")
REGISTER_WORKSPACE = _load("register_workspace")
REFILL_BUCKET = _load("refill_bucket")
RENEW_LEASES = _load("renew_leases")
FORGET_LEASE = _load("forget_lease")
SWAP_CIRCUIT = _load("swap_circuit")
