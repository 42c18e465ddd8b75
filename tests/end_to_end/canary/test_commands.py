"""No command shows a secret, and none repeats a key that is one of its arguments."""

import json
from itertools import product
from pathlib import Path

import pytest
from rig.canary_commands import OWN, PROVIDERS, run_command
from rig.canary_requests import ITS_KEY, KEY
from rig.canary_scene import BARE, DIALECTS, MASTER, MESSAGES, OTHER_MASTER, Scene

COMMANDS: dict[tuple[str, ...], int] = {
    ("check",): 0,
    ("check", "--json"): 0,
    ("usage",): 0,
    ("usage", "--workspace", "own"): 0,
    ("usage", "--workspace", KEY): 1,
    ("usage", "--model", KEY): 1,
    ("wallet", "history", KEY): 1,
    ("wallet", "credit", KEY, "1"): 1,
    ("wallet", "credit", "solo", KEY): 2,
    ("wallet", KEY): 2,
    (KEY,): 2,
    ("keys", "list"): 0,
    ("keys", "list", "--json"): 0,
    ("keys", "list", KEY): 1,
    ("keys", "create", KEY): 1,
    ("keys", "revoke", "solo", KEY): 1,
    ("keys", "rotate", "solo", KEY): 1,
    ("keys", "rotate", "solo", "solo", "--grace", KEY): 2,
    ("keys", "set", "solo", KEY, "--label", "x"): 1,
    ("keys", "set", "solo", "solo", "--label", KEY): 2,
    ("keys", "set", "solo", "solo", "--models", KEY): 2,
    ("keys", "set", "solo", "solo", "--expires", KEY): 2,
    ("keys", "create", "solo", "--id", KEY): 1,
    ("keys", "create", "solo", "--like", KEY): 1,
    ("workspaces", "list", "--json"): 0,
    ("workspaces", "create", KEY): 1,
    ("workspaces", "set", KEY, "--plan", "pro"): 1,
    ("workspaces", "set", "solo", "--name", KEY): 2,
    ("wallet", "debit", "solo", "1", "--reference", KEY): 2,
    ("wallet", "debit", KEY, "1", "--reference", "x"): 1,
    ("wallet", "balance", "--json"): 0,
    ("alerts", "list", "--json"): 0,
    ("alerts", "list", "--wide"): 0,
    ("alerts", "test"): 1,
    ("ledger", "verify"): 0,
    ("catalog", "list", "--json"): 0,
    ("ledger", "copy", "--rehearse", "--to", f"postgresql://tollgate:{KEY}@127.0.0.1:1/tollgate"): 1,
    ("keys", "enable", "solo", KEY): 1,
    ("workspaces", "push", KEY): 1,
    ("explain", KEY, "--workspace", "solo"): 1,
    ("explain", "-", "--workspace", KEY): 1,
    ("explain", "-", "--workspace", "solo", "--key", KEY): 1,
}


@pytest.mark.usefixtures("environment")
def test_no_command_shows_a_secret(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = scene.gateway.folder
    for arguments, expected in COMMANDS.items():
        status, said = run_command(folder, *arguments)
        assert status == expected, (arguments, said.decode())
        scene.look(" ".join(arguments), said)
    for name, form in product(DIALECTS, ((), ("--json",))):
        # `explain` shows the body, which is the operator's own, but not the keys of the call.
        body = tmp_path / "body.json"
        body.write_text(json.dumps({"model": name.lower(), "messages": MESSAGES, "user": KEY}))
        status, said = run_command(folder, "explain", str(body), "--workspace", "net", *form)
        assert status == 0, said.decode()
        scene.look(f"explain {name}", said, {"prompt", *ITS_KEY})
    rotate = ("secrets", "rotate", "--check", str(folder / PROVIDERS), str(folder / OWN))
    for keys, expected in {MASTER: 0, f"{OTHER_MASTER} {MASTER}": 1, OTHER_MASTER: 1, MASTER[1:]: 1}.items():
        monkeypatch.setenv("TOLLGATE_SECRET_KEY", keys)
        status, said = run_command(folder, *rotate, conf=False)
        assert status == expected, said.decode()
        scene.look("rotate", said)
    status, said = run_command(folder, "secrets", "seal", BARE, conf=False)
    assert status == 2
    scene.look("seal", said)
