"""Alerts reach a real receiver, signed, each threshold once: over workers, machines, restarts and crashes."""

import hashlib
import hmac
import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from conftest import StartGateway
from rig.alerts import PATH_TOKEN, SIGNING_SECRET, TAKEN, TEN_CALLS, Alerting, Receiver, call, scrape
from rig.canaries import Canaries, all_files_seen
from rig.commands import run_alone, tollgate
from rig.configuration import CLI, model, new_key, provider, workspace
from rig.large import large_only, sampled
from rig.redis_fixtures import StartRedis
from rig.scripts import UNTIL_CLIENT_LEAVES, completion, whole
from rig.upstream import RefusingPort, Upstream

TWO_WORKERS = ("--port", "0", "--workers", "2")
ROUTED = {"secret": "env:OWN_KEY", "routing": True}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def test_each_threshold_of_a_month_is_sent_once_signed_and_survives_a_restart(
    start_gateway: StartGateway, upstream: Upstream, receiver: Receiver
) -> None:
    scene = Alerting(start_gateway, receiver, monthly_spend_cap_usd=TEN_CALLS)
    gateway = scene.start()
    assert scene.call(8) == [200] * 8
    scene.wait_for_percents(80)
    [request] = receiver.requests
    signature = hmac.new(SIGNING_SECRET.encode(), request.body, hashlib.sha256).hexdigest()
    assert request.header("X-Tollgate-Signature") == f"sha256={signature}"
    assert request.target == f"/hooks/{PATH_TOKEN}"
    event = request.json()
    assert event["id"].startswith("evt_")
    assert (event["workspace"], event["key_id"], event["limit"]) == ("acme", None, "monthly_spend_cap")
    assert (event["used_nanousd"], event["limit_nanousd"]) == (91_520_000, 114_400_000)
    assert event["left_nanousd"] == 22_880_000
    assert event["text"] == "acme has used 80% of its monthly spend cap: 0.09152 of 0.1144 USD."
    # A stop before the answer of the receiver is noted would send the alert again, with the same id.
    gateway.wait_until(lambda: scrape(gateway, "tollgate_alert_deliveries_total", outcome="sent") == 1)
    gateway.stop()
    gateway = scene.start(program=CLI)
    assert scene.call(3) == [200, 200, 402]
    scene.wait_for_percents(80, 95, 100)
    assert len({one.json()["id"] for one in receiver.requests}) == 3
    gateway.wait_until(lambda: scrape(gateway, "tollgate_alert_deliveries_total", outcome="sent") == 2)
    assert scrape(gateway, "tollgate_alerts_total", type="budget.threshold") == 2
    gateway.wait_until(lambda: scrape(gateway, "tollgate_alerts_waiting") == 0)


def test_a_wallet_and_the_caps_of_a_key_have_thresholds(
    start_gateway: StartGateway, upstream: Upstream, receiver: Receiver
) -> None:
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    caps = {"spend_cap_usd": TEN_CALLS, "spend_reset": "daily", "request_cap": 6, "expires_at": soon}
    scene = Alerting(start_gateway, receiver, plan="standard", alert_at_percent=[50], key=caps)
    gateway = scene.start(sections={"metrics": {"workspaces": True}})
    assert tollgate(gateway.folder, "wallet", "credit", "acme", "0.09152").returncode == 0
    assert scene.call(5) == [200] * 5
    gateway.wait_until(lambda: len(receiver.events("budget.threshold")) >= 3)
    by_limit = {event["limit"]: event for event in receiver.events("budget.threshold")}
    assert set(by_limit) == {"wallet", "spend_cap", "request_cap"}
    assert by_limit["request_cap"]["used_requests"] in (3, 4, 5)
    assert by_limit["request_cap"]["limit_requests"] == 6
    assert by_limit["spend_cap"]["key_id"] == by_limit["request_cap"]["key_id"] == "ci"
    assert by_limit["wallet"]["limit_nanousd"] == 91_520_000
    gateway.wait_until(
        lambda: scrape(gateway, "tollgate_workspace_wallet_usd", workspace="acme") == pytest.approx(0.03432)
    )
    expiring = scene.wait_for_event("key.expiring")
    assert (expiring["workspace"], expiring["key_id"], expiring["secret"]) == ("acme", "ci", "current")
    assert datetime.fromisoformat(expiring["expires_at"]) == soon
    # A second credit begins again, for the wallet only.
    assert tollgate(gateway.folder, "wallet", "credit", "acme", "0.02").returncode == 0
    assert scene.call() == [200]
    gateway.wait_until(lambda: scrape(gateway, "tollgate_workspace_wallet_usd", workspace="acme") < 0.045)
    assert len(receiver.events("budget.threshold")) == 3


