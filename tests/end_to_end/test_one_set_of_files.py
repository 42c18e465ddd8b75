"""Two gateways with one ledger: a change on one machine is served on the other, and a revoked key on neither."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from conftest import StartGateway
from rig.alerts import Receiver
from rig.bounds import BOUND_S
from rig.commands import tollgate
from rig.configuration import new_key, workspace
from rig.console_forms import ENVIRONMENT, SECTIONS, confirm, log_in, send
from rig.gateway import Gateway
from rig.large import large_only
from rig.postgres_fixtures import StartPostgres
from rig.toml_text import toml_text

from addon.settings.conf_schema import COPIES_FOLDER


@dataclass
class Fleet:
    """Starts machines over one Redis and one PostgreSQL."""

    start: StartGateway
    redis: str
    postgres: str
    started: list[Gateway] = field(default_factory=list)

    def open(self, **options: object) -> Gateway:
        paths, admin = options.pop("paths", {}), options.pop("admin", {})
        sections = {
            "admin": admin,
            "alerts": options.pop("alerts", {}),
            "state": {"backend": "redis", "redis_url": self.redis, "fleet": "tests"},
            "ledger": {"url": self.postgres},
            "paths": paths,
        }
        self.started.append(self.start(sections=sections, **options))
        return self.started[-1]

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.postgres) as ledger:
            return ledger.execute(sql).fetchall()  # type: ignore[call-overload,no-any-return]


@pytest.fixture
def fleet(start_gateway: StartGateway, redis_url: str, postgres_ledger_url: str) -> Iterator[Fleet]:
    made = Fleet(start_gateway, redis_url, postgres_ledger_url)
    yield made
    # Its rates are Redis's until the last of them has ended.
    assert {one.stop() for one in made.started} == {0}


def is_served(gateway: Gateway, key: str) -> bool:
    """Return whether a key is let in: a call without a body is refused for its body then."""
    headers = {"Authorization": f"Bearer {key}"}
    url = f"{gateway.url}/v1/chat/completions"
    answer = httpx.post(url, headers=headers, timeout=BOUND_S, trust_env=False)
    assert answer.status_code != 401 or answer.json()["error"]["code"] == "invalid_api_key"
    return answer.status_code != 401


def wait_until_served(key: str, *gateways: Gateway, wanted: bool = True) -> None:
    for gateway in gateways:
        gateway.wait_until(lambda gateway=gateway: is_served(gateway, key) == wanted)


def done(folder: Path, *arguments: str) -> str:
    ended = tollgate(folder, *arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def refused(folder: Path, *arguments: str) -> str:
    ended = tollgate(folder, *arguments)
    assert ended.returncode == 1, ended.stdout
    return ended.stderr


ADMIN = {**SECTIONS["admin"], "edits": True}
IN_LEDGER = {"workspaces": "ledger"}


def test_an_edit_on_one_machine_is_served_on_the_other(fleet: Fleet) -> None:
    first, second = (fleet.open(workspaces={}, paths=IN_LEDGER) for _ in range(2))
    key = done(first.folder, "keys", "create", "acme", "--new").strip()
    wait_until_served(key, first, second)
    copy = second.folder / "var" / COPIES_FOLDER / "acme.toml"
    assert copy.stat().st_mode & 0o077 == 0
    assert fleet.rows("SELECT action, workspace, subject, outcome FROM audit") == [
        ("keys create", "acme", "key-1", "made")
    ]
    done(second.folder, "keys", "revoke", "acme", "key-1")
    wait_until_served(key, first, second, wanted=False)
    done(first.folder, "keys", "enable", "acme", "key-1")
    wait_until_served(key, first, second)


def test_the_console_of_one_machine_changes_a_file_that_the_other_serves(fleet: Fleet) -> None:
    shared = {"workspaces": {}, "paths": IN_LEDGER, "admin": SECTIONS["admin"], "environment": ENVIRONMENT}
    first, second = (fleet.open(**shared) for _ in range(2))
    with log_in(first) as on_first, log_in(second) as on_second:
        path = "/changes/workspaces/create"
        assert confirm(on_first, path, send(on_first, path, workspace="acme")).status_code == 303
        path = "/changes/keys/create/acme"
        made = confirm(on_second, path, send(on_second, path, id="ci"))
        key = re.search(r"\btg_[\w-]+", on_second.get(made.headers["location"]).text)
        assert key
        wait_until_served(key[0], first, second)
        path = "/changes/keys/set/acme/ci"
        shown = [
            (console, send(console, path, label=name))
            for console, name in ((on_first, "a"), (on_second, "b"))
        ]
        answers = [confirm(console, path, page) for console, page in shown]
        assert [one.status_code for one in answers] == [303, 409]
        assert "changed at" in answers[1].text
        assert 'value="b"' in answers[1].text
        path = "/changes/wallet/credit/acme"
        assert confirm(on_second, path, send(on_second, path, amount="5")).status_code == 303
        path = "/changes/keys/revoke/acme/ci"
        assert confirm(on_first, path, send(on_first, path)).status_code == 303
        wait_until_served(key[0], first, second, wanted=False)
    assert fleet.rows("SELECT source, action, outcome FROM audit ORDER BY number") == [
        ("console", action, "made")
        for action in ("workspaces create", "keys create", "keys set", "wallet credit", "keys revoke")
    ]


def test_while_the_ledger_is_away_the_last_copies_count_also_after_a_restart(
    start_gateway: StartGateway, redis_url: str, start_postgres: StartPostgres
) -> None:
    server = start_postgres()
    sections = {
        "state": {"backend": "redis", "redis_url": redis_url, "fleet": "tests"},
        "ledger": {"url": server.url},
        "paths": IN_LEDGER,
    }
    gateway = start_gateway(workspaces={}, sections=sections)
    key, off = (done(gateway.folder, "keys", "create", name, "--new").strip() for name in ("acme", "beta"))
    done(gateway.folder, "keys", "revoke", "beta", "key-1")
    wait_until_served(key, gateway)
    wait_until_served(off, gateway, wanted=False)
    server.stop()
    gateway.wait_until(lambda: "the last copies count" in gateway.readiness().json()["checks"]["fleet"])
    assert (is_served(gateway, key), is_served(gateway, off)) == (True, False)
    checked = tollgate(gateway.folder, "check")
    assert "workspaces: 2" in checked.stdout
    assert "the last copies of workspace files count, of " in checked.stderr
    gateway.stop()
    again = start_gateway(folder=gateway.folder, workspaces={}, sections=sections)
    assert (is_served(again, key), is_served(again, off)) == (True, False)
    server.start()
    again.wait_until(lambda: again.readiness().status_code == 200)
    assert (is_served(again, key), is_served(again, off)) == (True, False)
    assert again.stop() == 0


def test_a_key_revoked_on_one_machine_is_refused_by_the_other_whose_file_has_it(fleet: Fleet) -> None:
    key = new_key()
    shared = {"acme": workspace(("ci", key, True))}
    first, second = (
        fleet.open(workspaces=shared, arguments=("--port", "0", "--workers", n)) for n in ("1", "2")
    )
    assert is_served(first, key)
    assert is_served(second, key)
    done(first.folder, "keys", "revoke", "acme", "ci")
    wait_until_served(key, first, second, wanted=False)
    assert "active = true" in (second.folder / "policies/workspaces/acme.toml").read_text()
    done(first.folder, "keys", "enable", "acme", "ci")
    wait_until_served(key, first, second)


def test_a_key_revoked_in_the_console_of_one_machine_is_refused_by_the_other(fleet: Fleet) -> None:
    key = new_key()
    shared = {"acme": workspace(("ci", key, True))}
    first, second = (fleet.open(workspaces=shared, admin=ADMIN, environment=ENVIRONMENT) for _ in range(2))
    wait_until_served(key, first, second)
    path = "/changes/keys/revoke/acme/ci"
    with log_in(first) as console:
        assert confirm(console, path, send(console, path)).status_code == 303
    wait_until_served(key, first, second, wanted=False)
    assert "active = true" in (second.folder / "policies/workspaces/acme.toml").read_text()


def test_a_key_that_two_machines_give_to_different_workspaces_is_refused_to_the_second(fleet: Fleet) -> None:
    key = new_key()
    first = fleet.open(workspaces={"acme": workspace(("ci", key, True))})
    first.wait_until(lambda: fleet.rows("SELECT workspace FROM key_claims") == [("acme",)])
    second = fleet.open(workspaces={"other": workspace(("ci", key, True))})
    wait_until_served(key, second, wanted=False)
    assert is_served(first, key)
    assert (
        'workspace "acme" has the same hash on another machine'
        in second.readiness().json()["checks"]["settings"]
    )


def test_files_are_pushed_pulled_and_compared(fleet: Fleet, tmp_path: Path) -> None:
    gateway = fleet.open(workspaces={}, paths=IN_LEDGER)
    mine, theirs, key = tmp_path / "mine", tmp_path / "theirs", new_key()
    mine.mkdir()
    (mine / "acme.toml").write_text(toml_text(workspace(("ci", key, True))))
    assert done(gateway.folder, "workspaces", "push", str(mine)) == "acme.toml: added\n"
    wait_until_served(key, gateway)
    assert done(gateway.folder, "workspaces", "pull", str(theirs)) == "acme.toml: added\n"
    assert (theirs / "acme.toml").read_text() == (mine / "acme.toml").read_text()
    done(gateway.folder, "workspaces", "set", "acme", "--name", "Renamed")
    shown = tollgate(gateway.folder, "workspaces", "diff", str(mine))
    assert (shown.returncode, "Renamed" in shown.stdout) == (1, True)
    (mine / "acme.toml").write_text(toml_text(workspace(("ci", key, True), plan="standard")))
    assert "changed in the ledger since the last pull: acme" in refused(
        gateway.folder, "workspaces", "push", str(mine)
    )
    assert "changed in" in refused(gateway.folder, "workspaces", "pull", str(mine))
    assert done(gateway.folder, "workspaces", "push", str(mine), "--force") == "acme.toml: changed\n"
    (mine / "acme.toml").write_text('name = "Acme"\nnonsense = 1\n')
    assert "nonsense" in refused(gateway.folder, "workspaces", "push", str(mine))
    (mine / "acme.toml").unlink()
    assert done(gateway.folder, "workspaces", "push", str(mine)) == "acme.toml: removed\n"
    wait_until_served(key, gateway, wanted=False)


@large_only
def test_a_machine_with_another_file_is_an_event_after_a_minute_and_so_is_its_end(fleet: Fleet) -> None:
    key = new_key()
    with Receiver() as receiver:
        hook: dict[str, Any] = {"alerts": {"webhook": "env:HOOK"}, "environment": {"HOOK": receiver.url}}
        arguments = ("--port", "0", "--workers", "2")
        machines = [
            fleet.open(
                workspaces={"acme": workspace(("ci", key, True), name=name)}, arguments=arguments, **hook
            )
            for name in ("Acme", "Acme", "Another")
        ]
        fleet.started[0].wait_until(lambda: bool(receiver.events("fleet.files_differ")))
        [event] = receiver.events("fleet.files_differ")
        assert (event["machine"].partition(":")[2], event["files"]) == (
            str(machines[2].folder),
            ["acme.toml"],
        )
        page = httpx.get(f"{machines[0].admin_url}/api/v1/machines", timeout=BOUND_S, trust_env=False).json()
        assert [row["file"] for row in page["files"]] == ["acme.toml"]
        assert {(row["workers"], row["state"]) for row in page["machines"]} == {(2, "alive")}
        file = Path("policies/workspaces/acme.toml")
        (machines[2].folder / file).write_bytes((machines[0].folder / file).read_bytes())
        fleet.started[0].wait_until(lambda: bool(receiver.events("fleet.files_agree")))
        [event] = receiver.events("fleet.files_agree")
        assert (event["machine"].partition(":")[2], event["reason"]) == (str(machines[2].folder), "alike")
