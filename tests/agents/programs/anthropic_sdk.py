"""The task with Anthropic's SDK for Python, and all its helpers for messages."""

import anthropic
from pydantic import BaseModel
from tools import KEY, MODEL, NO_ARGUMENTS, ONE_TEXT, PROMPT, TITLE, URL, read_note, run_tool, write_copy


class Titled(BaseModel):
    title: str


TOOLS = [
    {"name": "read_note", "description": "Read note.txt.", "input_schema": NO_ARGUMENTS},
    {"name": "write_copy", "description": "Write copy.txt.", "input_schema": ONE_TEXT},
]
client = anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0)
asked = [{"role": "user", "content": PROMPT}]

assert MODEL in {one.id for one in client.models.list()}
assert client.models.retrieve(MODEL).id == MODEL
assert client.messages.count_tokens(model=MODEL, messages=asked, tools=TOOLS).input_tokens > 0
whole = client.messages.create(model=MODEL, max_tokens=2000, messages=asked)
assert whole.model == MODEL and TITLE in whole.content[-1].text and whole.usage.output_tokens > 0
parsed = client.messages.parse(model=MODEL, max_tokens=2000, messages=asked, output_format=Titled)
assert parsed.parsed_output == Titled(title=TITLE)
streamed = client.messages.create(model=MODEL, max_tokens=2000, messages=asked, stream=True)
assert [event.type for event in streamed][-1] == "message_stop"

while True:
    with client.messages.stream(
        model=MODEL,
        max_tokens=8000,
        messages=asked,
        tools=TOOLS,
        system="Use tools.",
        thinking={"type": "adaptive"},
    ) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert any(block.type == "thinking" for block in message.content), message
    asked.append({"role": "assistant", "content": message.content})
    if message.stop_reason != "tool_use":
        break
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": run_tool(block.name, block.input)}
        for block in message.content
        if block.type == "tool_use"
    ]
    asked.append({"role": "user", "content": results})

runner = client.beta.messages.tool_runner(
    model=MODEL,
    max_tokens=2000,
    messages=[{"role": "user", "content": PROMPT}],
    tools=[anthropic.beta_tool(read_note), anthropic.beta_tool(write_copy)],
)
last = runner.until_done()
assert last.content[-1].text == text, last
print(text)
