"""The reasons of recorded failures, written by hand: the wrong parameter, and the proof that it is not sent."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

type Body = Mapping[str, Any]

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


def ask(**fields: Any) -> Body:
    """Return a chat request that asks the same as a native one."""
    return {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4_096} | fields


def schema_of(**number: Any) -> Body:
    schema = {"type": "object", "properties": {"age": {"type": "integer", **number}}, "required": ["age"]}
    described = {"name": "person", "schema": schema | {"additionalProperties": False}}
    return {"type": "json_schema", "json_schema": described}


@dataclass(frozen=True)
class Fault:
    """A parameter that a provider refused. ``asked`` is the same chat request, or None for the recorded one.

    Either the sent body is ``sound``, or the gateway refuses the client's body with the name in ``refused``.
    """

    parameter: str
    sound: Callable[[Body], bool] | None = None
    refused: str | None = None
    asked: Body | None = None


def lacks(*names: str) -> Callable[[Body], bool]:
    """Return a check that a body has none of ``names`` at any depth."""
    return lambda body: not any(f'"{name}"' in json.dumps(body) for name in names)


FAULTS: dict[str, Fault] = {
    # ── Anthropic ──
    "anthropic-msg-0f862f39bbe160a4": Fault(
        "output_config.effort",
        lambda body: body["output_config"]["effort"] in ("high", "low", "max", "medium"),
        asked=ask(reasoning_effort="xhigh"),
    ),
    "anthropic-msg-1a8658d923f9aaf6": Fault("tools.0.input_schema", refused="tools.0.function.parameters"),
    "anthropic-msg-31ab924aba011331": Fault(
        "thinking.budget_tokens",
        lambda body: body.get("thinking", {}).get("budget_tokens", 0) < body["max_tokens"],
        asked=ask(reasoning_effort="high", tools=[TOOL]),
    ),
    "anthropic-msg-4e2a44c5a0f89f78": Fault(
        "messages.2.content.1.source.type",
        refused="messages.0.content.0",
        asked=ask(messages=[{"role": "user", "content": [{"type": "image_file", "file_id": "file_1"}]}]),
    ),
    "anthropic-msg-f2afbbd13f3be11b": Fault(
        "messages.2.content.1.source.type",
        refused="messages.0.content.0",
        asked=ask(messages=[{"role": "user", "content": [{"type": "file", "file": {"file_id": "file_1"}}]}]),
    ),
    "anthropic-msg-8d383faa650dc97c": Fault(
        "output_format.schema", lacks("minimum"), asked=ask(response_format=schema_of(minimum=1))
    ),
    "anthropic-msg-9aee4426aece2a5b": Fault("temperature", lambda body: body["temperature"] == 0),
    # ── Gemini ──
    "google-gem-019d017a63f4c5f9": Fault(
        "generationConfig.presencePenalty", lacks("presencePenalty", "frequencyPenalty")
    ),
    "google-gem-7ddfd66292fca686": Fault(
        "generationConfig.presencePenalty",
        lacks("presencePenalty", "frequencyPenalty"),
        asked=ask(presence_penalty=0.5, frequency_penalty=0.5),
    ),
    "google-gem-a8cb43c8250ad6c4": Fault(
        "generationConfig.response_format",
        lambda body: (
            lacks("response_format", "response_schema")(body)
            and body["generationConfig"]["responseMimeType"] == "application/json"
        ),
        asked=ask(response_format={"type": "json_object"}),
    ),
    "google-gem-bc88ae3cbac97edb": Fault(
        "contents.0.parts.1.mediaResolution",
        lacks("mediaResolution", "media_resolution"),
        asked=ask(
            messages=[
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "image_url",
                            "image_url": {"url": "data:image/png;base64,AAAA", "media_resolution": "low"},
                            "media_resolution": "low",
                        }
                    ],
                }
            ]
        ),
    ),
    "vertex-gem-22dc91a440f50568": Fault(
        "contents.0.role",
        refused="messages.0.role",
        asked=ask(messages=[{"role": "invalid_role", "content": "x"}]),
    ),
    # ── The chat shape ──
    "azure_openai-chat-1b83f29dc1aa0116": Fault("tool_choice", refused="tool_choice"),
    "deepseek-chat-042c6455fcb9deb7": Fault(
        "tool_choice",
        lambda body: body["tool_choice"] == "required" and body["thinking"] == {"type": "disabled"},
    ),
    "doubleword-chat-75e7460ada94015b": Fault("temperature", lambda body: body["temperature"] == 2),
    "huggingface-chat-38d3463e6866865e": Fault("messages", refused="messages"),
    "hyperbolic-chat-ea9b85af301f285e": Fault("model", lambda body: body["model"] == "vendor-id"),
    "llamacpp-chat-1827b14349c61474": Fault("grammar", lacks("grammar", "json_schema")),
    "llamacpp-chat-2f98eb30f1366dc0": Fault("temperature", refused="temperature"),
    "mistral-chat-0d7e98ae4ab4dab3": Fault(
        "messages.1.content",
        lambda body: lacks("thinking", "reasoning_content")(body) and len(body["messages"]) == 3,
        asked=ask(
            messages=[
                {"role": "user", "content": "What is 6*7?"},
                {"role": "assistant", "content": "42", "reasoning_content": "6 multiplied by 7 equals 42."},
                {"role": "user", "content": "Now multiply that by 2."},
            ]
        ),
    ),
    "mistral-chat-0e0d7e92393d100c": Fault("messages.0.content", refused="messages.0.content"),
    "mistral-chat-1239c5b6e3f3c3dc": Fault(
        "messages.2.role",
        lambda body: [m["role"] for m in body["messages"]] == ["user", "assistant", "user", "user"],
    ),
    "mistral-chat-cd5dec1186a50210": Fault(
        "messages.2.role",
        lambda body: [m["role"] for m in body["messages"]] == ["user", "assistant", "user", "user"],
    ),
    "mistral-chat-1e9995150d8276b8": Fault(
        "reasoning_effort", lambda body: body["reasoning_effort"] in ("none", "high")
    ),
    "openai-chat-0e18c9816db62518": Fault("max_tokens", refused="max_tokens"),
    "openai-chat-0e8f7ff88e092dc9": Fault("messages.1.content.0.type", refused="messages.1.content.0.type"),
    "openai-chat-17e65e0020716ebd": Fault("max_tokens", lacks("max_tokens")),
    "openai-chat-1b320ec04d2db916": Fault("tools.0.type", refused="tools.0.type"),
    "openai-chat-1dc5f89f21d01eaa": Fault("messages", refused="messages"),
    "openai-chat-52c679a5482d01bc": Fault("temperature", lambda body: body["temperature"] == 2),
    "openai-chat-59e9babc1b7a12e6": Fault("messages.0.content", refused="messages.0.content"),
    "openai-chat-d6c4bb30c4a56dc2": Fault("max_tokens", lacks("max_tokens"), asked=ask()),
    "openrouter-chat-33438a7b50b99538": Fault("messages", refused="messages"),
}

BY_FAMILY = {
    *("output_config.effort", "generationConfig.presencePenalty", "tool_choice"),
    *("messages.2.role", "reasoning_effort", "max_tokens"),
}
"""Parameters that only the rule of a family drops. The contract's checks and the dialects handle all others."""