@large_only
def test_with_two_workers_each_threshold_is_sent_once_also_when_the_leader_is_killed(
    start_gateway: StartGateway, upstream: Upstream, receiver: Receiver
) -> None:
    scene = Alerting(start_gateway, receiver, monthly_spend_cap_usd=TEN_CALLS)
    gateway = scene.start(arguments=TWO_WORKERS)
    assert scene.call(8) == [200] * 8
    scene.wait_for_percents(80)
    # An event that is sent and not yet noted as sent may come twice.
    gateway.wait_until(lambda: scrape(gateway, "tollgate_alert_deliveries_total", outcome="sent") == 1)
    lock = os.stat(gateway.folder / "var" / "tollgate.db-owners" / ".alerts")
    [leader] = [pid for pid in gateway.children() if _has_open(pid, lock)]
    os.kill(leader, signal.SIGKILL)
    gateway.wait_until(lambda: leader not in gateway.children())
    gateway.wait_until(lambda: len(gateway.children()) == 2)
    scene.call(2)
    scene.wait_for_percents(80, 95, 100)


def _has_open(pid: int, file: os.stat_result) -> bool:
    opened = Path(f"/proc/{pid}/fd").iterdir()
    return any(one.exists() and one.stat().st_ino == file.st_ino for one in opened)


def test_an_event_that_was_found_before_a_kill_is_sent_after_it_with_the_same_id(
    start_gateway: StartGateway, upstream: Upstream, receiver: Receiver
) -> None:
    receiver.behave((UNTIL_CLIENT_LEAVES,))
    scene = Alerting(start_gateway, receiver, monthly_spend_cap_usd=TEN_CALLS, alert_at_percent=[10])
    gateway = scene.start()
    assert scene.call() == [200]
    [first] = receiver.wait_for_requests()
    gateway.kill()
    receiver.behave(TAKEN)
    gateway = scene.start(program=CLI)
    again = receiver.wait_for_requests(2)[1]
    assert (again.json()["id"], again.json()["attempt"]) == (first.json()["id"], 1)
    assert again.json()["sent_at"] > first.json()["sent_at"]
    gateway.wait_until(lambda: scrape(gateway, "tollgate_alert_deliveries_total", outcome="sent") == 1)
    listed = tollgate(gateway.folder, "alerts", "list", "--csv")
    assert [line.split(",")[4] for line in listed.stdout.splitlines()] == ["status", "sent"]


@large_only
def test_an_outage_of_redis_is_sent_and_its_end_too(
    start_gateway: StartGateway, upstream: Upstream, receiver: Receiver, start_redis: StartRedis
) -> None:
    redis = start_redis()
    scene = Alerting(start_gateway, receiver, monthly_spend_cap_usd=TEN_CALLS)
    gateway = scene.start(sections={"state": {"backend": "redis", "redis_url": redis.url}})
    redis.stop()
    gateway.wait_until(lambda: len(receiver.events("store.unavailable")) == 1)
    redis.start()
    gateway.wait_until(lambda: len(receiver.events("store.recovered")) == 1)


