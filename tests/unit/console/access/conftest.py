"""The fixtures of an admin port in this process."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from rig.admin_port import Port, opened


@pytest_asyncio.fixture
async def free(tmp_path: Path) -> AsyncIterator[Port]:
    """A console without a password."""
    async with opened(tmp_path, "") as port:
        yield port


@pytest_asyncio.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Port]:
    """A console with a password."""
    async with opened(tmp_path, 'console_password = "file:phrase"') as port:
        yield port
