"""Options that several commands take."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from addon.commands.output import Form

CONF_VARIABLE: Final = "TOLLGATE_CONF"

conf_option = click.option(
    "--conf",
    "conf_file",
    type=click.Path(path_type=Path),
    default="proxy.conf",
    show_default=True,
    envvar=CONF_VARIABLE,
    show_envvar=True,
    help="The gateway's configuration file.",
)
ledger_option = click.option(
    "--ledger",
    "ledger_file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Read this archive or backup instead of the ledger.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def limit_option(rows: str, default: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option ``--limit`` of a command that lists ``rows``."""
    return click.option(
        "--limit",
        type=click.IntRange(1, 2**31),
        default=default,
        show_default=True,
        help=f"The largest number of {rows}.",
    )


def listing_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--json``, ``--csv`` and ``--wide`` to a command that lists something. It gets one argument ``form``."""

    @json_option
    @click.option("--csv", "as_csv", is_flag=True, help="Print CSV instead of a table.")
    @click.option(
        "--wide", is_flag=True, help="Print whole texts and all columns, however wide the table is."
    )
    @wraps(command)
    def with_form(*args: Any, as_json: bool, as_csv: bool, wide: bool, **options: Any) -> None:
        forms: dict[Form, bool] = {"json": as_json, "csv": as_csv, "wide": wide}
        chosen = [form for form, is_chosen in forms.items() if is_chosen]
        if len(chosen) > 1:
            raise click.UsageError("use only one of --json, --csv and --wide")
        command(*args, form=chosen[0] if chosen else "table", **options)

    return with_form
