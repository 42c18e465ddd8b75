"""``Dependencies``: what every call of one process works with, handed to it as arguments."""

from collections.abc import Callable
from dataclasses import dataclass

from addon.calls.in_flight import InFlightCalls
from addon.calls.public_catalog import PublicCatalog
from addon.calls.request_body import BodyBudget
from addon.calls.unrelayed_answers import UnrelayedAnswers
from addon.runtime.clock import Clock
from addon.settings.settings import Settings
from addon.store.protocol import Store
from addon.upstream.access_tokens import AccessTokens
from addon.upstream.platform_keys import PlatformKeys
from addon.upstream.pool import Pool


@dataclass(slots=True)
class Dependencies:
    """The deps of one process. ``settings`` and ``catalog`` are the latest good ones; ``new_id`` makes request ids."""

    settings: Settings
    catalog: PublicCatalog
    store: Store
    pool: Pool
    platform_keys: PlatformKeys
    access_tokens: AccessTokens
    in_flight: InFlightCalls
    unrelayed: UnrelayedAnswers
    bodies: BodyBudget
    clock: Clock
    new_id: Callable[[], str]
