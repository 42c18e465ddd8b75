"""mitmproxy's options, set so that it serves as a gateway, from the settings and what mitmproxy was given."""

from typing import Any

from mitmproxy.options import Options

from addon.settings.settings import Settings

MODE = "reverse:http://tollgate.invalid:1"
"""mitmproxy wants a target; this one does not exist. Where a call goes is said for each call, or it goes nowhere."""


def mitmproxy_options(settings: Settings, options: Options) -> dict[str, Any]:
    """Return the options to set. A listen address or a mode that was given to mitmproxy itself is left alone."""
    chosen: dict[str, Any] = {
        # The gateway says for each call where it goes; nothing is connected before.
        "connection_strategy": "lazy",
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
    return {name: value for name, value in chosen.items() if name in options}
