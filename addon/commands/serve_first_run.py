"""What a first run makes: the workspace ``demo`` and a master key; and its model once a provider has a key."""

import logging
import os
from collections.abc import Callable
from pathlib import Path

from addon.commands.auditing import CommandRecord
from addon.edits.recording import ChangeRecord
from addon.edits.workspace_files import EditError
from addon.edits.workspaces import set_workspace
from addon.runtime.listening import base_url
from addon.serve.standard_files import print_notice
from addon.settings.errors import SettingsError, describe_error
from addon.settings.first_run import (
    DEMO,
    WELCOME_NANOUSD,
    WELCOME_REFERENCE,
    create_demo_workspace,
    create_master_key,
    find_demo_model,
    needs_master_key,
)
from addon.settings.overview import find_closed_reason
from addon.settings.settings import Settings
from addon.store.money.wallet import make_credit, record_entry, save_entry
from addon.store.protocol import StoreUnavailable
from addon.text.unprintable import escape_unprintable
from policies.model import Model

log = logging.getLogger("tollgate.serve")


def make_demo(folder: Path, settings: Settings) -> str | None:
    """Create the demo workspace if a model can answer its calls. Show its key at once: the start may still fail."""
    model, key = find_demo_model(settings.models.values()), None
    if model:
        record = CommandRecord(settings.conf, "serve")
        entry = make_credit(DEMO, WELCOME_NANOUSD, WELCOME_REFERENCE)
        with record(record_entry(entry, 0)) as recording:
            recording.is_made = save_entry(settings.conf, entry)
        with record(ChangeRecord(f"Create the workspace {DEMO} with a key", workspace=DEMO)) as recording:
            key = create_demo_workspace(folder, model.slug)
            recording.is_made = key is not None
    if key is None or model is None:
        print_notice(_NO_WORKSPACE)
        return None
    print_notice(_MADE.format(key=key) + ("" if model.provider.builtin else _describe_spend(model)))
    return key


def make_master_key(settings: Settings) -> bool:
    """Make a master key where there is none, and log it. Return whether there is a new one. Raises OSError."""
    file = settings.conf.paths.master_keys
    is_new = needs_master_key(settings, os.environ) and create_master_key(file)
    if is_new:
        log.info(
            "a master key was made, which seals the secrets that are typed into the console: keep a copy of %s",
            escape_unprintable(str(file)),
            extra={"event": "master key made"},
        )
    return is_new


def renew_demo_model(conf_file: Path, settings: Settings) -> bool:
    """Let the demo call a provider where the built-in one, which it was made for, no longer answers.

    Return whether its file has changed. Where it can't be written, say which command does it.
    """
    demo, model = settings.workspaces.get(DEMO), find_demo_model(settings.models.values())
    before = settings.models.get(demo.default_model or "") if demo else None
    if before is None or before.active or not before.provider.builtin or model is None:
        return False
    try:
        record = CommandRecord(settings.conf, "serve")
        set_workspace(conf_file, DEMO, {"default_model": model.slug}, record=record)
    except (EditError, SettingsError, StoreUnavailable, OSError) as error:
        reason = escape_unprintable(describe_error(error))
        print_notice(_NOT_RENEWED.format(before=before.slug, model=model.slug, reason=reason))
        return False
    print_notice(_RENEWED.format(before=before.slug, model=model.slug) + _describe_spend(model))
    return True


def make_welcome(key: str, settings: Settings) -> Callable[[str], str]:
    """Return a function of the public URL that returns a first call, and where the console shows it."""
    admin = settings.conf.admin
    is_served = admin.port and find_closed_reason(settings) is None
    console = _SEE_IT.format(url=base_url(admin.host, admin.port)) if is_served else ""
    return lambda url: _TRY_IT.format(url=url, key=key) + console


def _describe_spend(model: Model) -> str:
    return _SPENDS.format(model=model.slug, provider=model.provider.name, usd=WELCOME_NANOUSD // 10**9)


_MADE = """
A workspace "demo" was made. Its key is shown this once:

  {key}
"""

_SPENDS = """
Its calls go to {model} of {provider}, and its wallet of ${usd} bounds what they cost.
"""

_RENEWED = """
The workspace "demo" called {before}, which is off because a provider key is set.
"""

_NOT_RENEWED = """
The workspace "demo" calls {before}, which is off because a provider key is set. Its file can't be changed
({reason}), so let its owner run:

  ./run.sh workspaces set demo --default-model {model}
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
