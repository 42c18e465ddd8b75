"""What a request of Anthropic's Messages API may hold when it goes as its client wrote it. Pure.

All others are left out and named: they cost money that is not held, hold state at the provider, or belong to another
account. Source: Anthropic, API reference, "Create a Message"; the types of its Python SDK 2.12; recorded clients.
"""

from types import MappingProxyType
from typing import Final

FIELDS: Final = frozenset(
    {
        *("model", "max_tokens", "stream", "system", "messages", "tools", "tool_choice", "stop_sequences"),
        *("temperature", "top_p", "top_k", "thinking", "output_config", "output_format", "metadata"),
        *("context_management", "cache_control", "service_tier", "diagnostics"),
    }
)

REFUSED: Final = MappingProxyType(
    {
        "compaction": "The gateway does not support requests of this kind.",
        "inference_geo": "The gateway can't choose where a provider computes. Leave it out, or use another model.",
    }
)
"""Fields whose loss would change what the answer is, or where it is made: each with what the client is told."""

CLIENT_TOOLS: Final = ("custom", "bash_", "text_editor_", "computer_", "memory_", "browser_")
"""The beginnings of the types of tools that the client runs."""
FREE_TOOLS: Final = ("tool_search_tool_",)
"""Those of tools that the provider runs, and that cost only tokens. Source: Anthropic, "Tool search tool"."""
CONTEXT_EDITS: Final = ("clear_thinking_", "clear_tool_uses_")
"""The beginnings of the types of edits that call no model. Compaction does, and its tokens are in no total."""

BETAS: Final = frozenset(
    {
        # Claude Code 2.1.197 and 2.1.330
        *("claude-code-20250219", "interleaved-thinking-2025-05-14", "context-management-2025-06-27"),
        *("thinking-token-count-2026-05-13", "advanced-tool-use-2025-11-20", "effort-2025-11-24"),
        *("per-turn-control-2026-07-01", "mid-conversation-tool-changes-2026-07-01"),
        *("prompt-caching-scope-2026-01-05", "mid-conversation-system-2026-04-07"),
        # the types of the Python SDK
        *("computer-use-2024-10-22", "computer-use-2025-01-24", "computer-use-2025-11-24"),
        *(
            "output-128k-2025-02-19",
            "dev-full-thinking-2025-05-14",
            "model-context-window-exceeded-2025-08-26",
        ),
        *("structured-outputs-2025-11-13", "task-budgets-2026-03-13", "thinking-display-updates-2026-08-18"),
        *("mid-conversation-output-config-2026-07-01", "thinking-binding-controls-2026-08-01"),
        *("mid-conversation-system-clear-at-2026-08-21", "cache-diagnosis-2026-04-07"),
        *("prompt-caching-2024-07-31", "extended-cache-ttl-2025-04-11", "pdfs-2024-09-25"),
        *("token-counting-2024-11-01", "token-efficient-tools-2025-02-19"),
        # vendor, "Fine-grained tool streaming"
        "fine-grained-tool-streaming-2025-05-14",
    }
)
"""The names in ``anthropic-beta`` that pass; others are ignored."""
