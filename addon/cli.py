"""The ``tollgate`` command line. Each command is defined in its own module of ``addon/commands``."""

from importlib import import_module
from types import MappingProxyType
from typing import Final

import click

from addon import VERSION
from addon.text.masking import mask_credentials

COMMANDS: Final = MappingProxyType(
    {
        "alerts": "addon.commands.alerts:alerts",
        "catalog": "addon.commands.catalog:catalog",
        "check": "addon.commands.check:check",
        "completion": "addon.commands.completion:completion",
        "explain": "addon.commands.explain:explain_command",
        "init": "addon.commands.init:init",
        "keys": "addon.commands.keys:keys",
        "ledger": "addon.commands.ledger:ledger",
        "secrets": "addon.commands.secrets:secrets",
        "serve": "addon.commands.serve:serve",
        "state": "addon.commands.state:state",
        "usage": "addon.commands.usage:usage",
        "wallet": "addon.commands.wallet:wallet",
        "workspaces": "addon.commands.workspaces:workspaces",
    }
)
"""The module and the function of each command. Only the module of the command that runs is imported."""


class _Commands(click.Group):
    """The commands. Credentials in their errors are masked: an operator may type one in a wrong place."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), function)
        return command

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


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="tollgate")
def main() -> None:
    """Tollgate: a chat-completion gateway inside mitmproxy."""


if __name__ == "__main__":
    main(prog_name="tollgate")
