"""docs/commands.md has every command, with every option and an example that the command accepts."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest
from rig.configuration import ROOT

from addon.cli import main
from addon.commands.usage_reader import RECENT_ROWS
from addon.commands.wallet import HISTORY_ROWS
from addon.store.money.reports.report import LIMIT_COLUMNS, REFUSAL_COLUMNS
from addon.store.money.reports.totals import GROUPS
from addon.store.money.wallet import MAX_REFERENCE_CHARS

PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (tollgate .*)\n((?:(?!## ).*\n)*)", PAGE, re.MULTILINE))


def commands(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    """Return each command without subcommands, by its full name."""
    context = click.Context(group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        assert command
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {word}")
        else:
            yield f"{name} {word}", command


def title_of(name: str, command: click.Command) -> str:
    arguments = [
        one.make_metavar(click.Context(command)) for one in command.params if isinstance(one, click.Argument)
    ]
    return " ".join([name, *arguments])


COMMANDS = {title_of(name, command): command for name, command in commands(main, "tollgate")}
NAMES = {title_of(name, command): name for name, command in commands(main, "tollgate")}


def test_exactly_the_commands_have_a_section_with_their_arguments() -> None:
    assert set(SECTIONS) == set(COMMANDS)


@pytest.mark.parametrize("title", COMMANDS)
def test_every_option_of_a_command_is_documented(title: str) -> None:
    rows = re.findall(r"^\| `(--[a-z0-9-]+)(?: ([^`]+))?` \| (.+) \|$", SECTIONS[title], re.MULTILINE)
    options = {one.opts[0]: one for one in COMMANDS[title].params if isinstance(one, click.Option)}
    assert sorted(name for name, *_ in rows) == sorted(options)
    for name, value, does in rows:
        option = options[name]
        assert bool(value) == (not option.is_flag), name
        assert len(does) > 10
        if isinstance(option.type, click.Choice):
            assert value.split(r"\|") == list(option.type.choices)


NO_LISTS = {"tollgate check", "tollgate explain FILE"}
"""The commands whose JSON is one object, and no list that a table or CSV could show."""


def test_every_command_that_lists_something_has_all_forms_of_output() -> None:
    options = {title: {one.opts[0] for one in command.params} for title, command in COMMANDS.items()}
    lists = {title for title, names in options.items() if "--csv" in names}
    assert {title for title, names in options.items() if "--json" in names} - NO_LISTS == lists
    assert all({"--json", "--csv", "--wide"} <= options[title] for title in lists)


@pytest.mark.parametrize("title", COMMANDS)
def test_a_command_accepts_its_examples(title: str) -> None:
    examples = re.findall(r"^\$ (tollgate .+?)(?: +#.*| > .*)?$", SECTIONS[title], re.MULTILINE)
    assert examples
    for example in examples:
        assert example.startswith(NAMES[title])
        words = shlex.split(example)[len(NAMES[title].split()) :]
        COMMANDS[title].make_context(title, words)


def test_the_numbers_are_those_of_the_program() -> None:
    assert f"without it, {RECENT_ROWS} recent calls and all rows of the other tables" in PAGE
    assert f"the largest number of entries; without it, {HISTORY_ROWS}" in PAGE
    assert f"at most {MAX_REFERENCE_CHARS} characters" in PAGE


def test_every_name_and_column_of_totals_and_refusals_is_documented() -> None:
    usage = SECTIONS["tollgate usage"]
    names = usage.split("| NAME | totals are by")[1].split("\n\n")[0]
    cells = re.findall(r"^\| (`.+?) \|", names, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(cells))) == sorted(GROUPS)
    columns = usage.split("| column of refusals | is |")[1].split("\n\n")[0]
    cells = re.findall(r"^\| (`.+?) \|", columns, re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(cells)) == [*REFUSAL_COLUMNS, "label"]


def test_every_column_of_limits_is_documented() -> None:
    table = SECTIONS["tollgate usage"].split("| column | is |")[1]
    cells = re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(cells)) == [*LIMIT_COLUMNS, "label"]
