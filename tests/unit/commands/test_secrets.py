"""``tollgate secrets`` makes master keys and seals secrets. It never shows a secret."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.configuration import ROOT, environment
from rig.explain_commands import write_folder
from rig.secret_commands import NEW, OLD, SECRET, VARIABLE, run

from addon.settings.sealed_secrets import MasterKeys


def test_a_new_key_is_printed_alone_and_seals_what_it_opens() -> None:
    result = run("key")
    assert result.exit_code == 0
    key = result.stdout.removesuffix("\n")
    assert key not in result.stderr
    assert MasterKeys(key).unseal(MasterKeys(key).seal(SECRET)) == SECRET
    assert run("key").stdout != result.stdout


@pytest.mark.parametrize("secret", [SECRET, '{\n  "type": "service_account",\n  "name": "é"\n}'])
def test_a_secret_from_standard_input_is_sealed_with_the_first_key(secret: str) -> None:
    result = run("seal", keys=f"{NEW},{OLD}", stdin=f" {secret}\r\n".encode())
    assert (result.exit_code, result.stderr) == (0, "")
    sealed = re.fullmatch(r"sealed:(\S+)\n", result.stdout)
    assert sealed
    assert MasterKeys(NEW).unseal(sealed[1]) == secret


# arguments, keys, standard input, exit status, part of the message
REFUSED = {
    "an argument": (
        ("seal", SECRET),
        OLD,
        b"",
        2,
        "is read from standard input, never from the command line",
    ),
    "an option": (("seal", f"--{SECRET}"), OLD, b"", 2, "never from the command line"),
    "no secret": (("seal",), OLD, b" \n", 1, "standard input holds no secret"),
    "text that is not UTF-8": (("seal",), OLD, b"\xff" + SECRET.encode(), 1, "standard input is not UTF-8"),
    "an endless text": (("seal",), OLD, b"x" * ((1 << 20) + 1), 1, "has more than 1048576 bytes"),
    "no master key": (("seal",), "", SECRET.encode(), 1, "no master key is set, in TOLLGATE_SECRET_KEY or"),
    "a bad master key": (
        ("seal",),
        OLD[1:],
        SECRET.encode(),
        1,
        "TOLLGATE_SECRET_KEY is not made of master keys",
    ),
    "no file": (("rotate",), OLD, b"", 2, "Missing argument"),
    "a file that is not there": (("rotate", "no.toml"), OLD, b"", 1, "no.toml: no such file"),
    "no master key to rotate with": (("rotate", "no.toml"), "", b"", 1, "no master key is set"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_command_says_why_and_shows_no_secret(case: str) -> None:
    arguments, keys, stdin, code, message = REFUSED[case]
    result = run(*arguments, keys=keys, stdin=stdin)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert not [hidden for hidden in (SECRET, OLD[1:]) if hidden in result.output]


def test_a_closed_standard_input_is_one_line(tmp_path: Path) -> None:
    write_folder(tmp_path)
    for words in ("secrets seal", "explain --workspace plain -"):
        ended = subprocess.run(
            [sys.executable, "-m", "addon.cli", *words.split()],
            env=environment({VARIABLE: OLD}) | {"TOLLGATE_CONF": str(tmp_path / "proxy.conf")},
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            preexec_fn=lambda: os.close(0),
        )
        assert (ended.returncode, ended.stderr) == (1, "Error: standard input is closed\n")


def test_a_secret_is_asked_for_without_echo_on_a_terminal(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "addon.cli", "secrets", "seal"],
        env=environment({VARIABLE: OLD}),
        cwd=tmp_path,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        shown = b""
        while b": " not in shown:
            shown += os.read(ours, 1000)
        os.write(ours, f"{SECRET}\n".encode())
        said, _ = process.communicate(timeout=BOUND_S)
        shown += os.read(ours, 1000)
    os.close(ours)
    assert process.returncode == 0
    assert MasterKeys(OLD).unseal(said.decode().strip().removeprefix("sealed:")) == SECRET
    assert shown.decode().split() == ["secret", "(not", "shown):"]
