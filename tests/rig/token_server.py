"""A token server on loopback, and the fixtures of access tokens."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from pydantic import SecretStr
from tornado.httputil import HTTPServerRequest

from addon.dialects.endpoint import auth_headers
from addon.runtime.local_http import send_answer
from policies.family import Family
from policies.model import Model
from policies.prices import Prices
from policies.provider import Provider
from policies.route import Target

PRICES = Prices(1, 1, 1)


def target(secret: str, auth: Any = "google_service_account") -> Target:
    """Return a target with an account."""
    provider = Provider("VERTEX", "https://vertex.example/v1", "openai", (SecretStr(secret),), auth=auth)
    model = Model("slug", provider, "google/gemini", Family("plain"), PRICES, PRICES, 100, False, True)
    return Target(model, "payg", SecretStr(secret))


@dataclass
class TokenServer:
    """A token server that answers with ``status`` and ``answer`` when ``may_answer`` is set.

    In ``answer``, ``{n}`` is the number of the request and ``{assertion}`` is what was signed.
    """

    status: int = 200
    answer: dict[str, Any] = field(
        default_factory=lambda: {"access_token": "ya29.token-{n}", "expires_in": 3599}
    )
    asked: list[dict[str, Any]] = field(default_factory=list)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def handle(self, request: HTTPServerRequest) -> None:
        """Answer a request, when it may be answered."""
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        self.asked.append(form)
        number = len(self.asked)
        self.was_asked.set()
        await self.may_answer.wait()
        text = json.dumps(self.answer).replace("{n}", str(number)).replace("{assertion}", form["assertion"])
        await send_answer(request, self.status, "application/json", text.encode())


async def let_others_run() -> None:
    """Let other tasks run for one turn."""
    await asyncio.sleep(0)


def bearer(authorized: Target) -> str:
    """Return the header's value that a target is sent with."""
    return dict(auth_headers(authorized))["authorization"]
