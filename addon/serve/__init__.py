"""The processes of ``tollgate serve``: a single server, or a supervisor with its workers."""

from addon.runtime.deferred_imports import defer_imports

# Every module of this package is imported after this one, and before the process imports mitmproxy.
defer_imports()
