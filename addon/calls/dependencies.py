"""``Dependencies``: the services of one process that its calls use, passed to each call as an argument."""

from collections.abc import Callable
from dataclasses import dataclass

from addon.calls.in_flight import InFlightCalls
from addon.calls.public_catalog import PublicCatalog
from addon.calls.request_body import BodyBudget
from addon.calls.unrelayed_answers import UnrelayedAnswers
from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.settings.settings import Settings
from addon.store.protocol import Store
from addon.telemetry.metrics import Metrics
from addon.upstream.access_tokens import AccessTokens
from addon.upstream.connector import SocketConnector
from addon.upstream.place_speeds import PlaceSpeeds
from addon.upstream.platform_keys import PlatformKeys
from addon.upstream.pool import Pool


@dataclass(slots=True)
class Dependencies:
    """The services of one process. ``settings`` and ``catalog`` are the last ones that loaded.

    ``new_id`` returns a new request id.
    """

    settings: Settings
    catalog: PublicCatalog
    store: Store
    pool: Pool
    platform_keys: PlatformKeys
    speeds: PlaceSpeeds
    access_tokens: AccessTokens
    in_flight: InFlightCalls
    unrelayed: UnrelayedAnswers
    bodies: BodyBudget
    clock: Clock
    new_id: Callable[[], str]


def make_dependencies(
    settings: Settings,
    store: Store,
    metrics: Metrics,
    new_id: Callable[[], str],
    clock: Clock = SYSTEM_CLOCK,
) -> Dependencies:
    """Return the services of one process over ``store``. Its keys are not known before ``use_settings``."""
    bodies, pool, speeds = BodyBudget(), Pool(SocketConnector()), PlaceSpeeds(clock)
    platform_keys = PlatformKeys(metrics, clock)
    return Dependencies(
        settings=settings,
        catalog=PublicCatalog(settings.models),
        store=store,
        pool=pool,
        platform_keys=platform_keys,
        speeds=speeds,
        access_tokens=AccessTokens(pool, clock=clock),
        in_flight=InFlightCalls(store, platform_keys, speeds, metrics, bodies, clock),
        unrelayed=UnrelayedAnswers(),
        bodies=bodies,
        clock=clock,
        new_id=new_id,
    )
