"""Many callers of one connection, of whom half give up."""

import asyncio
import random
from collections.abc import Awaitable, Callable


async def assert_no_answer_goes_to_another(ask: Callable[[str], Awaitable[str]]) -> None:
    """Ask for echoes, 50 at once. Cancel half of the callers at different moments; each other one gets its own."""
    dice = random.Random(1)

    async def echo(text: str) -> bool:
        return await ask(text) == text

    for turn in range(60):
        calls = [asyncio.create_task(echo(f"{turn}-{number}")) for number in range(50)]
        for _ in range(dice.randint(0, 12)):
            await asyncio.sleep(0)
        for call in dice.sample(calls, 25):
            call.cancel()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert {answer for answer in answers if not isinstance(answer, asyncio.CancelledError)} <= {True}
