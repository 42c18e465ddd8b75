"""Requests of the workspaces of ``rig.explained``, with their explanations."""

import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import SecretStr

from addon.calls.call_state import Call
from addon.explain.explaining import BUILT_IN_URL, Counted, explain
from addon.explain.explanation import Explanation
from addon.settings.settings import Settings, load_settings
from policies.call_stages import Stage
from policies.exchange import Exchange
from policies.model import Workspace
from policies.spend import CounterUse
from rig import explained
from rig.configuration import Configuration, new_key

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
UNUSED = CounterUse()


@cache
def loaded() -> Settings:
    keys = {name: new_key() for name in explained.NAMES}
    configuration = Configuration(**explained.settings("https://provider.example/v1", keys, retries=1))
    with TemporaryDirectory() as folder:
        explained.write_policy(Path(folder))
        found = load_settings(configuration.write(Path(folder)), explained.ENVIRONMENT)
    return found.with_builtin_url(BUILT_IN_URL, SecretStr("-"))


def call_of(workspace: Workspace) -> Call:
    return Call(Exchange("x", NOW, 0.0, Stage.ADMITTED, workspace, workspace.keys[0]), loaded())


def explain_as(name: str, body: Any, counted: Counted = lambda *_: UNUSED) -> Explanation:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return explain(call_of(loaded().workspaces[name]), content, counted, {})
