"""The options with which mitmproxy serves as a gateway."""

from typing import Any

from mitmproxy.options import Options

from addon.settings.settings import Settings

MODE = "reverse:http://tollgate.invalid:1"
"""mitmproxy needs a target. This one does not exist, so a request can only go where its call sends it."""


def mitmproxy_options(settings: Settings, options: Options) -> dict[str, Any]:
    """Return the options to set. A listen address or a mode that mitmproxy itself was given stays."""
    chosen: dict[str, Any] = {
        # Each call chooses its provider, so nothing may be connected before.
        "connection_strategy": "lazy",
        "validate_inbound_headers": True,
        # A gateway serves clients on public addresses.
        "block_global": False,
        # mitmproxy must serve no page of its own on its magic host.
        "onboarding": False,
        "rawtcp": False,
        "websocket": False,
    }
    if options.listen_port is None and not options.has_changed("mode"):
        chosen["mode"] = [MODE]
        chosen["listen_port"] = settings.conf.listen.port
        chosen["listen_host"] = options.listen_host or settings.conf.listen.host
    return {name: value for name, value in chosen.items() if name in options}
