"""Options that several commands take."""

from pathlib import Path

import click

conf_option = click.option(
    "--conf",
    "conf_file",
    type=click.Path(path_type=Path),
    default="proxy.conf",
    show_default=True,
    help="The gateway's configuration file.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
