"""``tollgate serve``: settings, first run, then the server."""

import asyncio
import sys
from pathlib import Path

from addon.first_run import ensure_workspace
from addon.log import configure_logging
from addon.server import serve
from addon.settings import load_conf, load_settings


def run(conf_file: Path, host: str | None, port: int | None, workers: int | None) -> None:
    """Serve until told to stop. Raises SettingsError or OSError before anything is served."""
    configure_logging()
    demo_key = ensure_workspace(load_conf(conf_file).paths.workspaces)
    settings = load_settings(conf_file).with_listen(host=host, port=port, workers=workers)

    def announce(base_url: str) -> None:
        print(f"tollgate listening on {base_url}", flush=True)
        if demo_key:
            print(_welcome(base_url, demo_key), file=sys.stderr, flush=True)

    asyncio.run(serve(conf_file, settings, announce))


def _welcome(base_url: str, key: str) -> str:
    return f"""
A workspace "demo" was made. Its key is shown this once:

  {key}

Try it:

  curl {base_url}/v1/chat/completions \\
    -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' \\
    -d '{{"messages": [{{"role": "user", "content": "Hello"}}]}}'
"""
