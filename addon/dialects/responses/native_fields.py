"""What a native request may carry: everything else is left out by name. Pure.

Source: OpenAI, API reference, "Create a model response"; recorded requests of 28 clients; docs/apis-responses.md.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

FIELDS: Final = frozenset(
    {
        *("input", "instructions", "include", "reasoning", "text", "tools", "tool_choice", "max_tool_calls"),
        *("parallel_tool_calls", "temperature", "top_p", "top_logprobs", "truncation", "context_management"),
        *("metadata", "client_metadata", "user", "safety_identifier", "service_tier", "stream_options"),
        *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
    }
)
"""The fields that go as the client wrote them."""

OWN: Final = frozenset({"model", "stream", "store", "max_output_tokens"})
"""The fields that the gateway sets."""

WITHOUT_EFFECT: Final[Mapping[str, Any]] = MappingProxyType({"background": False})
"""Values that say what is so without them: nothing is lost when they are not sent."""

CLIENT_TOOLS: Final = frozenset(
    {"function", "custom", "local_shell", "apply_patch", "namespace", "tool_search"}
)
"""The tools that cost nothing of their own. A ``shell`` is one where it is the client's."""

SEALED: Final = "reasoning.encrypted_content"
"""The member of ``include`` for reasoning that its client carries."""
LOGPROBS: Final = "message.output_text.logprobs"
