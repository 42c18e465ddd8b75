"""The Redis of the tests is real, and has the features that tests of broken stores need."""

import os
import shutil
from pathlib import Path

import pytest
import redis
from rig.bare_path import bare_path, copy_script, run_script
from rig.redis_fixtures import StartRedis
from rig.redis_server import NO_RETRY, RedisServer


def test_the_server_is_redis_7_or_newer(redis_server: RedisServer):
    version = redis_server.command("INFO", "server")["redis_version"]
    assert int(version.split(".")[0]) >= 7
    assert redis_server.command("EVAL", "return redis.call('TIME')[1] + ARGV[1]", 0, 1) > 1_700_000_000


def test_each_test_starts_with_an_empty_server(redis_server: RedisServer, redis_url: str):
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        assert client.dbsize() == 0
        client.set("left", "behind")
    assert redis_server.command("GET", "left") == "behind"
    redis_server.flush()
    assert redis_server.command("DBSIZE") == 0


def test_each_server_has_its_own_process_and_port(start_redis: StartRedis):
    one, other = start_redis(), start_redis()
    one.command("SET", "name", "one")
    assert other.command("GET", "name") is None
    assert one.pid != other.pid and one.port != other.port


def test_a_stopped_server_is_gone_and_starts_again_empty_on_the_same_port(start_redis: StartRedis):
    server = start_redis()
    server.command("SET", "name", "value")
    server.stop()
    with pytest.raises(redis.ConnectionError):
        server.command("PING")
    server.start()
    assert server.command("GET", "name") is None


@pytest.mark.parametrize("end", [RedisServer.stop, RedisServer.kill])
def test_an_append_only_server_keeps_acknowledged_writes(start_redis: StartRedis, end):
    server = start_redis(appendonly=True)
    server.command("SET", "name", "value")
    end(server)
    server.start()
    assert server.command("GET", "name") == "value"


def test_a_frozen_server_takes_connections_and_answers_once_it_is_thawed(start_redis: StartRedis):
    server = start_redis()
    with redis.Redis.from_url(server.url, socket_timeout=0.2, retry=NO_RETRY) as client:
        client.set("name", "value")
        server.freeze()
        with pytest.raises(redis.TimeoutError):
            client.get("name")
        server.thaw()
        assert server.command("GET", "name") == "value"


def test_a_frozen_server_can_be_stopped_and_another_killed(start_redis: StartRedis):
    for end in (RedisServer.stop, RedisServer.kill):
        server = start_redis()
        pid = server.pid
        server.freeze()
        end(server)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_nothing_is_left_of_a_server_when_its_block_ends(start_redis: StartRedis):
    server = start_redis()
    with RedisServer(server._program) as inner:
        pid, folder = inner.pid, Path(inner._folder.name)
        assert (folder / "redis.log").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not folder.exists()


def test_a_full_server_refuses_writes(start_redis: StartRedis):
    server = start_redis(maxmemory="1mb")
    server.command("EVAL", "for n = 1, 1000 do redis.call('SET', n, ('x'):rep(10000)) end", 0)
    with pytest.raises(redis.OutOfMemoryError):
        server.command("SET", "one", "more")
    assert server.command("PING")


def test_a_server_with_a_password_requires_it(start_redis: StartRedis):
    server = start_redis(password="only-for-this-test")
    assert server.command("PING")
    with (
        redis.Redis(host="127.0.0.1", port=server.port, retry=NO_RETRY) as stranger,
        pytest.raises(redis.AuthenticationError),
    ):
        stranger.ping()


def test_the_error_of_a_server_that_does_not_start_has_its_output(start_redis: StartRedis):
    with pytest.raises(AssertionError, match=r"(?s)it ended before it answered; its log:.*maxmemory"):
        start_redis(maxmemory="much")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Return a project that has only the script."""
    return copy_script(tmp_path, "install_redis.sh")


@pytest.mark.parametrize(
    ("name", "says"),
    [("redis-server", "Redis server v=7.0.15 sha=0"), ("valkey-server", "Valkey server v=9.1.2 sha=0")],
)
def test_a_server_on_path_is_used_and_nothing_is_fetched(script: Path, tmp_path: Path, name: str, says: str):
    path = bare_path(tmp_path / "bin", **{name: f"echo '{says}'"})
    done = run_script(script, path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{path}/{name}\n", "")
    assert not (script.parents[1] / ".redis").exists()


@pytest.mark.parametrize("says", ["echo 'Redis server v=6.0.16 sha=0'", "exit 127"])
def test_a_server_that_is_too_old_or_broken_does_not_count(script: Path, tmp_path: Path, says: str):
    done = run_script(script, bare_path(tmp_path / "bin", redis_server=says))
    assert (done.returncode, done.stdout) == (1, "")
    assert "the tests need a Redis server, version 7 or newer" in done.stderr


def test_when_apt_fails_its_message_is_shown_and_nothing_is_left(script: Path, tmp_path: Path):
    path = bare_path(
        tmp_path / "bin",
        apt_get="echo 'E: the network is unreachable' >&2; exit 100",
        dpkg="exit 1",
        **{
            tool: f'exec {shutil.which(tool)} "$@"'
            for tool in ("mkdir", "mktemp", "tail", "rm", "id", "flock")
        },
    )
    done = run_script(script, path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "E: the network is unreachable" in done.stderr
    assert [left.name for left in (script.parents[1] / ".redis").iterdir()] == ["lock"]
