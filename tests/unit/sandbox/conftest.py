"""A running sandbox with its client."""

from collections.abc import AsyncIterator

import pytest_asyncio
from rig.sandbox import SandboxClient, start_sandbox

from addon.sandbox.server import Sandbox


@pytest_asyncio.fixture
async def sandbox() -> AsyncIterator[SandboxClient]:
    async with start_sandbox(Sandbox()) as client:
        yield client
