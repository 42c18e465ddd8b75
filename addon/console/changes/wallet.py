"""The forms of wallets: credits and debits."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from addon.console.changes.field import Field, FieldErrors
from addon.console.changes.form import AppliedChange, Change, EditedFiles, Form, RequestedChange
from addon.console.changes.workspaces import require_workspace
from addon.edits.diff import DiffLine
from addon.edits.recording import ChangeRecord
from addon.edits.workspace_files import EditError, Write, find_file
from addon.settings.conf_schema import ProxyConf
from addon.store.backends import find_ledger
from addon.store.money.ledger import CHANGE_S
from addon.store.money.reports.report import find_entry
from addon.store.money.wallet import (
    BELOW_ZERO,
    EntryRefused,
    check_balance,
    describe_entry,
    describe_stored,
    make_credit,
    parse_amount,
    parse_debit,
    parse_reference,
    read_balance_nanousd,
    record_entry,
    save_entry,
    summarize_entry,
)
from addon.store.protocol import WalletEntry
from policies.money import format_nanousd

FINAL: Final = "An entry is never changed or removed. Only another entry corrects it."


@dataclass(frozen=True)
class WalletChange:
    """An entry of a wallet, and the balance before it."""

    entry: WalletEntry
    balance_nanousd: int

    subject = None
    notes = (FINAL,)
    # Calls change the balance at any moment, so a change does not depend on it.
    digest = ""

    @property
    def summary(self) -> str:
        return summarize_entry(self.entry)

    @property
    def lines(self) -> Sequence[DiffLine]:
        return describe_entry(self.entry, self.balance_nanousd)

    def check(self, files: EditedFiles) -> Sequence[str]:
        with _reporting():
            check_balance(self.balance_nanousd, self.entry)
            stored = _find_stored(files.settings.conf, self.entry)
            if stored is not None:
                raise EditError(f"already entered: {describe_stored(files.settings.conf, self.entry)}")
        return [BELOW_ZERO] if self.balance_nanousd + self.entry.amount_nanousd < 0 else []

    def record(self) -> ChangeRecord:
        return record_entry(self.entry, self.balance_nanousd)

    def apply(self, files: EditedFiles, write: Write) -> AppliedChange:  # noqa: ARG002
        conf = files.settings.conf
        with _reporting():
            check_balance(self.balance_nanousd, self.entry)
            if not save_entry(conf, self.entry):
                return AppliedChange(
                    [f"Already entered: {describe_stored(conf, self.entry)}."], is_made=False
                )
            left_nanousd = read_balance_nanousd(conf, self.entry.workspace)
        done = [f"The balance is {format_nanousd(left_nanousd)} USD."]
        return AppliedChange([*done, *([BELOW_ZERO] if left_nanousd < 0 else [])])


@contextmanager
def _reporting() -> Iterator[None]:
    """Turn the refusal of an entry into an ``EditError``."""
    try:
        yield
    except EntryRefused as error:
        raise EditError(str(error)) from None


def _find_stored(conf: ProxyConf, entry: WalletEntry) -> WalletEntry | None:
    with find_ledger(conf).bounded(CHANGE_S).read() as ledger:
        return find_entry(ledger, entry.id)


def _plan_credit(asked: RequestedChange) -> Change:
    if asked.values["amount"] < 0 and asked.values["reference"] is None:
        raise FieldErrors({"reference": "is needed for a negative amount: it says what that corrects"})
    return _plan(asked, asked.values["amount"])


def _plan_debit(asked: RequestedChange) -> Change:
    return _plan(asked, -asked.values["amount"])


def _plan(asked: RequestedChange, amount_nanousd: int) -> Change:
    conf, workspace = asked.files.settings.conf, asked.names["workspace"]
    find_file(asked.files.folder, workspace)
    entry = make_credit(workspace, amount_nanousd, asked.values["reference"], asked.random_id)
    with _reporting():
        balance = read_balance_nanousd(conf, workspace)
    return WalletChange(entry, balance)


CREDIT: Final = Form(
    action="wallet credit",
    title="Credit a wallet",
    plan=_plan_credit,
    fields=(
        Field("amount", "Amount in USD", parse_amount, "Such as 50 or 12.5.", is_required=True),
        Field(
            "reference",
            "Reference",
            parse_reference,
            "The reason, such as the number of an invoice. One reference is credited only once.",
        ),
    ),
    current=require_workspace,
)
DEBIT: Final = Form(
    action="wallet debit",
    title="Debit a wallet",
    plan=_plan_debit,
    fields=(
        Field("amount", "Amount in USD", parse_debit, "Such as 50 or 12.5.", is_required=True),
        Field(
            "reference",
            "Reference",
            parse_reference,
            "The reason. One reference is debited or credited only once.",
            is_required=True,
        ),
    ),
    current=require_workspace,
    intro="A debit takes money out of the wallet: it corrects a credit, or is a refund.",
)
