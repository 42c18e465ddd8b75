"""mitmproxy's options, set so that it serves as a gateway.

Decided from the settings, what mitmproxy was given, and ``SSL_CERT_FILE``.
"""

import os
from typing import Any

from mitmproxy.options import Options

from addon.settings import Settings

MODE = "reverse:http://tollgate.invalid:1"
"""mitmproxy wants a target; this one does not exist. Where a call goes is said for each call, or it goes nowhere."""


def mitmproxy_options(settings: Settings, options: Options) -> dict[str, Any]:
    """Return the options to set. A listen address or a mode that was given to mitmproxy itself is left alone."""
    upstream = settings.conf.upstream
    # mitmproxy closes a connection on which nothing moves for this long: later than any timeout of ours.
    timeouts_s = (upstream.first_byte_timeout_s, upstream.idle_timeout_s, upstream.whole_timeout_s)
    patience_s = int(max(*timeouts_s, 600)) + 60
    chosen: dict[str, Any] = {
        # The gateway says for each call where it goes; nothing is connected before.
        "connection_strategy": "lazy",
        "tcp_timeout": patience_s,
        "validate_inbound_headers": True,
        # Clients on public addresses are what a gateway is for.
        "block_global": False,
        # No page of mitmproxy's own on a magic host.
        "onboarding": False,
        "rawtcp": False,
        "websocket": False,
    }
    if options.listen_port is None and not options.has_changed("mode"):
        chosen["mode"] = [MODE]
        chosen["listen_port"] = settings.conf.listen.port
        chosen["listen_host"] = options.listen_host or settings.conf.listen.host
    if os.environ.get("SSL_CERT_FILE") and not options.ssl_verify_upstream_trusted_ca:
        chosen["ssl_verify_upstream_trusted_ca"] = os.environ["SSL_CERT_FILE"]
    return {name: value for name, value in chosen.items() if name in options}
