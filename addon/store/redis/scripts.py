"""The Lua scripts of ``lua/``."""

from pathlib import Path

from addon.store.rates.redis.scripts import Script, load_script


def _load(name: str) -> Script:
    return load_script(name, Path(__file__).parent / "lua")


TAKE_TOKEN = _load("take_checked_token")
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
ADD_REFUSALS = _load("add_refusals")
TAKE_REFUSALS = _load("take_refusals")
FORGET_REFUSALS = _load("forget_refusals")
