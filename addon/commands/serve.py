"""``tollgate serve``: settings, first run, then the server, or the supervisor of several workers."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import click

from addon.commands.errors import missing_conf_hint
from addon.commands.fleet_copies import refresh_copies
from addon.commands.options import conf_option
from addon.commands.serve_first_run import make_demo, make_master_key, make_welcome, renew_demo_model
from addon.runtime.quick_imports import without_collection
from addon.serve.detach import announce_detached, detach
from addon.serve.environment_names import published_environment
from addon.serve.opening import Start
from addon.serve.standard_files import open_standard_files, print_line, print_notice
from addon.serve.systemd import take_service_manager, take_sockets
from addon.serve.worker_template import worker_template
from addon.settings.errors import Problem, SettingsError, describe_error
from addon.settings.settings import Settings, SettingsFiles, load_conf
from addon.telemetry.logs import FORMAT_VARIABLE, configure_logging
from addon.text.unprintable import escape_unprintable


@click.command()
@conf_option
@click.option("--port", type=click.IntRange(0, 65_535), help="Replaces [listen] port; 0 means any free port.")
@click.option("--host", help="Replaces [listen] host.")
@click.option("--workers", type=click.IntRange(1), help="Replaces [listen] workers.")
@click.option(
    "--admin-port", type=click.IntRange(0, 65_535), help="Replaces [admin] port; 0 means any free port."
)
@click.option("--strict", is_flag=True, help="Do not start while a workspace file does not load.")
@click.option("--takeover", is_flag=True, help="Take over the running gateway, with no connection lost.")
@click.option("--detach", "detached", is_flag=True, help="Serve in the background; end when that is ready.")
def serve(
    conf_file: Path,
    port: int | None,
    host: str | None,
    workers: int | None,
    admin_port: int | None,
    *,
    strict: bool,
    takeover: bool,
    detached: bool,
) -> None:
    """Run the gateway until SIGTERM, SIGINT or SIGHUP.

    The admin port has health, readiness, metrics and the console. The log says at which URL.
    """
    # Imported here because --help does not need mitmproxy.
    from addon.serve.start_faults import START_FAULTS

    open_standard_files()
    if detached:
        detach()
    write = announce_detached if detached else print_line
    try:
        run(
            conf_file.absolute(),
            write,
            host=host,
            port=port,
            workers=workers,
            admin_port=admin_port,
            strict=strict,
            takeover=takeover,
        )
    except START_FAULTS as error:
        others = len(error.others) if isinstance(error, SettingsError) else 0
        logging.shutdown()  # The error comes last.
        hint = f" ({others} more: tollgate check)" if others else missing_conf_hint(error)
        click.echo(escape_unprintable(f"tollgate: {describe_error(error)}{hint}"), err=True)
        sys.exit(1)


def run(
    conf_file: Path,
    write: Callable[[str], None],
    *,
    host: str | None,
    port: int | None,
    workers: int | None,
    admin_port: int | None,
    strict: bool,
    takeover: bool,
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP. Raises one of ``START_FAULTS`` when the gateway can't start.

    With ``strict``, it does not start while a file does not load. With ``takeover``, it takes over a running gateway.
    ``write`` writes the readiness line.
    """
    conf = load_conf(conf_file)
    os.environ[FORMAT_VARIABLE] = conf.log.format
    configure_logging()
    with worker_template(conf) if (workers or conf.listen.workers) > 1 else nullcontext() as template:
        start = Start(takeover, take_sockets(os.environ), take_service_manager(os.environ))
        if conf.paths.are_workspaces_in_ledger:
            refresh_copies(conf)
        conf.paths.workspaces.mkdir(exist_ok=True)
        files, settings, demo_key = _load(conf_file, conf.paths.workspaces, strict=strict)
        settings = settings.with_listen(host=host, port=port, workers=workers).with_admin_port(admin_port)
        announce = partial(_announce, make_welcome(demo_key, settings) if demo_key else None, write)
        with without_collection():
            if settings.conf.listen.workers > 1:
                from addon.serve.supervisor import supervise

                served = supervise(files, settings, announce, start, template)
            else:
                from addon.serve import server

                served = server.serve(files, settings, announce, start)
        with published_environment(settings.conf.paths.database, conf_file, os.environ):
            asyncio.run(served)


def _load(conf_file: Path, folder: Path, *, strict: bool) -> tuple[SettingsFiles, Settings, str | None]:
    """Load the settings. On the first run, create a workspace, and return its key as well."""
    files = SettingsFiles(conf_file)
    settings = files.load()
    if strict and settings.problems:
        raise _strict_error(settings.problems)
    is_first = not (settings.workspaces or settings.problems or settings.conf.paths.are_workspaces_in_ledger)
    demo_key = make_demo(folder, settings) if is_first else None
    has_new_master_key = make_master_key(settings)
    if demo_key or renew_demo_model(conf_file, settings) or has_new_master_key:
        files = SettingsFiles(conf_file)
        settings = files.load()
    return files, settings, demo_key


def _announce(welcome: Callable[[str], str] | None, write: Callable[[str], None], url: str) -> None:
    write(f"tollgate listening on {url}")
    if welcome:
        print_notice(welcome(url))


def _strict_error(problems: Sequence[Problem]) -> SettingsError:
    """Return the error of the last broken file, and print those of the others."""
    *others, last = problems
    for problem in others:
        print_notice(escape_unprintable(f"tollgate: {problem}"))
    return last.error
