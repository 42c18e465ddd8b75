"""The task with OpenAI's Agents SDK for Python as it is by default: over Responses."""

import asyncio

import agents
import openai
from tools import KEY, MODEL, PROMPT, URL, read_note, write_copy


async def main() -> None:
    """Run the agent, streamed."""
    client = openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0)
    agents.set_default_openai_client(client, use_for_tracing=False)
    agent = agents.Agent(
        name="copier",
        model=MODEL,
        tools=[agents.function_tool(read_note), agents.function_tool(write_copy)],
        model_settings=agents.ModelSettings(reasoning={"effort": "medium", "summary": "auto"}),
    )
    result = agents.Runner.run_streamed(agent, PROMPT)
    async for _ in result.stream_events():
        pass
    print(result.final_output)


asyncio.run(main())
