"""Files that change all the time or do not load delay no edit of another file, with one worker, two, or mitmdump."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.commands import run_alone
from rig.configuration import Configuration, key_hash
from rig.gateway import Gateway
from rig.large import large_only, sampled
from rig.processes import ANY_PORT, MITMDUMP, Mitmdump, run_to_its_end
from rig.settings_files import replace
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"
SAVED_EVERY_S = 0.3
KINDS: dict[str, dict[str, Any]] = {
    "one worker": {},
    "two workers": {"arguments": ("--port", "0", "--workers", "2")},
    "mitmdump": {
        "kind": Mitmdump,
        "program": MITMDUMP,
        "arguments": ANY_PORT,
    },
}
ACME, BARE = "policies/workspaces/acme.toml", "policies/workspaces/bare.toml"
CALLS = 8
"""So many calls on new connections miss one of two workers once in a hundred times; then the test asks again."""


@contextmanager
def always_being_saved(*files: Path) -> Iterator[threading.Event]:
    """Save files every 0.3 s, each time with another comment. Give an event that is set after the first round."""
    ended, saved = threading.Event(), threading.Event()

    def save() -> None:
        count = 0
        while not ended.wait(SAVED_EVERY_S):
            count += 1
            for file in files:
                text = file.read_text(encoding="utf-8").partition("\n# saved")[0]
                replace(file, f"{text}\n# saved {count}\n")
            saved.set()

    thread = threading.Thread(target=save)
    thread.start()
    try:
        yield saved
    finally:
        ended.set()
        thread.join(BOUND_S)


def statuses(gateway: Gateway, key: str) -> set[int]:
    """Return the statuses that calls with a key of ``gateway`` get from all its workers."""
    headers = {"Authorization": f"Bearer {gateway.keys[key]}"}
    body = {"messages": HELLO, "model": "tester-large"}
    return {
        httpx.post(
            gateway.url + CHAT, headers=headers, json=body, timeout=BOUND_S, trust_env=False
        ).status_code
        for _ in range(CALLS)
    }


def settings_check(gateway: Gateway) -> str:
    """Return the check of the files in /readyz. The gateway must still be ready."""
    answer = gateway.readiness()
    assert answer.status_code == 200
    return str(answer.json()["checks"]["settings"])


def broken_files(gateway: Gateway) -> dict[str, float]:
    """Return the broken files that the metric names."""
    page = httpx.get(f"{gateway.admin_url}/metrics", timeout=BOUND_S, trust_env=False).text
    found = re.findall(r'^tollgate_broken_files{file="([^"]+)"} (\S+)$', page, re.MULTILINE)
    return {name: float(value) for name, value in found if float(value)}


def replace_in(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def revoke(gateway: Gateway, workspace: str, key_id: str) -> subprocess.CompletedProcess[str]:
    arguments = ("keys", "revoke", workspace, key_id, "--conf", str(gateway.folder / "proxy.conf"))
    return run_alone(gateway.folder, *arguments)


@pytest.fixture(params=KINDS)
def own(
    request: pytest.FixtureRequest, start_gateway: StartGateway, tmp_path: Path, upstream: Upstream
) -> Iterator[Gateway]:
    """A gateway of each kind, with files that the test may edit."""
    assert upstream.requests == []
    gateway = start_gateway(folder=tmp_path, **KINDS[request.param])
    yield gateway
    assert gateway.stop() == 0
    gateway.assert_no_secret_logged()


@sampled(every=3)
def test_a_key_is_revoked_while_other_files_are_saved_all_the_time_or_broken(own: Gateway) -> None:
    """Files are saved every 0.3 s for some seconds. A reload that waits for them to settle would never end."""
    catalog, bare = own.folder / "catalog_data" / "models.toml", own.folder / BARE
    with always_being_saved(own.folder / "proxy.conf", catalog) as saved:
        assert saved.wait(BOUND_S)
        assert statuses(own, "ci") == {200}
        replace_in(own.folder / ACME, "active = true", "active = false")
        own.wait_until(lambda: statuses(own, "ci") == {401})
        # One customer's file breaks. The others can still be edited, and this customer is served as before.
        replace_in(bare, "plan =", "plam =")
        line = own.wait_for_log(lambda line: line.get("event") == "file broken")
        assert (line["level"], line["file"]) == ("error", str(bare))
        assert line["message"] == (
            f'workspace bare keeps its last good settings: {bare}: plam: unknown key; did you mean "plan"?'
        )
        assert settings_check(own) in line["message"]
        own.wait_until(lambda: broken_files(own) == {"workspaces/bare.toml": 1.0})
        replace_in(own.folder / ACME, "active = false", "active = true")
        own.wait_until(lambda: statuses(own, "ci") == {200})
        assert statuses(own, "bare") == {200}
    # Its key can still be revoked.
    revoked = revoke(own, "bare", "bare")
    assert (revoked.returncode, revoked.stdout) == (0, "key bare of workspace bare is revoked\n")
    assert "the file does not load; the key is turned off in its last good settings too: " in revoked.stderr
    own.wait_until(lambda: statuses(own, "bare") == {401})
    replace_in(bare, "plam =", "plan =")
    own.wait_for_log(lambda line: line.get("event") == "file mended" and line["file"] == str(bare))
    assert settings_check(own) == "ok"
    own.wait_until(lambda: broken_files(own) == {})
    assert statuses(own, "bare") == {401}


@sampled(every=3)
def test_a_file_that_changes_all_the_time_takes_effect(own: Gateway) -> None:
    file = own.folder / ACME
    with always_being_saved(file):
        replaced = file.read_text(encoding="utf-8").replace("active = true", "active = false")
        own.wait_until(lambda: _saved_as(file, replaced) and statuses(own, "ci") == {401})


def _saved_as(file: Path, text: str) -> bool:
    """Write a text that the other writer of the file goes on with."""
    if "active = true" in file.read_text(encoding="utf-8"):
        file.write_text(text, encoding="utf-8")
    return True


# Starting again.


class Standing(Configuration):
    """A configuration that keeps the existing files."""

    def write(self, folder: Path) -> Path:
        return folder / "proxy.conf"


def standing(*arguments: str) -> Standing:
    return Standing(providers={}, models={}, arguments=("--port", "0", *arguments))


@pytest.fixture
def stopped(start_gateway: StartGateway, tmp_path: Path, upstream: Upstream) -> Gateway:
    """A gateway that has served and ended."""
    assert upstream.requests == []
    gateway = start_gateway(folder=tmp_path)
    gateway.wait_until(lambda: (tmp_path / "var/last-good/bare.toml").exists())
    assert gateway.stop() == 0
    return gateway


@sampled(every=2)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_restart_serves_a_broken_workspace_as_it_was_and_strict_does_not_start(
    stopped: Gateway, workers: str
) -> None:
    bare = stopped.folder / BARE
    replace_in(bare, "plan =", "plam =")
    ended = run_to_its_end(standing("--workers", workers, "--strict"), stopped.folder)
    assert ended.returncode == 1
    assert ended.stderr.strip().splitlines()[-1].startswith(f"tollgate: {bare}: plam: unknown key")
    with Gateway(standing("--workers", workers), stopped.folder, stopped.keys) as again:
        assert statuses(again, "bare") == statuses(again, "ci") == {200}
        assert str(bare) in settings_check(again)
        again.wait_for_log(lambda line: line.get("event") == "file broken")
        if workers == "2":
            [one, *_] = again.children()
            os.kill(one, signal.SIGKILL)
            again.wait_for_log(lambda line: line.get("event") == "worker started" and line["pid"] != one)
        assert statuses(again, "bare") == {200}


def test_a_workspace_that_never_loaded_is_no_first_run_and_stops_no_start(stopped: Gateway) -> None:
    for name in (ACME, BARE):
        (stopped.folder / name).write_text("broken", encoding="utf-8")
    for kept in (stopped.folder / "var/last-good").iterdir():
        kept.unlink()
    with Gateway(standing(), stopped.folder, stopped.keys) as again:
        assert statuses(again, "ci") == {401}
        assert not (stopped.folder / "policies/workspaces/demo.toml").exists()
        assert "acme.toml: is not TOML" in settings_check(again)


@large_only
def test_two_claimants_at_a_first_start_are_both_refused(stopped: Gateway) -> None:
    for kept in (stopped.folder / "var/last-good").iterdir():
        kept.unlink()
    own_hash, other_hash = key_hash(stopped.keys["bare"]), key_hash(stopped.keys["ci"])
    with (stopped.folder / BARE).open("a", encoding="utf-8") as file:
        file.write(f'\n[[keys]]\nid = "copy"\nhash = "{other_hash}"\n')
    with Gateway(standing(), stopped.folder, stopped.keys) as again:
        assert own_hash != other_hash
        assert (statuses(again, "ci"), statuses(again, "bare")) == ({401}, {200})
        check = settings_check(again)
        assert "acme.toml: keys[0] (ci).hash: the same hash as key" in check
        assert "bare.toml: keys[1] (copy).hash: the same hash as key" in check
    with Gateway(standing(), stopped.folder, stopped.keys) as again:
        assert statuses(again, "ci") == {401}
        replace_in(stopped.folder / BARE, other_hash, "sha256:" + "0" * 64)
        again.wait_until(lambda: statuses(again, "ci") == {200})


def test_a_model_that_leaves_the_catalog_refuses_the_calls_that_need_it(stopped: Gateway) -> None:
    models = stopped.folder / "catalog_data" / "models.toml"
    text = models.read_text(encoding="utf-8")
    models.write_text(text.replace("[tester-large]", "[tester-larger]"), encoding="utf-8")
    with Gateway(standing(), stopped.folder, stopped.keys) as again:
        refused = httpx.post(
            again.url + CHAT,
            headers=again.headers,
            json={"messages": HELLO},
            timeout=BOUND_S,
            trust_env=False,
        )
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_state")
        body = {"messages": HELLO, "model": "tester-small"}
        served = httpx.post(
            again.url + CHAT, headers=again.headers, json=body, timeout=BOUND_S, trust_env=False
        )
        assert served.status_code == 200
