"""``tollgate serve``: settings, first run, then the server, or the supervisor of several workers."""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import click

from addon.commands.errors import missing_conf_hint
from addon.commands.options import conf_option
from addon.runtime.listening import base_url
from addon.runtime.quick_imports import without_collection
from addon.serve.detach import announce_detached, detach
from addon.serve.opening import Start
from addon.serve.standard_files import open_standard_files, print_line, print_notice
from addon.serve.systemd import take_service_manager, take_sockets
from addon.serve.worker_template import worker_template
from addon.settings.errors import Problem, SettingsError, describe_error
from addon.settings.first_run import DEMO, WELCOME_NANOUSD, WELCOME_REFERENCE, create_demo_workspace
from addon.settings.overview import find_closed_reason
from addon.settings.settings import Settings, SettingsFiles, load_conf
from addon.store.wallet import make_credit, save_entry
from addon.telemetry.logs import configure_logging
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
    configure_logging()
    conf = load_conf(conf_file)
    with worker_template(conf) if (workers or conf.listen.workers) > 1 else nullcontext() as template:
        start = Start(takeover, take_sockets(os.environ), take_service_manager(os.environ))
        conf.paths.workspaces.mkdir(exist_ok=True)
        files, settings, demo_key = _load(conf_file, conf.paths.workspaces, strict=strict)
        settings = settings.with_listen(host=host, port=port, workers=workers).with_admin_port(admin_port)
        announce = partial(_announce, _make_welcome(demo_key, settings) if demo_key else None, write)
        with without_collection():
            if settings.conf.listen.workers > 1:
                from addon.serve.supervisor import supervise

                served = supervise(files, settings, announce, start, template)
            else:
                from addon.serve import server

                served = server.serve(files, settings, announce, start)
        asyncio.run(served)


def _load(conf_file: Path, folder: Path, *, strict: bool) -> tuple[SettingsFiles, Settings, str | None]:
    """Load the settings. On the first run, create a workspace, and return its key as well."""
    files = SettingsFiles(conf_file)
    settings = files.load()
    if strict and settings.problems:
        raise _strict_error(settings.problems)
    demo_key = None if settings.workspaces or settings.problems else _first_run(folder, settings)
    if demo_key:
        files = SettingsFiles(conf_file)
        settings = files.load()
    return files, settings, demo_key


def _announce(welcome: Callable[[str], str] | None, write: Callable[[str], None], url: str) -> None:
    write(f"tollgate listening on {url}")
    if welcome:
        print_notice(welcome(url))


def _make_welcome(demo_key: str, settings: Settings) -> Callable[[str], str]:
    """Return a function of the public URL that returns a first call, and where the console shows it."""
    admin = settings.conf.admin
    is_served = admin.port and find_closed_reason(settings) is None
    console = _SEE_IT.format(url=base_url(admin.host, admin.port)) if is_served else ""
    return lambda url: _TRY_IT.format(url=url, key=demo_key) + console


def _strict_error(problems: Sequence[Problem]) -> SettingsError:
    """Return the error of the last broken file, and print those of the others."""
    *others, last = problems
    for problem in others:
        print_notice(escape_unprintable(f"tollgate: {problem}"))
    return last.error


def _first_run(folder: Path, settings: Settings) -> str | None:
    """Create the demo workspace if the sandbox can answer its calls. Show its key at once: the start may still fail."""
    sandbox = (model.slug for model in settings.models.values() if model.active and model.provider.builtin)
    default_model = next(sandbox, None)
    if default_model:
        save_entry(settings.conf, make_credit(DEMO, WELCOME_NANOUSD, WELCOME_REFERENCE))
    key = create_demo_workspace(folder, default_model) if default_model else None
    print_notice(_MADE.format(key=key) if key else _NO_WORKSPACE)
    return key


_MADE = """
A workspace "demo" was made. Its key is shown this once:

  {key}
"""

_TRY_IT = """\
Try it:

  curl {url}/v1/chat/completions \\
    -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' \\
    -d '{{"messages": [{{"role": "user", "content": "Hello"}}]}}'
"""

_SEE_IT = """
Then see it in the console, in a browser:  {url}/
"""

_NO_WORKSPACE = """\
No workspace has a key yet. Make one:     ./run.sh keys create NAME --new
Its calls are paid from its wallet:       ./run.sh wallet credit NAME USD"""
