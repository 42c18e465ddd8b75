"""Other ways to run the gateway: in a plain mitmdump, with the shipped files, or until it refuses to start."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rig.bounds import BOUND_S
from rig.configuration import ROOT, Configuration, environment, serve_command
from rig.fork_server import is_forkable, run_forked
from rig.gateway import Gateway

MITMDUMP_SCRIPT = (str(Path(sys.executable).with_name("mitmdump")),)
"""mitmproxy's own command, in a new interpreter."""
MITMDUMP = ("-c", "from mitmproxy.tools.main import mitmdump; mitmdump()")
MITMWEB = ("-c", "from mitmproxy.tools.main import mitmweb; mitmweb()")
ANY_PORT = ("--mode", "reverse:http://tollgate.invalid:1@127.0.0.1:0")
"""Arguments of a mitmproxy that serves on a free port."""


def with_wire(**bounds: float) -> tuple[str, str]:
    """Return a program: ``tollgate`` with changed bounds of ``WireSettings``."""
    code = (
        "import functools\n"
        "from addon import cli\n"
        "from addon.gateway import addon as gateway\n"
        f"gateway.WireSettings = functools.partial(gateway.WireSettings, **{bounds})\n"
        "cli.main()"
    )
    return "-c", code


def with_broken_function(module: str, owner: str, name: str) -> tuple[str, str]:
    """Return a program: ``tollgate`` with a function, or a method of a class like ``.Owner``, that raises."""
    code = (
        "import importlib\n"
        "def broken(*_, **__):\n"
        "    raise RuntimeError('sabotaged')\n"
        f"setattr(importlib.import_module({module!r}){owner}, {name!r}, broken)\n"
        "from addon.cli import main\n"
        "main()"
    )
    return "-c", code


def with_default_port(port: int) -> tuple[str, str]:
    """Return a program: mitmdump with another default port.

    mitmproxy listens on its default port before it reads any addon. Tests that run at once need different ones.
    """
    code = (
        "from mitmproxy.proxy.mode_specs import ProxyMode\n"
        f"ProxyMode.default_port = {port}\n"
        "from mitmproxy.tools.main import mitmdump\n"
        "mitmdump()"
    )
    return "-c", code


_KEY = re.compile(r"\btg_[0-9A-Za-z]{40}\b")


@dataclass
class Shipped(Configuration):
    """The proxy.conf and the catalog of a fresh clone, on free ports, without a workspace."""

    providers: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Copy the files once. A second start finds the files of the first."""
        conf = folder / "proxy.conf"
        if not conf.exists():
            shutil.copytree(ROOT / "catalog_data", folder / "catalog_data")
            (folder / "policies").mkdir()
            text = (ROOT / "proxy.conf").read_text(encoding="utf-8")
            conf.write_text(text.replace("port = 8080", "port = 0").replace("port = 8081", "port = 0"))
        return conf


class Mitmdump(Gateway):
    """The gateway as an addon of a plain mitmdump. Its ``program`` is ``MITMDUMP`` or a broken one."""

    @staticmethod
    def _command(configuration: Configuration, conf: Path) -> list[str]:
        return mitmdump_command(configuration, conf)

    def _wait_until_ready(self) -> str:
        while True:
            line = self._next_stdout_line()
            if found := re.search(r" listening at ([^*]\S+)\.$", line):
                return f"http://{found[1]}"


def mitmdump_command(configuration: Configuration, conf: Path) -> list[str]:
    """Return the command line of a mitmdump that loads the gateway; ``arguments`` are those of mitmdump."""
    script = str(ROOT / "addon" / "main.py")
    options = [f"tollgate_conf={conf}", f"confdir={conf.parent / 'mitmproxy'}"]
    sets = [word for option in options for word in ("--set", option)]
    return [sys.executable, *configuration.program, "-s", script, *sets, *configuration.arguments]


def run_to_its_end(
    configuration: Configuration, folder: Path, *, mitmdump: bool = False
) -> subprocess.CompletedProcess[str]:
    """Start a gateway that must fail to start. Return its exit code and its output."""
    conf = configuration.write(folder)
    variables = environment(configuration.environment)
    command = mitmdump_command(configuration, conf) if mitmdump else serve_command(configuration, conf)
    if is_forkable(command):
        return run_forked(command, variables, folder)
    return subprocess.run(
        command,
        env=variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )


def shown_keys(said: str) -> set[str]:
    """Return the API keys in an output."""
    return set(_KEY.findall(said))


def curl_line(gateway: Gateway) -> str:
    """Return the command that the first run shows. Wait until it is complete."""
    gateway.wait_until(lambda: any("-d '{" in line for line in gateway.stderr_lines))
    said = "\n".join(line for line in gateway.stderr_lines if not line.startswith("{"))
    return said[said.index("  curl ") :].strip()
