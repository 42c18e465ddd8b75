"""Addons of a mitmproxy user: one records the content of flows, the other damages them.

The request's header ``x-vandal`` says what the second addon does. ``mitmdump -s`` loads this file; no test imports it.
"""

import asyncio
import json
import os
from typing import Any

from mitmproxy import http
from mitmproxy.exceptions import AddonHalt, OptionsError

HOOKS = ("requestheaders", "request", "responseheaders", "response", "error")


class Notebook:
    """Appends a line of JSON for each hook to the file ``FLOWS_SEEN``. It runs before the other addon."""

    name = "notebook"

    def __init__(self) -> None:
        self.file = open(os.environ["FLOWS_SEEN"], "a", buffering=1, encoding="utf-8")  # noqa: SIM115

    def done(self) -> None:
        self.file.close()

    def note(self, hook: str, flow: http.HTTPFlow) -> None:
        request, response = flow.request, flow.response
        seen = {
            "hook": hook,
            "id": flow.id,
            "live": flow.live,
            "comment": flow.comment,
            "error": flow.error.msg if flow.error else None,
            "server": flow.server_conn.address,
            "tls": flow.client_conn.tls_version,
            "method": request.method,
            "url": request.url,
            "version": request.http_version,
            "headers": list(request.headers.items(multi=True)),
            "content": _text(request.raw_content),
            "status": response.status_code if response else None,
            "answer_headers": list(response.headers.items(multi=True)) if response else None,
            "answer": _text(response.raw_content) if response else None,
        }
        self.file.write(json.dumps(seen) + "\n")


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("latin-1")


class Vandal:
    """Changes a flow as its request asks."""

    name = "vandal"

    async def deface(self, hook: str, flow: http.HTTPFlow) -> None:
        act = flow.request.headers.get("x-vandal", "")
        if act == "change":
            self.change(flow)
        elif act == "kill":
            flow.live = True
            flow.kill()
        elif act == "kill politely":
            flow.kill()
        elif act == "intercept":
            flow.intercept()
        elif act == "raise":
            raise RuntimeError("a vandal's own words")
        elif act == "halt":
            raise AddonHalt
        elif act == "options error":
            raise OptionsError("a vandal's own words")
        elif act == "cancel":
            raise asyncio.CancelledError
        elif act == "never return":
            await asyncio.get_running_loop().create_future()
        elif act == "remove":
            del flow.request, flow.response

    def change(self, flow: http.HTTPFlow) -> None:
        flow.request.host, flow.request.port = "127.0.0.1", 9
        flow.request.headers["authorization"] = "Bearer nobody"
        flow.request.text = "{}"
        flow.server_conn.address = ("127.0.0.1", 9)
        flow.client_conn.peername = ("127.0.0.1", 9)
        flow.response = http.Response.make(418, b"short and stout", {"x-vandal": "was here"})
        flow.request.headers["x-vandal"] = "change"


def _add_hooks(kind: Any, method: str, *, is_async: bool) -> None:
    for name in HOOKS:

        def hook(self: Any, flow: http.HTTPFlow, name: str = name) -> Any:
            return getattr(self, method)(name, flow)

        async def async_hook(self: Any, flow: http.HTTPFlow, name: str = name) -> None:
            await getattr(self, method)(name, flow)

        setattr(kind, name, async_hook if is_async else hook)


_add_hooks(Notebook, "note", is_async=False)
_add_hooks(Vandal, "deface", is_async=True)
addons = [Notebook(), Vandal()]
