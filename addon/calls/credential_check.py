"""Checks of credentials that have ended, or that will: an ended one is refused, and operators see the use of both.

A client that uses an ended key learns no more than one with an unknown key. Source: docs/operating.md.
"""

import logging

from addon.calls.authentication import invalid_key_refusal
from addon.telemetry.metrics import Metrics
from policies.exchange import Exchange
from policies.model import Credential
from policies.utc_time import format_utc

log = logging.getLogger("tollgate.keys")

LOG_INTERVAL_S = 60.0
"""The shortest time between two lines of one event and key."""

MAX_KEYS = 10_000
"""The most keys whose last line is remembered. With more, all are forgotten, and each may have a line again."""


class CredentialChecker:
    """Checks the credentials that need it, and logs one line for each key and event in ``LOG_INTERVAL_S``."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._logged_s: dict[tuple[str, str, str], float] = {}

    def check(self, exchange: Exchange, credential: Credential) -> None:
        """Log and count the use of a previous secret. Raises Refusal ``invalid_api_key`` for an ended credential."""
        reason = credential.why_refused(exchange.created_at)
        if reason is not None:
            if self._is_due("key refused", exchange):
                _log_refused(exchange, reason)
            raise invalid_key_refusal()
        if credential.is_previous:
            self._metrics.count_previous_secret(exchange.created_at)
            if self._is_due("previous secret used", exchange):
                _log_previous(exchange)

    def _is_due(self, event: str, exchange: Exchange) -> bool:
        name, now_s = (event, exchange.workspace.id, exchange.key.id), exchange.started_s
        last_s = self._logged_s.get(name)
        if last_s is not None and now_s < last_s + LOG_INTERVAL_S:
            return False
        if len(self._logged_s) >= MAX_KEYS:
            self._logged_s.clear()
        self._logged_s[name] = now_s
        return True


def _log_refused(exchange: Exchange, reason: str) -> None:
    fields = {
        "event": "key refused",
        "id": exchange.id,
        "workspace": exchange.workspace.id,
        "key_id": exchange.key.id,
        "reason": reason,
    }
    log.info("a key is refused: it %s", reason, extra=fields)


def _log_previous(exchange: Exchange) -> None:
    until = exchange.key.previous_until
    fields = {
        "event": "previous secret used",
        "id": exchange.id,
        "workspace": exchange.workspace.id,
        "key_id": exchange.key.id,
        "until": None if until is None else format_utc(until),
    }
    log.warning("a call uses the previous secret of a rotated key", extra=fields)
