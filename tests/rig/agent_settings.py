"""The agents that are tried, each with the setting that docs/clients.md has for it, and the calls that do the task."""

from dataclasses import replace

from rig.agent_wires import Call
from rig.agents import Agent

CLAUDE_CODE = Agent(
    "claude-code",
    "messages",
    (
        "{programs}/node_modules/.bin/claude",
        "-p",
        "{prompt}",
        "--model",
        "{model}",
        "--allowedTools",
        "Read,Write",
    ),
    steps=(
        (Call("Read", {"file_path": "{folder}/note.txt"}),),
        (Call("Write", {"file_path": "{folder}/copy.txt", "content": "{word}\n"}),),
    ),
    environment={"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_AUTH_TOKEN": "{key}"},
)
PATCH = "*** Begin Patch\n*** Add File: copy.txt\n+{word}\n*** End Patch\n"
CODEX = Agent(
    "codex",
    "responses",
    (
        "{programs}/node_modules/.bin/codex",
        "exec",
        "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox",
        "--model",
        "{model}",
        "{prompt}",
    ),
    steps=(
        (Call("exec_command", {"cmd": "cat note.txt"}),),
        (Call("apply_patch", PATCH, otherwise=Call("exec_command", {"cmd": "cp note.txt copy.txt"})),),
    ),
    environment={"CODEX_HOME": "{home}/.codex", "TOLLGATE_KEY": "{key}"},
    files={
        ".codex/config.toml": """model_provider = "tollgate"

[model_providers.tollgate]
name = "Tollgate"
base_url = "{url}/v1"
env_key = "TOLLGATE_KEY"
wire_api = "responses"

[analytics]
enabled = false
"""
    },
)


def _opencode(api: str, package: str, *forgets: str) -> Agent:
    return Agent(
        "opencode",
        api,
        ("{programs}/node_modules/.bin/opencode", "run", "{prompt}", "--model", "tollgate/{model}"),
        steps=(
            (Call("read", {"filePath": "{folder}/note.txt"}),),
            (
                Call(
                    "bash",
                    {"command": "cp note.txt copy.txt", "description": "Copies the note"},
                ),
            ),
        ),
        files={
            ".config/opencode/opencode.json": {
                "$schema": "https://opencode.ai/config.json",
                "provider": {
                    "tollgate": {
                        "npm": package,
                        "name": "Tollgate",
                        "options": {"baseURL": "{url}/v1", "apiKey": "{key}"},
                        "models": {
                            "{model}": {
                                "name": "{model}",
                                "tool_call": True,
                                "reasoning": True,
                                "limit": {"context": 200000, "output": 32000},
                            }
                        },
                    }
                },
            }
        },
        forgets=frozenset(forgets),
    )


OPENCODE_CHAT = _opencode("chat", "@ai-sdk/openai-compatible", "responses", "gemini")
OPENCODE_MESSAGES = _opencode("messages", "@ai-sdk/anthropic")
OPENCODE_RESPONSES = _opencode("responses", "@ai-sdk/openai")


def _continue(api: str, provider: str) -> Agent:
    return Agent(
        "continue",
        api,
        (
            "{programs}/node_modules/.bin/cn",
            "-p",
            "{prompt}",
            "--config",
            "{home}/config.yaml",
            "--auto",
        ),
        steps=(
            (Call("Read", {"filepath": "{folder}/note.txt"}),),
            (Call("Write", {"filepath": "{folder}/copy.txt", "content": "{word}\n"}),),
        ),
        environment={"CONTINUE_GLOBAL_DIR": "{home}/.continue"},
        files={
            "config.yaml": f"""name: tollgate
version: 1.0.0
schema: v1
models:
  - name: tollgate
    provider: {provider}
    model: {{model}}
    apiBase: {{url}}/v1/
    apiKey: {{key}}
    roles: [chat]
    capabilities: [tool_use]
"""
        },
        forgets=frozenset({"chat", "responses", "gemini"}),
    )


CONTINUE_OPENAI = _continue("responses", "openai")
CONTINUE_ANTHROPIC = _continue("messages", "anthropic")
AGENTS = (
    CLAUDE_CODE,
    CODEX,
    OPENCODE_CHAT,
    OPENCODE_MESSAGES,
    OPENCODE_RESPONSES,
    CONTINUE_OPENAI,
    CONTINUE_ANTHROPIC,
)


def _library(name: str, api: str, file: str, *arguments: str) -> Agent:
    """Return a program of ``tests/agents/programs`` with a library of its own."""
    interpreter = "node" if file.endswith(".mjs") else "{programs}/python/bin/python"
    return Agent(
        name,
        api,
        (interpreter, f"{{home}}/programs/{file}", *arguments),
        steps=((Call("read_note", {}),), (Call("write_copy", {"text": "{word}"}),)),
        environment={
            "GATEWAY_URL": "{url}",
            "GATEWAY_KEY": "{key}",
            "GATEWAY_MODEL": "{model}",
            "PROMPT": "{prompt}",
            "OPENAI_BASE_URL": "{url}/v1",
            "OPENAI_API_KEY": "{key}",
            "ANTHROPIC_BASE_URL": "{url}",
            "ANTHROPIC_API_KEY": "{key}",
        },
    )


LIBRARIES = (
    _library("anthropic-python", "messages", "anthropic_sdk.py"),
    _library("anthropic-node", "messages", "anthropic_sdk.mjs"),
    _library("openai-python", "responses", "openai_sdk.py"),
    _library("openai-node", "responses", "openai_sdk.mjs"),
    _library("openai-agents-python", "responses", "openai_agents.py"),
    _library("openai-agents-node", "responses", "openai_agents.mjs"),
    # It sends encrypted reasoning only to models whose names it knows.
    replace(
        _library("pydantic-ai", "responses", "pydantic_ai_agent.py", "openai"), forgets=frozenset({"gemini"})
    ),
    _library("pydantic-ai", "messages", "pydantic_ai_agent.py", "anthropic"),
    _library("ai-sdk", "responses", "ai_sdk.mjs", "openai"),
    _library("ai-sdk", "messages", "ai_sdk.mjs", "anthropic"),
    _library("langchain-python", "responses", "langchain_chat.py", "openai"),
    _library("langchain-python", "messages", "langchain_chat.py", "anthropic"),
    _library("langchain-node", "responses", "langchain.mjs"),
)
