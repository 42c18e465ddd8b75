"""The ``tollgate`` command line. Each command is defined in its own module of ``addon/commands``."""

import errno
import os
import sys
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import click
from click.shell_completion import CompletionItem

from addon import VERSION
from addon.runtime.quick_imports import without_collection
from addon.text.masking import mask_credentials
from addon.text.unprintable import escape_unprintable


class _Command(NamedTuple):
    """Where a command is defined, and its line in the list of commands."""

    module: str
    function: str
    summary: str


COMMANDS: Final = MappingProxyType(
    {
        "alerts": _Command("alerts", "alerts", "Test the webhook of [alerts], and list its events."),
        "catalog": _Command("catalog", "catalog", "Show models, add some, check and update prices."),
        "check": _Command("check", "check", "Check all files as serve would load them."),
        "completion": _Command("completion", "completion", "Print the completion script of a shell."),
        "explain": _Command(
            "explain", "explain_command", "Show what would happen to a chat request, and why."
        ),
        "init": _Command("init", "init", "Make a deployment folder for one gateway."),
        "keys": _Command("keys", "keys", "Create, change, rotate, list and revoke API keys."),
        "ledger": _Command("ledger", "ledger", "Check, back up and restore the ledger."),
        "secrets": _Command("secrets", "secrets", "Make master keys, and seal secrets with them."),
        "serve": _Command("serve", "serve", "Run the gateway until SIGTERM, SIGINT or SIGHUP."),
        "usage": _Command("usage", "usage", "Show calls, totals, refused calls and limits."),
        "wallet": _Command("wallet", "wallet", "Credit wallets, and show balances and entries."),
        "workspaces": _Command("workspaces", "workspaces", "Create, change and list workspaces."),
    }
)
"""The commands. Only the module of the command that runs is imported, so help and completion are quick."""

_OUTPUT_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


class _Commands(click.Group):
    """The commands. Credentials in their errors are masked: an operator may type one in a wrong place.

    Control characters are escaped: errors quote texts of files.
    """

    def main(self, *args: Any, **extra: Any) -> Any:
        try:
            return super().main(*args, **extra)
        except OSError as error:
            # Such as a full disk below the standard output, or a current folder that was deleted.
            click.echo(f"Error: {_describe_os_error(error)}", err=True)
            sys.exit(1)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        place = COMMANDS[cmd_name]
        with without_collection():
            module = import_module(f"addon.commands.{place.module}")
        command: click.Command = getattr(module, place.function)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            # The group itself knows no names, because it imports commands only when they run.
            raise click.NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=COMMANDS[name].summary) for name in names]
        # The options of this group. Group.shell_complete itself would import all commands.
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            message = error.format_message()
            if (shown := escape_unprintable(mask_credentials(message))) == message:
                raise
            if isinstance(error, click.UsageError):
                raise click.UsageError(shown, error.ctx) from None
            raise click.ClickException(shown) from None


def _describe_os_error(error: OSError) -> str:
    # Not needed for help and completion, which are quick.
    from addon.settings.errors import describe_error

    if error.filename is None and error.errno in _OUTPUT_ERRORS:
        # The rest of the output can't be written either, so it must not fail again at the exit.
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.__stdout__.fileno() if sys.__stdout__ else 1)
        return f"standard output: {describe_error(error)}"
    return describe_error(error)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="tollgate")
def main() -> None:
    """Tollgate: a chat-completion gateway inside mitmproxy."""


if __name__ == "__main__":
    main(prog_name="tollgate")
