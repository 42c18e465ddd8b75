"""``tollgate catalog probe``: whether the vendors of the catalog answer, at which cost. Source: docs/catalog.md."""

import asyncio
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import click

from addon.commands.catalog_probe_calls import (
    PlannedCall,
    Probe,
    plan_calls,
    probe,
    why_skipped,
)
from addon.commands.errors import report_errors, unknown_workspace_error
from addon.commands.options import conf_option, listing_options
from addon.commands.output import Form, format_table, pluralize
from addon.commands.readers import load_served_settings
from addon.settings.settings import Settings
from addon.text.table import Table
from addon.text.table_formats import format_csv, format_json
from addon.text.unprintable import escape_line
from policies.model import Model
from policies.money import format_nanousd, parse_usd_nanousd

_OPTIONAL: Final = (
    "id",
    "note",
    "retail_nanousd",
    "prompt_tokens",
    "completion_tokens",
    "cap_tokens",
    "usage",
)


def _parse_bound(context: click.Context, option: click.Parameter, text: str) -> int:
    try:
        return parse_usd_nanousd(text)
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from None


@click.command("probe")
@click.option(
    "--workspace", "workspace_id", metavar="W", required=True, help="The workspace that makes the calls."
)
@click.option(
    "--model",
    "pattern",
    metavar="PATTERN",
    default="*",
    help="Only models whose slug matches, such as gpt-*.",
)
@click.option(
    "--max-cost",
    "bound_nanousd",
    metavar="USD",
    default="0.10",
    show_default=True,
    callback=_parse_bound,
    help="Stop before a call that might pass this sum.",
)
@click.option("--full-cap", is_flag=True, help="Ask for as many tokens as each model may answer.")
@click.option("--yes", is_flag=True, help="Do not ask before the calls are made.")
@listing_options
@conf_option
def probe_models(
    workspace_id: str,
    pattern: str,
    bound_nanousd: int,
    *,
    full_cap: bool,
    yes: bool,
    form: Form,
    conf_file: Path,
) -> None:
    """Call models of the catalog with the platform's keys, once whole and once streamed. This costs money.

    Exit with status 1 if a call failed.
    """
    with report_errors():
        settings = load_served_settings(conf_file)
        workspace = settings.workspaces.get(workspace_id)
        if workspace is None:
            raise unknown_workspace_error(workspace_id, settings.workspaces)
        models = _find_models(settings, pattern)
        planned = plan_calls([one for one in models if why_skipped(one) is None], full_cap=full_cap)
        if planned and not yes:
            _ask(planned, bound_nanousd)
        done = asyncio.run(probe(settings, workspace, planned, bound_nanousd)) if planned else []
    skipped = [Probe(one.slug, None, "skipped", why) for one in models if (why := why_skipped(one))]
    click.echo(_format([*done, *skipped], bound_nanousd, form), nl=form != "csv")
    if any(one.result == "failed" for one in done):
        sys.exit(1)


def _find_models(settings: Settings, pattern: str) -> list[Model]:
    found = [one for slug, one in settings.models.items() if fnmatchcase(slug.lower(), pattern.lower())]
    if not found:
        raise click.ClickException(f"no model of the catalog matches {pattern}")
    return found


def _ask(planned: list[PlannedCall], bound_nanousd: int) -> None:
    """Ask whether to spend. Where nobody can be asked, raise ``UsageError``."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError("this makes calls that cost money: confirm with --yes")
    most_nanousd = min(bound_nanousd, sum(call.most_nanousd for call in planned))
    click.confirm(
        f"Make up to {len(planned)} real calls, for {format_nanousd(most_nanousd)} USD at most?",
        abort=True,
        err=True,
    )


def _format(probes: list[Probe], bound_nanousd: int, form: Form) -> str:
    if form == "json":
        sums = {"wholesale_nanousd": _sum_wholesale(probes), "max_cost_nanousd": bound_nanousd}
        return format_json({"calls": [asdict(one) for one in probes], **sums})
    return (
        format_csv(_make_table(probes)) if form == "csv" else _format_for_people(probes, bound_nanousd, form)
    )


def _make_table(probes: Iterable[Probe]) -> Table:
    return Table([field.name for field in fields(Probe)], [tuple(asdict(one).values()) for one in probes])


def _sum_wholesale(probes: Iterable[Probe]) -> int:
    return sum(one.wholesale_nanousd or 0 for one in probes)


def _format_for_people(probes: Iterable[Probe], bound_nanousd: int, form: Form) -> str:
    """Return the table of the calls, then each failure, the skipped models by reason, and the sums."""
    by_result = defaultdict[str, list[Probe]](list)
    for one in probes:
        by_result[one.result].append(one)
    called = [one for one in probes if one.result in ("ok", "failed")]
    skipped = defaultdict[str | None, list[str]](list)
    for one in by_result["skipped"]:
        skipped[one.note].append(one.slug)
    spent = format_nanousd(_sum_wholesale(called))
    lines = [
        *(f"{one.slug}, {one.call}: {escape_line(one.note or '')}" for one in by_result["failed"]),
        *(f"skipped, {reason}: {', '.join(slugs)}" for reason, slugs in skipped.items()),
        f"{pluralize(len(called), 'call')}, {len(by_result['failed'])} failed, for {spent} USD of wholesale cost.",
    ]
    if left := by_result["not called"]:
        lines.append(
            f"{pluralize(len(left), 'call')} not made: the next might pass {format_nanousd(bound_nanousd)} USD."
            f" The first is {left[0].slug}, {left[0].call}."
        )
    shown = format_table(_make_table(called), form, _OPTIONAL) + "\n\n" if called else ""
    return shown + "\n".join(lines)
