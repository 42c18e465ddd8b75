"""The PostgreSQL of the tests is real, and has the features that tests of broken stores need."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from rig.bare_path import bare_path, copy_script, run_script
from rig.bounds import BOUND_S
from rig.postgres_fixtures import StartPostgres
from rig.postgres_server import PostgresServer


def connect(url: str) -> psycopg.Connection:
    return psycopg.connect(url, autocommit=True)


def write(server: PostgresServer, text: str) -> None:
    with connect(server.url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS written (text text)")
        connection.execute("INSERT INTO written VALUES (%s)", [text])


def texts(server: PostgresServer) -> list[str]:
    with connect(server.url) as connection:
        return [text for (text,) in connection.execute("SELECT text FROM written")]


def test_a_test_owns_an_empty_database_without_other_rights(postgres_url: str):
    with connect(postgres_url) as connection:
        assert connection.info.server_version >= 150000
        assert connection.execute("SELECT relname FROM pg_class WHERE relnamespace > 16000").fetchall() == []
        connection.execute("CREATE TABLE mine (text text)")
        connection.execute("INSERT INTO mine VALUES ('b'), ('a'), ('B')")
        sorted_texts = connection.execute("SELECT text FROM mine ORDER BY text").fetchall()
        assert sorted_texts == [("a",), ("b",), ("B",)]  # Python sorts B first.
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("CREATE ROLE another")


def test_another_test_gets_another_database(postgres_server: PostgresServer, postgres_url: str):
    name = postgres_server.create_database()
    assert postgres_server.url_of(name) != postgres_url
    with closing(connect(postgres_server.url_of(name))) as still_open:
        postgres_server.drop_database(name)
        with pytest.raises(psycopg.OperationalError):
            still_open.execute("SELECT 1")


def test_a_password_is_required(postgres_server: PostgresServer):
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(postgres_server.url.replace("canary", "guessed"))


def test_a_stopped_or_killed_server_comes_back_with_its_rows(start_postgres: StartPostgres):
    server = start_postgres()
    for end in (PostgresServer.stop, PostgresServer.kill):
        write(server, end.__name__)
        with closing(connect(server.url)) as client:
            server.freeze()  # It can end also while it is frozen.
            end(server)
            with pytest.raises(psycopg.OperationalError):
                client.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError, match="refused"):
            connect(server.url)
        server.start()
    assert texts(server) == ["stop", "kill"]


def test_a_synchronous_standby_that_is_frozen_delays_a_commit(start_postgres: StartPostgres):
    primary = start_postgres()
    standby = primary.standby(synchronous=True)
    write(primary, "before")
    standby.freeze()
    writer = threading.Thread(target=write, args=(primary, "delayed"))
    writer.start()
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    primary._wait_until(lambda: primary.execute(waiting) == [(1,)], "the commit does not wait")
    assert texts(primary) == ["before"]
    standby.thaw()
    writer.join(BOUND_S)
    standby.catch_up()
    assert texts(standby) == texts(primary) == ["before", "delayed"]


def test_a_standby_that_is_cut_off_loses_commits_and_becomes_a_primary(start_postgres: StartPostgres):
    primary = start_postgres()
    standby = primary.standby()
    write(primary, "received")
    standby.pause_replay()
    write(primary, "not shown")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        write(standby, "refused")
    standby.resume_replay()
    standby.catch_up()
    standby.cut()
    write(primary, "caught up")
    standby.reconnect()
    standby.catch_up()
    standby.cut()
    write(primary, "lost")
    primary.kill()
    standby.promote()
    write(standby, "after")
    assert texts(standby) == ["received", "not shown", "caught up", "after"]


def shared_memory() -> list[str]:
    return [line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()]


def test_nothing_is_left_of_a_killed_server_when_its_block_ends(start_postgres: StartPostgres):
    programs = start_postgres()._programs
    with PostgresServer(programs) as server:
        folder, pids = Path(server._folder.name), [server.pid, *server._children()]
        segment = server._pid_file.read_text().splitlines()[6].split()[1]
        assert segment in shared_memory()
        server.kill()
    assert not folder.exists()
    assert segment not in shared_memory()
    assert server._states(pids) <= {"Z"}  # The system has yet to note the end of those.


def test_the_error_of_a_server_that_does_not_start_has_its_output(start_postgres: StartPostgres):
    with pytest.raises(AssertionError, match=r"(?s)it ended before it answered; its log:.*max_connections"):
        start_postgres(max_connections="much")


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Path]:
    """A project that has only the script, on a machine whose Debian has its servers in another folder."""
    script = copy_script(tmp_path, "install_postgres.sh")
    script.write_text(script.read_text().replace("/usr/lib/postgresql", str(tmp_path / "debian")))
    return script


def test_the_newest_server_of_debian_is_used_and_nothing_is_fetched(script: Path, tmp_path: Path):
    for major in (14, 15, 16):
        bare_path(
            tmp_path / f"{major}",
            **{"postgres": f"echo 'postgres (PostgreSQL) {major}.1 (Debian {major}.1-1)'"},
        )
        shutil.move(tmp_path / f"{major}", tmp_path / "debian" / f"{major}" / "bin")
    done = run_script(script, bare_path(tmp_path / "bin"))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{tmp_path}/debian/16/bin/postgres\n", "")


def test_a_server_that_is_too_old_does_not_count(script: Path, tmp_path: Path):
    done = run_script(script, bare_path(tmp_path / "bin", postgres="echo 'postgres (PostgreSQL) 14.11'"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "the tests need a PostgreSQL server, version 15 or newer" in done.stderr
