"""What the commands share: the options that several of them take, and how a fault is told in one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from addon.settings_io import SettingsError

conf_option = click.option(
    "--conf",
    "conf_file",
    type=click.Path(path_type=Path),
    default="proxy.conf",
    show_default=True,
    help="The gateway's configuration file.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def reason(error: Exception) -> str:
    """Return one line that says what is wrong, with the file where it is about one."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


@contextmanager
def clear_errors() -> Iterator[None]:
    """Turn what operators can put right into one line on stderr and exit status 1."""
    try:
        yield
    except (SettingsError, OSError) as error:
        raise click.ClickException(reason(error)) from None
