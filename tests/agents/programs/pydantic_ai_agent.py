"""The task with pydantic-ai's defaults for a provider: ``openai`` (Responses) or ``anthropic``."""

import asyncio
import sys

from pydantic_ai import Agent
from tools import MODEL, PROMPT, read_note, write_copy


async def main() -> None:
    """Run the agent, streamed."""
    agent = Agent(f"{sys.argv[1]}:{MODEL}", tools=[read_note, write_copy])
    async with agent.run_stream(PROMPT) as result:
        print(await result.get_output())


asyncio.run(main())
