"""A secret that an operator wrote in the wrong place is in no error, no log and no answer of ``/readyz``."""

import shutil
from pathlib import Path

import pytest
from rig.canaries import seen_in_answer
from rig.canary_commands import OWN, PROVIDERS, SOLO, run_command
from rig.canary_requests import KEY
from rig.canary_scene import BARE, OTHER_MASTER, REDIS, SWAPPED, Scene
from rig.configuration import Configuration
from rig.large import sampled
from rig.processes import run_to_its_end

from addon.settings.sealed_secrets import MasterKeys

SWAPPED_TOKEN = MasterKeys(OTHER_MASTER).seal(SWAPPED)

BROKEN = {
    "bare": (OWN, f'\n[byok.DELTA]\nsecret = "{BARE}"\n'),
    "a number of them": (OWN, f'\n[byok.DELTA]\nsecret = ["{BARE}"]\n'),
    "a table": (OWN, f'\n[byok.DELTA]\nsecret = {{ key = "{BARE}" }}\n'),
    "no table": (SOLO, f'\n[byok]\nDELTA = "{BARE}"\n'),
    "misspelt": (OWN, f'\n[byok.DELTA]\nsecrte = "{BARE}"\n'),
    "no text": (OWN, f"\n[byok.DELTA]\nsecret = {BARE}\n"),
    "no end": (OWN, f'\n[byok.DELTA]\nsecret = "{BARE}\n'),
    "an unknown kind": (OWN, f'\n[byok.DELTA]\nsecret = "key:{BARE}"\n'),
    "a variable": (OWN, f'\n[byok.DELTA]\nsecret = "env:{BARE}-1"\n'),
    "a file": (OWN, f'\n[byok.DELTA]\nsecret = "file:{BARE}"\n'),
    "no token": (OWN, f'\n[byok.DELTA]\nsecret = "sealed:{BARE}"\n'),
    "another master key": (OWN, f'\n[byok.DELTA]\nsecret = "sealed:{SWAPPED_TOKEN}"\n'),
    "a key for its hash": (OWN, f'\n[[keys]]\nid = "new"\nhash = "{KEY}"\n'),
    "a hash of another kind": (OWN, f'\n[[keys]]\nid = "new"\nhash = "sha512:{KEY}"\n'),
    "bare, the platform's": (
        PROVIDERS,
        f'\n[NEW]\nbase_url = "http://h"\ndialect = "openai"\nplatform_key = "{BARE}"\n',
    ),
    "bare among several": (
        PROVIDERS,
        f'\n[NEW]\nbase_url = "http://h"\ndialect = "openai"\nplatform_keys = ["env:A", "{BARE}"]\n',
    ),
    "a header": (PROVIDERS, f'\n[GAMMA.headers]\nauthorization = "Bearer {BARE}"\n'),
    "a key as a header": (PROVIDERS, f'\n[GAMMA.headers]\nx-api-key = "{BARE}"\n'),
    "a URL": (
        PROVIDERS,
        f'\n[NEW]\nbase_url = "http://a:{BARE}@h"\ndialect = "openai"\nplatform_key = "env:A"\n',
    ),
    "a query": (
        PROVIDERS,
        f'\n[NEW]\nbase_url = "http://h?key={BARE}"\ndialect = "openai"\nplatform_key = "env:A"\n',
    ),
    "no URL": (
        PROVIDERS,
        f'\n[NEW]\nbase_url = "http://[{BARE}"\ndialect = "openai"\nplatform_key = "env:A"\n',
    ),
    "no account": (
        PROVIDERS,
        '\n[NEW]\nbase_url = "http://h"\ndialect = "openai"\nauth = "google_service_account"\n'
        'platform_key = "env:ALPHA_KEY"\n',
    ),
    "no Redis": ("proxy.conf", f'\n[state]\nredis_url = "http://:{REDIS}@h/0"\n'),
    "a secret that is not a URL of Redis": (
        "proxy.conf",
        '\n[state]\nbackend = "redis"\nredis_url = "env:NOT_REDIS_URL"\n',
    ),
}


@sampled(every=5)
@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("name", BROKEN)
def test_a_misplaced_secret_is_in_no_error_message(scene: Scene, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "gateway"
    shutil.copytree(scene.gateway.folder, folder, ignore=shutil.ignore_patterns("var"))
    file, text = BROKEN[name]
    with (folder / file).open("a") as written:
        written.write(text)
    # `keys list` and `check` read all files. `wallet balance` reads only the files that it needs for the ledger.
    commands = (("keys", "list"), ("wallet", "balance"), ("check",), ("check", "--json"))
    outputs = [run_command(folder, *arguments) for arguments in commands]
    said = b"".join(said for _, said in outputs)
    # A command names a broken workspace file and goes on with the other workspaces.
    assert 1 in {status for status, _ in outputs} or b"is not served: " in said
    scene.look(f"{name}: command", said)


def test_readyz_of_broken_files_shows_no_secret(scene: Scene) -> None:
    gateway = scene.gateway
    file = gateway.folder / OWN
    good = file.read_text()
    for name in ("bare", "another master key"):
        logged = len(gateway.logs)
        file.write_text(good + BROKEN[name][1])
        gateway.wait_until(
            lambda logged=logged: any(line.get("event") == "file broken" for line in gateway.logs[logged:])
        )
        scene.look(f"{name}: readyz", seen_in_answer(gateway.readiness()))
    file.write_text(good)
    gateway.wait_until(lambda: any(line.get("event") == "file mended" for line in gateway.logs))


@pytest.mark.parametrize(
    "url",
    [f"redis://user:{REDIS}@127.0.0.1:1/0", f"redis://:{REDIS}@127.0.0.1:x/0", "env:REDIS_URL"],
    ids=["bare", "of no port", "env"],
)
def test_a_failed_start_shows_no_secret(scene: Scene, tmp_path: Path, url: str) -> None:
    settings = scene.settings | {"sections": {"state": {"backend": "redis", "redis_url": url}}}
    ended = run_to_its_end(Configuration(**settings), tmp_path)
    assert ended.returncode == 1
    assert "Redis" in ended.stderr
    scene.look("output", (ended.stdout + ended.stderr).encode())
