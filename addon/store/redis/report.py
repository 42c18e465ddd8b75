"""What Redis counts, for reports: the counterpart of ``report.counted_in``, which reads the ledger's own file."""

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import SecretStr
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from addon.store import StoreUnavailable
from addon.store.ledger.report import ReadUsed
from addon.store.redis.keys import STATE, keys_of
from addon.store.redis.state import EMPTY, OTHER
from policies.limits import Limit
from policies.spend import Used

_BOUND_S = 2.0
_FIELDS = ("spent", "requests", "held", "in_flight")


@contextmanager
def counted_in_redis(url: SecretStr, state: str | None = None) -> Iterator[ReadUsed]:
    """Give what reads the counters that Redis keeps. It, and this, raise ``StoreUnavailable``.

    ``state`` is the one that a ledger works with, if it does: what another one counts is not its own, nor is nothing.
    """
    try:
        redis = Redis.from_url(
            url.get_secret_value(),
            socket_timeout=_BOUND_S,
            socket_connect_timeout=_BOUND_S,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            decode_responses=True,
        )
    except ValueError:
        raise StoreUnavailable("state.redis_url can't be understood") from None

    def read_used(limit: Limit, workspace: str, key_id: str) -> Used:  # noqa: ARG001  (the counter names the key)
        with _translated():
            found = redis.hmget(keys_of(workspace).counter(limit.counter), _FIELDS)
        return Used(*(int(value or 0) for value in found))

    with redis:
        with _translated():
            found = redis.get(STATE)
        if state is not None and found != state:
            raise StoreUnavailable(OTHER if found else EMPTY)
        yield read_used


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError) as error:
        raise StoreUnavailable(f"Redis can't be asked: {type(error).__name__}") from error