def test_what_else_happens_is_sent_and_no_secret_is_shown(
    start_gateway: StartGateway, upstream: Upstream, receiver: Receiver
) -> None:
    """The Safety Net carries a workspace, a provider fails for two of them, an edit does not load, a key is lost."""
    own_key, keys = "own9key8of7acme6Zx5", {name: new_key() for name in ("net", "one", "two")}
    failing = {"default_model": "refused", "fallback_model": "dear"}
    with RefusingPort() as refusing:
        scene = Alerting(start_gateway, receiver)
        upstream.behave(
            lambda request: whole(completion(), 200 if own_key not in str(request.headers) else 402)
        )
        gateway = scene.start(
            providers={
                "TESTER": provider(upstream.base_url),
                "REFUSING": provider(refusing.base_url),
            },
            models={"dear": model(), "refused": model(provider="REFUSING")},
            workspaces={
                "net": workspace(
                    ("ci", keys["net"], True), default_model="dear", safety_net=True, byok={"TESTER": ROUTED}
                ),
                **{name: workspace(("ci", keys[name], True), **failing) for name in ("one", "two")},
            },
            environment={"OWN_KEY": own_key},
        )
        assert {call(gateway, keys["net"]) for _ in range(11)} == {200}
        carrying = scene.wait_for_event("safety_net.carrying")
        assert (carrying["workspace"], carrying["provider"], carrying["calls"]) == ("net", "TESTER", 11)
        for name in ("one", "two"):
            assert {call(gateway, keys[name]) for _ in range(5)} == {200}
        opened = scene.wait_for_event("provider.circuit_open")
        assert (opened["provider"], opened["workspaces"]) == ("REFUSING", 2)
    providers = gateway.folder / "catalog_data" / "providers.toml"
    table = tomlkit.parse(providers.read_text())
    table["REFUSING"]["platform_key"] = "env:NO_SUCH_KEY"  # type: ignore[index]
    providers.write_text(tomlkit.dumps(table))
    assert scene.wait_for_event("provider.keys_lost")["provider"] == "REFUSING"
    broken = gateway.folder / "policies" / "workspaces" / "one.toml"
    broken.write_text('nme = "One"\n')
    failed = scene.wait_for_event("reload.failed")
    assert failed["file"] == str(broken)
    assert "unknown key" in failed["reason"]
    gateway.stop()
    secrets = {"path": PATH_TOKEN, "signing": SIGNING_SECRET, "own": own_key}
    seen = Canaries(secrets)
    assert seen.found_in("\n".join(gateway.stderr_lines).encode()) == set()
    assert seen.found_in(all_files_seen(gateway.folder)) == set()
    for request in receiver.requests:
        assert seen.found_in(request.body) == set()


RUNS: dict[str, tuple[Any, int, str]] = {
    "it takes the event": (TAKEN, 0, "the webhook took the event: 204 after "),
    "it fails": (whole(b"", 500), 1, "the webhook did not take the event: 500, after "),
    "it redirects": (
        whole(b"", 302, [("Location", "https://example.invalid")]),
        1,
        "the webhook did not take the event: 302 (redirects are not followed), after ",
    ),
}


@sampled(every=3)
@pytest.mark.parametrize("case", RUNS)
def test_the_command_sends_a_test(tmp_path: Path, receiver: Receiver, case: str) -> None:
    answer, status, said = RUNS[case]
    (tmp_path / "policies" / "workspaces").mkdir(parents=True)
    (tmp_path / "proxy.conf").write_text('[alerts]\nwebhook = "env:HOOK"\n[paths]\ncatalog = "catalog"\n')
    (tmp_path / "catalog").mkdir()
    for name in ("models", "providers", "families"):
        (tmp_path / "catalog" / f"{name}.toml").touch()
    receiver.behave(answer)
    run = run_alone(tmp_path, "alerts", "test", HOOK=receiver.url)
    assert (run.returncode, (run.stdout + run.stderr).startswith(said)) == (status, True), run
    [event] = receiver.events("test")
    assert event["attempt"] == 1
    assert PATH_TOKEN not in run.stdout + run.stderr
    unset = run_alone(tmp_path, "alerts", "test")
    assert unset.returncode == 1
    assert "an environment variable that [alerts] names is not set" in unset.stderr
