"""A process that is killed during its changes leaves one audit line for each change that its file has."""

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from rig.bounds import BOUND_S
from rig.configuration import ROOT
from rig.large import large_only
from rig.settings_files import ACME, edit

ROUNDS = 8

# Each child changes the cap of a key from 1 to 2 to 3 and so on, until it is killed.
KILLED = """
import asyncio, os, random, signal, sys, time
from pathlib import Path
from addon.console.changes import keys
from addon.console.changes.maker import ChangeMaker
from addon.console.changes.making import Requester
from addon.settings.settings import SettingsFiles

CI = {"workspace": "acme", "key": "ci"}
ENV = {"CONSOLE": "a long pass phrase"}

async def change_until_killed(conf, ready):
    maker = ChangeMaker(lambda: SettingsFiles(conf, ENV).load(), SettingsFiles(conf))
    while True:
        current = await maker.read_current(keys.SET, CI)
        number = int(current["request_cap"] or 0) + 1
        token = await maker.show(keys.SET, CI, {**current, "request_cap": str(number)})
        os.write(ready, b"x")
        await maker.confirm(maker.waiting.get(token, ""), Requester("::1", ""))

conf, rounds = Path(sys.argv[1]), int(sys.argv[2])
for _ in range(rounds):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        asyncio.run(change_until_killed(conf, writing))
    os.read(reading, 1)
    time.sleep(random.uniform(0, 0.06))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)

async def settle():
    maker = ChangeMaker(lambda: SettingsFiles(conf, ENV).load(), SettingsFiles(conf))
    maker.end_abandoned_intents()
    await maker.read_current(keys.SET, CI)
asyncio.run(settle())
"""


@large_only
def test_a_change_has_one_line_whenever_its_process_is_killed(conf: Path) -> None:
    edit(conf.parent / ACME, 'id = "ci"\n', 'id = "ci"\nrequest_cap = 1\n')
    command = [sys.executable, "-c", KILLED, str(conf), str(ROUNDS)]
    subprocess.run(command, check=True, timeout=BOUND_S, env={"PYTHONPATH": str(ROOT)})
    [last] = re.findall(r"^request_cap = (\d+)", (conf.parent / ACME).read_text(), re.MULTILINE)
    with closing(sqlite3.connect(conf.parent / "var" / "tollgate.db")) as ledger:
        lines = ledger.execute("SELECT change, outcome FROM audit ORDER BY number").fetchall()
        assert ledger.execute("SELECT count(*) FROM audit_intents").fetchone() == (0,)
    changed = [re.findall(r"^\+request_cap = (\d+)", change, re.MULTILINE) for change, _ in lines]
    assert changed == [[str(number)] for number in range(2, int(last) + 1)]
    assert {outcome for _, outcome in lines} <= {"made"}
