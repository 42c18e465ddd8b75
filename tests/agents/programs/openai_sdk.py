"""The task with OpenAI's SDK for Python over Responses, and all its helpers for responses and chat."""

import json

import openai
from pydantic import BaseModel
from tools import KEY, MODEL, NO_ARGUMENTS, ONE_TEXT, PROMPT, TITLE, URL, run_tool


class Titled(BaseModel):
    title: str


client = openai.OpenAI(base_url=f"{URL}/openai/v1", api_key=KEY, max_retries=0)
functions = [
    {"name": "read_note", "description": "Read note.txt.", "parameters": NO_ARGUMENTS, "strict": True},
    {"name": "write_copy", "description": "Write copy.txt.", "parameters": ONE_TEXT, "strict": True},
]
tools = [{"type": "function", **one} for one in functions]
chat_tools = [{"type": "function", "function": one} for one in functions]
said = [{"role": "user", "content": PROMPT}]

assert MODEL in {one.id for one in client.models.list()}
assert client.models.retrieve(MODEL).id == MODEL
whole = client.responses.create(model=MODEL, input=PROMPT)
assert whole.model == MODEL and TITLE in whole.output_text and whole.usage.output_tokens > 0
parsed = client.responses.parse(model=MODEL, input=PROMPT, text_format=Titled)
assert parsed.output_parsed == Titled(title=TITLE)
kinds = [event.type for event in client.responses.create(model=MODEL, input=PROMPT, stream=True)]
assert kinds[0] == "response.created" and kinds[-1] == "response.completed"
completion = client.chat.completions.create(model=MODEL, messages=said)
assert completion.model == MODEL and TITLE in completion.choices[0].message.content
parsed_chat = client.chat.completions.parse(model=MODEL, messages=said, response_format=Titled)
assert parsed_chat.choices[0].message.parsed == Titled(title=TITLE)
with client.chat.completions.stream(model=MODEL, messages=said, tools=chat_tools) as stream:
    final = stream.get_final_completion()
assert final.choices[0].message.tool_calls[0].function.name == "read_note"

given = list(said)
while True:
    with client.responses.stream(
        model=MODEL,
        input=given,
        tools=tools,
        store=False,
        include=["reasoning.encrypted_content"],
        reasoning={"effort": "medium", "summary": "auto"},
    ) as stream:
        response = stream.get_final_response()
    assert response.output[0].type == "reasoning", response
    calls = [item for item in response.output if item.type == "function_call"]
    if not calls:
        break
    given += response.output
    for call in calls:
        output = run_tool(call.name, json.loads(call.arguments))
        given.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
print(response.output_text)
