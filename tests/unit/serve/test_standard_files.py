"""A gateway serves although its standard files are closed, or can't be written."""

import os
import subprocess
import sys
from pathlib import Path

from rig.configuration import ROOT

CLOSED = """
import os, sys
from addon.serve.standard_files import open_standard_files, print_line, print_notice
open_standard_files()
open_standard_files()
print_line("a line"), print_notice("a notice"), sys.stdin.read()
found = [os.path.samestat(os.fstat(number), os.stat(os.devnull)) for number in range(3)]
with open(sys.argv[1], "w") as file:
    print(found, file.fileno() > 2, file=file)
"""

FULL = """
import logging, os
from addon.serve.standard_files import print_line, print_notice
from addon.telemetry.logs import configure_logging
configure_logging()
print_line("tollgate listening")
print_line("more")
logging.shutdown()
os.dup2(os.open("/dev/full", os.O_WRONLY), 2)
print_notice("a notice")
"""


def test_closed_standard_files_become_the_null_device(tmp_path: Path) -> None:
    found = tmp_path / "found"
    command = [sys.executable, "-c", CLOSED, str(found)]
    subprocess.run(command, cwd=ROOT, check=True, preexec_fn=lambda: os.closerange(0, 3))
    assert found.read_text(encoding="utf-8") == "[True, True, True] True\n"


def test_a_line_that_can_not_be_printed_is_logged(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [sys.executable, "-c", FULL],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr.count("\n")) == (0, 1), ended.stderr
    assert '"message": "tollgate listening (standard output: No space left on device)"' in ended.stderr
