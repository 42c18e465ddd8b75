"""Agents as programs of their own: where they are, how each is set to a gateway, and what a run of one did."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rig.agent_wires import Call
from rig.configuration import ROOT, new_key

PROGRAMS = ROOT / "tests" / "agents" / "programs"
INSTALL = ROOT / "tests" / "install_agents.sh"
BOUND_S = 180.0
"""The longest run of an agent."""
INSTALL_BOUND_S = {True: 120.0, False: 1_200.0}
"""How long it may take to install the two most frequent agents, and all programs."""
PROMPT = "Read note.txt, write its word to copy.txt, and tell me the word."
KEY = new_key()
"""The key that agents have."""
QUIET: Mapping[str, str] = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CONTINUE_TELEMETRY_ENABLED": "0",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "npm_config_fetch_retries": "0",
    "npm_config_registry": "http://127.0.0.1:9",  # opencode installs its packages at each start
}
"""The programs ask for nothing but the gateway."""


def installed_agents(*, frequent: bool = False) -> Path:
    """Return the folder with the programs, and install those that are not there; with ``frequent`` two of them.

    Raise RuntimeError with the reason when they can't be had.
    """
    command = [str(INSTALL), *(["--frequent"] if frequent else [])]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_BOUND_S[frequent], check=False
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError("to install the agents takes too long") from None
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return Path(done.stdout.strip())


@dataclass(frozen=True)
class Setting:
    """What a developer knows of the gateway."""

    url: str
    key: str
    model: str


@dataclass(frozen=True)
class Run:
    """What an agent did: how it ended and what its user saw."""

    code: int | None
    output: str
    errors: str
    duration_s: float

    @property
    def shown(self) -> str:
        return f"{self.output}\n{self.errors}"


@dataclass(frozen=True)
class Agent:
    """One program with one API. ``steps`` are the calls of its own tools that do the task in ``PROMPT``."""

    name: str
    api: str
    command: Sequence[str]
    """``{model}``, ``{url}``, ``{key}``, ``{prompt}``, ``{folder}`` (of the task) and ``{home}`` are filled in."""
    steps: Sequence[Sequence[Call]]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Any] = field(default_factory=dict)
    """Files of its home. All but strings are written as JSON."""
    forgets: frozenset[str] = frozenset()
    """The dialects whose reasoning it does not send back. It has no place for what is not text."""

    @property
    def title(self) -> str:
        return f"{self.name}-{self.api}"

    def start(
        self, programs: Path, setting: Setting, home: Path, folder: Path, prompt: str = PROMPT
    ) -> "Running":
        """Start it in ``folder`` with an empty ``home``."""
        values = {
            "url": setting.url,
            "key": setting.key,
            "model": setting.model,
            "prompt": prompt,
            "folder": str(folder),
            "home": str(home),
            "programs": str(programs),
        }
        home.mkdir(parents=True)
        for name, content in self.files.items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            text = content if isinstance(content, str) else json.dumps(content)
            path.write_text(_filled(text, values), encoding="utf-8")
        shutil.copytree(PROGRAMS, home / "programs")
        (home / "node_modules").symlink_to(programs / "node_modules")  # Node looks beside and above a program
        command = [_filled(word, values) for word in self.command]
        own = {name: _filled(value, values) for name, value in self.environment.items()}
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb", **QUIET, **own}
        return Running(command, environment, folder, home)

    def steps_in(self, folder: Path) -> list[list[Call]]:
        """Return the steps with the folder of the task filled in."""
        return [
            [replace(call, given=_filled_in(call.given, {"folder": str(folder)})) for call in calls]
            for calls in self.steps
        ]


class Running:
    """An agent at work."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], cwd: Path, home: Path) -> None:
        self._began_s = time.monotonic()
        self._texts = [home / name for name in ("stdout", "stderr")]
        with ExitStack() as opened:
            out, err = (opened.enter_context(path.open("wb")) for path in self._texts)
            self._process = subprocess.Popen(
                command,
                env=dict(environment),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def interrupt(self) -> None:
        """Send what Ctrl-C sends."""
        os.killpg(self._process.pid, signal.SIGINT)

    def finish(self, bound_s: float = BOUND_S) -> Run:
        """Wait for its end, and return what it did. One that is not done in time is ended, and has no ``code``."""
        code: int | None
        try:
            code = self._process.wait(bound_s)
        except subprocess.TimeoutExpired:
            code = None
        duration_s = time.monotonic() - self._began_s
        if code is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        output, errors = (path.read_text("utf-8", "replace") for path in self._texts)
        return Run(code, output, errors, duration_s)


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


def _filled_in(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _filled(value, values)
    return {name: _filled_in(inner, values) for name, inner in value.items()}
