"""Runs of ``tollgate explain``, and the files that they explain requests with."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from addon.cli import main
from rig import explained
from rig.configuration import Configuration, model, new_key, provider

BASE = "https://provider.example/v1"
HELLO = [{"role": "user", "content": "hello"}]


def write_folder(folder: Path) -> None:
    """Write the files that these commands explain requests with."""
    keys = {name: new_key() for name in explained.NAMES}
    settings = explained.settings(BASE, keys)
    settings["providers"]["VERTEX"] = provider(
        BASE, auth="google_service_account", platform_key="env:TEST_ACCOUNT"
    )
    settings["models"] = settings["models"] | {"account": model(provider="VERTEX")}
    explained.write_policy(folder)
    Configuration(**settings).write(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path)
    return tmp_path


def run(folder: Path, *words: str, body: Any = None, **environment: str | None) -> Result:
    """Run ``tollgate explain`` with ``body`` in standard input: bytes unchanged, anything else as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    arguments = [
        "explain",
        "--conf",
        str(folder / "proxy.conf"),
        *words,
        *(["-"] if body is not None else []),
    ]
    return CliRunner(env=explained.ENVIRONMENT | environment).invoke(main, arguments, input=content)


def table(folder: Path, workspace: str, body: Any, *words: str, **environment: str | None) -> str:
    result = run(folder, "--workspace", workspace, *words, body=body, **environment)
    assert result.exit_code == 0, result.output
    return result.stdout


def record(folder: Path, workspace: str, body: Any, *words: str, **environment: str | None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(table(folder, workspace, body, "--json", *words, **environment))
    return found


def asked(**fields: Any) -> dict[str, Any]:
    return {"messages": HELLO} | fields
