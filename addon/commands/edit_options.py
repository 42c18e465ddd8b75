"""The options that set keys of operators' files, and the texts that they take.

``key_options`` and ``workspace_options`` give a command one argument ``changes``: new values by the file's own keys,
None where an option removes one.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from addon.edits.toml_lines import Value
from addon.edits.typed_settings import KEY_SETTINGS, WORKSPACE_SETTINGS, Setting


def key_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of ``[[keys]]``."""
    return _add_options(command, KEY_SETTINGS)


def workspace_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a workspace file's top level."""
    return _add_options(command, WORKSPACE_SETTINGS)


def _add_options(command: Callable[..., None], settings: Sequence[Setting]) -> Callable[..., None]:
    @wraps(command)
    def with_changes(*args: Any, **options: Any) -> None:
        changes: dict[str, Value | None] = {}
        for one in settings:
            value, is_removed = options.pop(one.key), options.pop(f"no_{one.key}", False)
            if one.can_repeat and value is not None:
                value = [name for names in value for name in names]
            if value is not None and is_removed:
                raise click.UsageError(f"use either {one.option} or {one.remover}")
            if value is not None or is_removed:
                # An empty text removes a key too.
                is_empty = value == "" or (one.can_repeat and not value)
                changes[one.key] = None if is_removed or is_empty else value
        command(*args, changes=changes, **options)

    wrapped: Callable[..., None] = with_changes
    for one in reversed(settings):
        wrapped = _add_option(wrapped, one)
    return wrapped


def _add_option(command: Callable[..., None], setting: Setting) -> Callable[..., None]:
    if setting.choices:
        kind = click.Choice(list(setting.choices))
        return click.option(setting.option, setting.key, type=kind, help=setting.help)(command)
    if setting.parse is None:
        names = f"{setting.option}/{setting.remover}"
        return click.option(names, setting.key, default=None, help=setting.help)(command)
    if setting.can_remove:
        remove = click.option(
            setting.remover, f"no_{setting.key}", is_flag=True, help=f"Remove {setting.key}."
        )
        command = remove(command)
    return click.option(
        setting.option,
        setting.key,
        metavar=setting.metavar,
        multiple=setting.can_repeat,
        default=None,
        callback=parse_with(setting.parse),
        help=setting.help,
    )(command)


def parse_with(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return a callback that parses the text of an option. An empty text stays as it is."""

    def convert(text: str, context: click.Context, option: click.Parameter) -> Any:
        try:
            return parse(text) if text else text
        except ValueError as error:
            raise click.BadParameter(str(error), context, option) from None

    def callback(context: click.Context, option: click.Parameter, given: Any) -> Any:
        if isinstance(given, tuple):
            return [convert(text, context, option) for text in given] if given else None
        return None if given is None else convert(given, context, option)

    return callback
