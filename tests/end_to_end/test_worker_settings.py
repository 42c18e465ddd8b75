"""The settings of a gateway with several workers: each worker gets them from the supervisor, by a snapshot file."""

import os
import re
import signal
import stat
from pathlib import Path

import httpx
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.canaries import Canaries, all_files_seen
from rig.configuration import PROVIDER_KEY
from rig.gateway import Gateway
from rig.large import large_only
from rig.settings_files import replace
from rig.upstream import Upstream
from rig.workers import CALLERS, TWO, all_serve, make_call, served_by, wait_for_successor, worker_pids

from addon.settings.snapshot import SNAPSHOT_FILE


def test_an_edit_reaches_every_worker_and_is_one_log_line(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(arguments=TWO)
    _revoke_key(gateway)
    gateway.wait_for_log(lambda line: line["message"].startswith("settings reloaded"))
    gateway.wait_until(lambda: {make_call(gateway).status_code for _ in range(CALLERS)} == {401})
    page = httpx.get(f"{gateway.admin_url}/metrics", timeout=BOUND_S, trust_env=False).text
    assert "\ntollgate_reload_failed 0.0\n" in page
    [age_s] = re.findall(r"^tollgate_settings_age_seconds (\S+)$", page, re.MULTILINE)
    assert float(age_s) < BOUND_S
    assert gateway.stop() == 0
    # Only the supervisor writes the lines of settings.
    for name in ("settings loaded", "settings warning", "settings reloaded"):
        assert ["worker" in line for line in gateway.logs if line.get("event") == name] == [False]
    ends = [line for line in gateway.logs if line.get("event") == "stopped"]
    assert sorted(line.get("worker", 0) for line in ends) == [0, 1, 2]
    assert (ends[-1].get("worker"), ends[-1]["killed_workers"]) == (None, 0)


@large_only
def test_a_restarted_worker_gets_the_last_good_settings_while_the_files_are_broken(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(arguments=TWO)
    models = gateway.folder / "catalog_data" / "models.toml"
    good = models.read_text()
    models.write_text(good.replace("tester-large", "tester-new"))
    file = gateway.folder / "policies" / "workspaces" / "acme.toml"
    file.write_text(file.read_text().replace("tester-large", "tester-new"))
    gateway.wait_for_log(lambda line: line["message"].startswith("settings reloaded"))
    models.write_text("this is no TOML")
    gateway.wait_until(lambda: "models.toml" in gateway.readiness().json()["checks"]["settings"])
    assert gateway.readiness().status_code == 200
    for number, pid in worker_pids(gateway).items():
        os.kill(pid, signal.SIGKILL)
        wait_for_successor(gateway, number, pid)
    assert served_by(gateway) == {1, 2}
    assert {row["model_slug"] for row in gateway.ledger_rows()} == {"tester-new"}


def _snapshot(gateway: Gateway) -> Path:
    (file,) = (gateway.folder / "var").glob(f"workers-*/{SNAPSHOT_FILE}")
    return file


def _revoke_key(gateway: Gateway) -> None:
    file = gateway.folder / "policies" / "workspaces" / "acme.toml"
    file.write_text(file.read_text().replace("active = true", "active = false"))


@large_only
def test_a_snapshot_is_readable_by_its_owner_only_and_shows_no_secret(pair: Gateway) -> None:
    file = _snapshot(pair)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert not Canaries({"the provider's key": PROVIDER_KEY}).found_in(all_files_seen(file.parent))


@large_only
def test_a_snapshot_that_can_not_be_written_is_reported_and_written_later(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(arguments=TWO)
    file = _snapshot(gateway)
    file.unlink()
    file.mkdir()  # As a full disk would, this keeps a new one from being written.
    _revoke_key(gateway)
    gateway.wait_until(lambda: "do not reach the workers" in gateway.readiness().json()["checks"]["settings"])
    assert served_by(gateway) == {1, 2}
    file.rmdir()
    gateway.wait_until(lambda: {make_call(gateway).status_code for _ in range(CALLERS)} == {401})
    gateway.wait_until(lambda: gateway.readiness().json()["checks"]["settings"] == "ok")


def test_a_torn_snapshot_is_refused_by_every_worker_in_one_clear_line(pair: Gateway) -> None:
    file = _snapshot(pair)
    replace(file, file.read_text()[:-100])
    reason = f"{file}: is not a whole snapshot of this run of the gateway"
    for number in (1, 2):
        message = f"settings: could not be put to use: {reason}"
        pair.wait_for_log(lambda line: (line["message"], line.get("worker")) == (message, number))  # noqa: B023
    assert served_by(pair) == {1, 2}
    assert "could not be put to use" in pair.readiness().json()["checks"]["settings"]
    os.kill(worker_pids(pair)[1], signal.SIGKILL)
    pair.wait_for_log(lambda line: line["message"] == f"worker 1 ended with exit status 1: {reason}")
    _revoke_key(pair)
    pair.wait_until(lambda: all_serve(pair))
    pair.wait_until(lambda: {make_call(pair).status_code for _ in range(CALLERS)} == {401})
    pair.wait_until(lambda: pair.readiness().json()["checks"]["settings"] == "ok")
