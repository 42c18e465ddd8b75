"""A run of ``tollgate check``, as text and as JSON."""

import json
from pathlib import Path
from typing import Any

from rig.commands import run_alone
from rig.settings_files import CONF, SECRET, contents

KEYS = {"OPENAI_KEY": "sk-obviously-fake-of-openai", "GROQ_KEY": "gsk_obviously-fake-of-groq"}


class Checked:
    """One run of the command, in text and as JSON."""

    def __init__(self, folder: Path, *options: str, **variables: str) -> None:
        before = contents(folder)
        given = KEYS | variables
        conf = ("--conf", str(folder / CONF))
        ended = run_alone(folder, "check", *options, *conf, **given)
        self.status, self.stdout = ended.returncode, ended.stdout
        self.lines = [line.replace(f"{folder}/", "") for line in ended.stderr.splitlines()]
        self.report: dict[str, Any] = json.loads(
            run_alone(folder, "check", "--json", *options, *conf, **given).stdout
        )
        assert contents(folder) == before
        assert self.report["ok"] == (self.status == 0)
        for secret in (*given.values(), SECRET):
            assert not secret or secret not in f"{ended.stdout}{ended.stderr}{self.report}"
