"""The exceptions that keep a gateway from starting."""

from mitmproxy.exceptions import OptionsError

from addon.serve.running_gateway import TakeoverFailed
from addon.serve.worker_status import WorkerFailed
from addon.settings.errors import SettingsError
from addon.store.protocol import StoreUnavailable

START_FAULTS = (SettingsError, OSError, OptionsError, StoreUnavailable, TakeoverFailed, WorkerFailed)
"""The message of each says in one line what an operator has to change."""
