"""``make_follower``: the follower of a process that watches files, if its ledger is shared."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from addon.fleet.machines import describe_machine
from addon.settings.settings import Settings
from addon.settings.watcher import Watcher
from addon.store.backends import find_ledger_url

if TYPE_CHECKING:
    from addon.fleet.follower import Follower


def make_follower(
    settings: Callable[[], Settings], watcher: Watcher | None, count_calls: Callable[[], int]
) -> "Follower | None":
    """Return the follower of ``[ledger] url``, None for a ledger of one machine or a process without files.

    ``count_calls`` returns how many calls are in flight. Raises ``StoreUnavailable``.
    """
    conf = settings().conf
    if watcher is None or not conf.ledger.url:
        return None
    # A gateway of one machine needs no driver of PostgreSQL.
    from addon.fleet.follower import Follower

    return Follower(
        conf,
        find_ledger_url(conf.ledger.url, conf),
        lambda: describe_machine(settings(), watcher.built_from, watcher.files.texts, count_calls()),
        watcher.wake,
    )
