"""The task with pydantic-ai's defaults for a provider: ``openai`` (Responses) or ``anthropic``."""

import asyncio
import sys

from pydantic_ai import Agent
from tools import MODEL, PROMPT, read_note, write_copy


async def main() -> None:
    """Run the agent, streamed."""
    agent = Agent(f"{sys.argv[1]}:{MODEL}", tools=[read_note, write_copy])
    async with agent.iter(PROMPT) as run:
        async for node in run:
            if Agent.is_model_request_node(node):
                async with node.stream(run.ctx) as stream:
                    async for _ in stream:
                        pass
    print(run.result.output)


asyncio.run(main())
