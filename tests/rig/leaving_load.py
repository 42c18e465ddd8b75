"""Many calls at once in the three APIs, streamed and whole. Some clients leave before the end."""

import asyncio
import random
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from rig.bounds import BOUND_S

PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
MOST_TOKENS = 500
"""What a call may use at most, prompt and answer."""


@dataclass(frozen=True)
class Asked:
    """One call: its client leaves after ``leaves_after`` pieces of its answer, 0 for 30 ms, None for never."""

    name: str
    workspace: str
    user: str
    api: str
    cap: int
    words: int
    streams: bool
    leaves_after: int | None

    def body(self, model: str) -> dict[str, Any]:
        """Return the request in its API."""
        said = f"{self.name} " + "word " * self.words
        messages = [{"role": "user", "content": said}]
        fields: dict[str, Any] = {
            "chat": {"messages": messages, "max_tokens": self.cap, "user": self.user},
            "messages": {"messages": messages, "max_tokens": self.cap, "metadata": {"user_id": self.user}},
            "responses": {"input": said, "max_output_tokens": self.cap, "user": self.user},
        }[self.api]
        return {"model": model, "stream": self.streams, **fields}


def make_calls(seed: int, count: int, workspaces: Sequence[str], apis: Sequence[str]) -> list[Asked]:
    """Return calls of all workspaces, each with one of four users."""
    dice = random.Random(seed)
    return [
        Asked(
            name=f"call-{seed}-{number}",
            workspace=workspaces[number % len(workspaces)],
            user=f"user-{dice.randrange(4)}",
            api=dice.choice(apis),
            cap=dice.randint(50, 400),
            words=dice.randint(1, 100),
            streams=dice.random() < 0.5,
            leaves_after=dice.choice([0, 1, 2]) if dice.random() < 0.12 else None,
        )
        for number in range(count)
    ]


def run_leaving(
    url: str, keys: Mapping[str, str], model: str, calls: Sequence[Asked], at_once: int
) -> dict[str, int | None]:
    """Make all calls. Return the status of each by its name, None for those whose client got none."""
    return asyncio.run(_run(url, keys, model, list(calls), at_once))


async def _run(
    url: str, keys: Mapping[str, str], model: str, waiting: list[Asked], at_once: int
) -> dict[str, int | None]:
    statuses: dict[str, int | None] = {}
    no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # Loading certificates takes time.

    async def caller() -> None:
        # A client of its own: a shared pool looks at all its connections for each call, which takes seconds of CPU.
        async with httpx.AsyncClient(base_url=url, timeout=BOUND_S, trust_env=False, verify=no_tls) as client:
            while waiting:
                call = waiting.pop()
                statuses[call.name] = await _call(client, keys[call.workspace], model, call)

    await asyncio.gather(*(caller() for _ in range(at_once)))
    return statuses


async def _call(client: httpx.AsyncClient, key: str, model: str, call: Asked) -> int | None:
    headers = {"authorization": f"Bearer {key}", "x-client-request-id": call.name}
    body, status = call.body(model), None
    try:
        async with (
            asyncio.timeout(0.03 if call.leaves_after == 0 else None),
            client.stream("POST", PATHS[call.api], json=body, headers=headers) as answer,
        ):
            status = answer.status_code
            pieces = 0
            async for _ in answer.aiter_raw():
                pieces += 1
                if pieces == call.leaves_after:
                    break
    except (TimeoutError, httpx.TransportError):
        pass
    return status
