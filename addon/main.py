"""The script that mitmproxy loads: ``mitmdump -s addon/main.py --set tollgate_conf=proxy.conf``."""

import logging
import sys
from pathlib import Path

from mitmproxy.addons.eventstore import CallbackLogger
from mitmproxy.addons.termlog import TermLogHandler

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from addon.gateway.addon import Gateway
from addon.telemetry.log_format import OURS, JsonFormatter, is_ours

_CONNECTION_LOGGER = "mitmproxy.proxy.server"
_HARMLESS = ("client connect", "client disconnect", "server connect ", "server disconnect ")
"""The beginnings of mitmproxy's messages about a connection that quote no bytes of a peer."""


def _may_be_displayed(record: logging.LogRecord) -> bool:
    is_harmless = record.name != _CONNECTION_LOGGER or str(record.msg).startswith(_HARMLESS)
    return is_harmless and not is_ours(record.name)


def _separate_logs() -> None:
    """Write our lines as ``serve`` does, and keep them out of mitmproxy's displays, which mask nothing."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    ours = logging.getLogger(OURS)
    ours.setLevel(logging.INFO)
    ours.handlers = [handler]
    for shown in logging.getLogger().handlers:
        if isinstance(shown, TermLogHandler | CallbackLogger):
            shown.addFilter(_may_be_displayed)


_separate_logs()
addons = [Gateway()]