UNPREVENTED: dict[str, str] = {
    "anthropic-msg-bcb90194025c6f7e": "the client's own schema: too many optional parameters",
    "anthropic-msg-f9c9fb119f0dceab": "the conversation: it ends with an assistant message",
    "anthropic-msg-570b25eb04bca99c": "the conversation: a tool call without its result",
    "anthropic-msg-95c4170ef8d719b3": "the conversation: a tool result without its call",
    "anthropic-msg-f4146570e02827ca": "the content: a broken picture",
    "deepseek-chat-1f5419217d977224": "the content: a video, which cannot be left out",
    "google-gem-05f11c6a08a9e169": "the model: it speaks, and writes nothing",
    "google-gem-52f6f6081fd31f02": "another endpoint: embeddings",
    "google-gem-8d4d81dceb41ace1": "the recording has neither the request nor a reason",
    "groq-chat-39baef8df94f6fa0": "the model: it wrote text where a tool was forced",
    "groq-chat-5cdab4bb817c303a": "the model: it wrote text where a tool was forced",
    "groq-chat-7c6655724d6079d6": "the model: it wrote text where a tool was forced",
    "groq-chat-82c45db3c062558a": "the model: its arguments do not fit the schema",
    "groq-chat-a22a7e0f46a0df5b": "the model: its arguments do not fit the schema",
    "llamacpp-chat-4c446ffbdfab49c9": "the server was started without tools",
    "ollama-chat-4d11e977ee876500": "the content: a broken picture",
    "openai-chat-02949eb62bb1a49a": "the content: a broken picture",
    "openai-chat-291eeec0a0766303": "the client's own schema: not what strict asks for",
    "openai-chat-31ec6949202995d5": "the conversation: a function's result without the function's name",
    "openai-chat-3928e2afb511c775": "the model takes no tools, and tools are never dropped",
    "openai-chat-5579faaded5c20f3": "the content: a picture that is not there",
    "openai-chat-9f346ca559dd9a89": "the conversation: arguments of a call that are no JSON",
    "openai-chat-a5ac768e7272d8ef": "another endpoint: completions",
    "openai-chat-b94bd0b597e0c366": "the client's own schema: it has no name",
    "openai-chat-e07960a6673a317d": "the client's own schema: not what strict asks for",
    "openrouter-chat-0913a4ac4f32d826": "the model is OpenAI's: one of OpenRouter's needs a family of its own for it",
    "openrouter-chat-0de550ddd523d218": "the conversation: a tool result without its call",
    "openrouter-chat-1b92a0f81117e5de": "the cap of 10 is too low for the model, and no cap is raised",
    "openrouter-chat-3540a22846e7bcd2": "the model: it answers to sound alone",
    "together-chat-f1cfd3f903db384e": "the content: a broken picture",
    "vertex-gem-1f8d0ee5643fad74": "cached content, whose name the gateway does not send",
    "vertex-gem-9f69bfa636b3d114": "cached content, whose name the gateway does not send",
    "vertex-gem-acc05bb3cc504e43": "the content: a broken picture",
    "vertex-gem-d22a70d6b9f5c321": "the place from which the call came",
}
"""Errors that no family can prevent: the content is wrong, not a parameter."""

NO_PARAMETER: tuple[tuple[str, range, str], ...] = (
    ("the key", range(401, 402), ""),
    ("the key or its rights", range(403, 404), ""),
    ("the key", range(400, 401), r"API key not valid|Incorrect API key"),
    ("money", range(402, 403), ""),
    ("money", range(400, 401), r"credit balance is too low"),
    ("the rate", range(429, 430), ""),
    ("no such model", range(404, 405), ""),
    ("no such model", range(400, 401), r"not a valid model ID|decommissioned|Unknown model|unknown_model"),
    (
        "the length of the prompt",
        range(400, 401),
        r"too long|too many tokens|maximum (context|prompt) length|exceeds the (maximum|available)|input token count",
    ),
    ("the provider", range(500, 600), ""),
)
"""Errors that no field of the request causes: (cause, statuses, part of the message)."""
