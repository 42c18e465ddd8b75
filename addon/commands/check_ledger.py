"""What ``tollgate check`` asks the PostgreSQL of ``[ledger] url``: whether its commits are safe."""

from collections.abc import Sequence
from threading import Event
from typing import Final, NamedTuple

import click

from addon.settings.overview import FileWarning
from addon.settings.settings import Settings
from addon.store.backends import find_ledger
from addon.store.money.ledger import SlowError
from addon.store.protocol import StoreUnavailable

_ANSWER_S: Final = 3.0


class LedgerCheck(NamedTuple):
    """The warnings about a ledger. ``fault`` says why it was not asked; None where it was, or is a file."""

    warnings: Sequence[FileWarning] = ()
    fault: str | None = None

    def show(self) -> None:
        """Print why it was not asked."""
        if self.fault:
            click.echo(f"ledger: not asked whether its commits are safe: {self.fault}")


def check_ledger(settings: Settings | None) -> LedgerCheck:
    """Ask the server, within some seconds. Nothing is written there."""
    if settings is None or not settings.conf.ledger.url:
        return LedgerCheck()
    # Commands of one machine need no driver of PostgreSQL.
    from addon.store.money.postgres import safety

    try:
        with find_ledger(settings.conf).read_in_time(_ANSWER_S, Event()) as ledger:
            values = ledger.execute(safety.SETTINGS).fetchone()
    except SlowError:
        return LedgerCheck(fault="it does not answer")
    except StoreUnavailable as error:
        return LedgerCheck(fault=str(error))
    found = safety.find_unsafe(values)
    return LedgerCheck([FileWarning(one.kind, settings.conf_file, "ledger.url", one.text) for one in found])
