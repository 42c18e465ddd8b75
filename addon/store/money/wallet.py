"""Entries of wallets that people make: credits and debits, with the texts that they type for them.

The command ``tollgate wallet`` and the console use the same functions. Source: docs/commands.md.
"""

import asyncio
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from addon.edits.diff import DiffLine
from addon.edits.recording import ChangeRecord, Evidence
from addon.settings.conf_schema import ProxyConf
from addon.store.backends import find_ledger, open_money
from addon.store.money.ledger import CHANGE_S
from addon.store.money.reports.report import find_balances, find_entry, ledger_counters
from addon.store.money.rows import CALL
from addon.store.protocol import WalletEntry
from addon.text.masking import mask_credentials
from addon.text.unprintable import escape_unprintable
from policies.money import MAX_CAP_USD, format_nanousd, parse_usd_nanousd
from policies.utc_time import format_utc

MAX_REFERENCE_CHARS: Final = 200
BELOW_ZERO: Final = "The balance is below zero: metered calls are refused, unless the workspace is Pro."


class EntryRefused(Exception):  # noqa: N818  (the state of a wallet, no fault of the program)
    """The entry can't be made. ``str`` is one line, and nothing was changed."""


def parse_amount(text: str) -> int:
    """Return nano-USD. A negative amount takes money out. Raises ``ValueError``."""
    is_negative = text.startswith("-")
    try:
        amount_nanousd = parse_usd_nanousd(text[is_negative:])
    except ValueError as error:
        raise ValueError(f"{text!r} {error}") from None
    if amount_nanousd == 0:
        raise ValueError("must not be zero")
    return -amount_nanousd if is_negative else amount_nanousd


def parse_debit(text: str) -> int:
    """Return nano-USD, more than 0. Raises ``ValueError``."""
    if text.startswith("-"):
        raise ValueError("must not be negative: a debit takes it out of the wallet")
    return parse_amount(text)


def parse_reference(text: str) -> str:
    """Return the text of an entry. Raises ``ValueError``."""
    if mask_credentials(text) != text:
        raise ValueError("looks like a credential, and would be written into the ledger")
    if 0 < len(text) <= MAX_REFERENCE_CHARS and text.isprintable() and text != CALL:
        return text
    raise ValueError(
        f'must be printable, at most {MAX_REFERENCE_CHARS} characters, and not "{CALL}", the reference of calls'
    )


def make_credit(
    workspace: str, amount_nanousd: int, reference: str | None, random_id: str | None = None
) -> WalletEntry:
    """Return the entry of a credit. With a reference it is always the same entry; without, that of ``random_id``.

    Without either, it is always a new one.
    """
    # Neither the ids of calls nor the names of workspaces hold a slash. So two ids are equal only if both parts are.
    random_id = random_id or secrets.token_hex(16)
    entry_id = f"credit_{random_id}" if reference is None else f"{workspace}/{reference}"
    return WalletEntry(entry_id, datetime.now(UTC), workspace, amount_nanousd, reference or "")


def summarize_entry(entry: WalletEntry) -> str:
    """Return in one line what an entry does."""
    amount, shown = entry.amount_nanousd, format_nanousd(abs(entry.amount_nanousd))
    to_or_from = f"Credit {shown} USD to" if amount > 0 else f"Debit {shown} USD from"
    return f"{to_or_from} {entry.workspace}"


def describe_entry(entry: WalletEntry, balance_nanousd: int) -> Sequence[DiffLine]:
    """Return an entry, and the balance before and after it, as lines of a difference."""
    after, amount = balance_nanousd + entry.amount_nanousd, format_nanousd(entry.amount_nanousd)
    reference = escape_unprintable(entry.reference) or "none"
    return (
        DiffLine("same", f"entry {amount} USD, reference: {reference}"),
        DiffLine("removed", f"balance {format_nanousd(balance_nanousd)} USD"),
        DiffLine("added", f"balance {format_nanousd(after)} USD"),
    )


def entry_evidence(entry: WalletEntry) -> Evidence:
    """Return the evidence of an entry."""
    # The time is part of it: the same entry of someone else is not this change.
    return {"entry": entry.id, "at": format_utc(entry.created_at)}


def record_entry(entry: WalletEntry, balance_nanousd: int) -> ChangeRecord:
    """Return the record of an entry that is made to a wallet with this balance."""
    lines = [summarize_entry(entry), *map(str, describe_entry(entry, balance_nanousd))]
    return ChangeRecord("\n".join(lines), entry_evidence(entry), entry.workspace)


def save_entry(conf: ProxyConf, entry: WalletEntry) -> bool:
    """Write an entry to the store; return whether it is new. Raises ``StoreUnavailable``."""

    async def credit_and_close() -> bool:
        money = open_money(conf)
        try:
            await money.check()
            return await money.credit(entry)
        finally:
            await money.close()

    return asyncio.run(credit_and_close())


def read_balance_nanousd(conf: ProxyConf, workspace: str) -> int:
    """Return the balance of a wallet. Raises ``StoreUnavailable``."""
    with find_ledger(conf).bounded(CHANGE_S).read() as ledger:
        [of_workspace] = find_balances(ledger_counters(ledger), [workspace]).records()
    found: int = of_workspace["balance_nanousd"]
    return found


def check_balance(balance_nanousd: int, entry: WalletEntry) -> None:
    """Refuse a credit that brings the wallet near the largest integer. It is a typing error."""
    if abs(balance_nanousd + entry.amount_nanousd) > MAX_CAP_USD * 10**9:
        raise EntryRefused(f"the balance would exceed {MAX_CAP_USD} USD, the most that a wallet can hold")


def describe_stored(conf: ProxyConf, entry: WalletEntry) -> str:
    """Describe the entry with the same reference. Raises ``EntryRefused`` when its amount differs."""
    reference = f'reference "{entry.reference}"' if entry.reference else "no reference"
    with find_ledger(conf).bounded(CHANGE_S).read() as ledger:
        stored = find_entry(ledger, entry.id)
    if stored is None:
        return reference
    amount, day = f"{format_nanousd(stored.amount_nanousd)} USD", f"{stored.created_at:%Y-%m-%d %H:%M:%S} UTC"
    if stored.amount_nanousd != entry.amount_nanousd:
        raise EntryRefused(
            f"{reference} of {entry.workspace} has another amount, {amount} of {day}; nothing was changed"
        )
    return f"{amount}, {reference}, {day}"
