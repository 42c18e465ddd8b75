"""The ``tollgate`` command line. Each command but ``serve`` is defined in its own module of ``addon/commands``."""

import sys
from pathlib import Path

import click

from addon import VERSION
from addon.commands.catalog import catalog
from addon.commands.explain import explain_command
from addon.commands.init import init
from addon.commands.keys import keys
from addon.commands.ledger import ledger
from addon.commands.options import conf_option
from addon.commands.secrets import secrets
from addon.commands.state import state
from addon.commands.usage import usage
from addon.commands.wallet import wallet
from addon.settings.errors import describe_error
from addon.text.masking import mask_credentials


class _MaskingGroup(click.Group):
    """A group of commands that masks credentials in errors: an operator may type one in a wrong place."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            message = error.format_message()
            if (masked := mask_credentials(message)) == message:
                raise
            if isinstance(error, click.UsageError):
                raise click.UsageError(masked, error.ctx) from None
            raise click.ClickException(masked) from None


@click.group(cls=_MaskingGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="tollgate")
def main() -> None:
    """Tollgate: a chat-completion gateway inside mitmproxy."""


@main.command()
@conf_option
@click.option("--port", type=click.IntRange(0, 65_535), help="Replaces [listen] port; 0 means any free port.")
@click.option("--host", help="Replaces [listen] host.")
@click.option("--workers", type=click.IntRange(1), help="Replaces [listen] workers.")
@click.option("--strict", is_flag=True, help="Do not start while a workspace file does not load.")
def serve(conf_file: Path, port: int | None, host: str | None, workers: int | None, *, strict: bool) -> None:
    """Run the gateway until SIGTERM or SIGINT."""
    from addon.commands.serve import run
    from addon.serve.start_faults import START_FAULTS

    try:
        run(conf_file.absolute(), host=host, port=port, workers=workers, strict=strict)
    except START_FAULTS as error:
        click.echo(f"tollgate: {describe_error(error)}", err=True)
        sys.exit(1)


main.add_command(init)
main.add_command(keys)
main.add_command(secrets)
main.add_command(wallet)
main.add_command(usage)
main.add_command(ledger)
main.add_command(state)
main.add_command(catalog)
main.add_command(explain_command)

if __name__ == "__main__":
    main(prog_name="tollgate")
