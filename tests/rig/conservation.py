"""What calls take of the services of this process is given back: the checks at the end of a test without a gateway."""

from collections.abc import Callable, Collection

from addon.calls.dependencies import Dependencies
from addon.gateway.in_use import Process, find_left
from addon.upstream.pool import Pool
from addon.wire.connection import Connection
from addon.wire.http2 import Http2Connection


def assert_given_back(
    deps: Dependencies, connections: Collection[Connection] = (), held: Callable[[], int] = lambda: 0
) -> None:
    """Fail, and name what is left, unless the calls of a process have given back all that they took."""
    left = find_left(Process(deps, lambda: connections, held))
    assert not left, f"not given back: {left}"


def assert_pool_empty(pool: Pool) -> None:
    """Fail unless a pool that was closed has no connection, and no place of one is taken."""
    stats = pool.stats()
    left = {name: count for name in stats.__slots__ if (count := getattr(stats, name))}
    assert not left.keys() - {"opened", "reused"}, f"not given back: {left}"


def assert_windows_open(connection: Connection) -> None:
    """Fail unless the client may send as much as at first, if it has no request and neither side has closed."""
    if isinstance(connection, Http2Connection) and not (connection.stream_count or connection._is_finished):
        used = connection.used_window_bytes
        assert used == (0, 0), (
            f"not given back: {used} bytes of the windows of the connection and its streams"
        )
