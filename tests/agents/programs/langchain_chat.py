"""The task with LangChain, with reasoning: OpenAI's class (Responses) or Anthropic's."""

import sys

from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from tools import KEY, MODEL, PROMPT, URL, read_note, write_copy

if sys.argv[1] == "openai":
    reasoning = {"effort": "medium", "summary": "auto"}
    model = ChatOpenAI(model=MODEL, base_url=f"{URL}/v1", api_key=KEY, reasoning=reasoning, max_retries=0)
else:
    model = ChatAnthropic(
        model=MODEL, base_url=URL, api_key=KEY, max_tokens=8000, thinking={"type": "adaptive"}, max_retries=0
    )
tools = {one.__name__: tool(one) for one in (read_note, write_copy)}
bound = model.bind_tools(list(tools.values()))
said = [("user", PROMPT)]
while True:
    answer = None
    for piece in bound.stream(said):
        answer = piece if answer is None else answer + piece
    said.append(answer)
    if not answer.tool_calls:
        break
    said += [tools[call["name"]].invoke(call) for call in answer.tool_calls]
print(answer.text)
