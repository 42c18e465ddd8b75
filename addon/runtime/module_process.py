"""Starts a module of the program in a process of its own, which talks over its standard input and output."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Final

_ROOT: Final = str(Path(__file__).parents[2])
_STDERR: Final = 2


async def start_module(name: str) -> Process:
    """Start ``python -m NAME``. Its standard error is that of this process. Raises OSError."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (_ROOT, os.getenv("PYTHONPATH")))),
    }
    # Ctrl-C on a terminal signals a whole process group, but the gateway ends this process itself.
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", name),
        stdin=PIPE,
        stdout=PIPE,
        stderr=_STDERR,
        env=environment,
        process_group=0,
    )
