"""A client of the sandbox: the official SDK and plain HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import openai

from addon.sandbox.request import CHAT_MODEL
from addon.sandbox.server import Sandbox
from rig.bounds import BOUND_S


def make_tool(name: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


WEATHER = make_tool("get_weather", city={"type": "string"}, days={"type": "integer", "minimum": 3})
CLOCK = make_tool("get_time", zone={"enum": ["UTC", "CET"]})


def user_messages(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


class SandboxClient:
    """A client of one sandbox. It asks with plain HTTP or with the SDK."""

    def __init__(self, server: Sandbox, base_url: str) -> None:
        self.server = server
        self.base_url = base_url
        self.key = server.key.get_secret_value()
        headers = {"Authorization": f"Bearer {self.key}"}
        self.http = httpx.AsyncClient(headers=headers, timeout=BOUND_S, trust_env=False, verify=False)
        self.sdk = openai.AsyncOpenAI(
            api_key=self.key, base_url=base_url, max_retries=0, http_client=self.http
        )

    async def post(self, text: str = "Hello", **changes: Any) -> httpx.Response:
        body = {"model": CHAT_MODEL, "messages": user_messages(text)} | changes
        return await self.http.post(f"{self.base_url}/chat/completions", json=body)

    async def whole(self, text: str = "Hello", **changes: Any) -> Any:
        """Return the SDK's completion."""
        body = {"model": CHAT_MODEL, "messages": user_messages(text)} | changes
        return await self.sdk.chat.completions.create(**body)

    async def chunks(self, text: str = "Hello", **changes: Any) -> list[Any]:
        """Return the SDK's chunks."""
        body = {"model": CHAT_MODEL, "messages": user_messages(text), "stream": True} | changes
        return [chunk async for chunk in await self.sdk.chat.completions.create(**body)]


@asynccontextmanager
async def start_sandbox(server: Sandbox) -> AsyncIterator[SandboxClient]:
    client = SandboxClient(server, await server.start())
    try:
        yield client
    finally:
        await client.sdk.close()
        await server.stop()


def event_data(body: str) -> list[str]:
    """Return the data of each event."""
    return [event.removeprefix("data: ") for event in body.split("\n\n") if event]


def joined_text(chunks: list[Any], field: str = "content") -> str:
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    return "".join(getattr(delta, field, None) or "" for delta in deltas)
