"""Why a gateway does not start."""

from mitmproxy.exceptions import OptionsError

from addon.serve.worker_process import WorkerFailed
from addon.settings.errors import SettingsError
from addon.store.protocol import StoreUnavailable

START_FAULTS = (SettingsError, OSError, OptionsError, StoreUnavailable, WorkerFailed)
"""Each says in one line what an operator has to change."""
