"""Paths of APIs that are not served, each with the way to switch a client to an API that is. Pure.

Sources: the vendors' API references; the documentation of each client that is named.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from policies.refusal import Refusal

_TO_PROVIDER: Final = "Send such calls to the provider itself."
_NATIVE: Final = (
    "Use an OpenAI-compatible client, with a base_url that ends in /v1, for the models of all providers."
)
_WITHOUT_VERSION: Final = "Let the client's base_url end in /v1."

UNSERVED_PATHS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "/v1/responses": (
            "The path is /v1/responses, without anything after it: responses are not stored here, so none can be read, "
            "cancelled or deleted. Send all items with each call."
        ),
        "/v1/responses/compact": "Conversations are not compacted here: let the client summarize them with a model.",
        "/v1/responses/input_tokens": "Tokens of Responses are not counted here: the usage of an answer has them.",
        "/v1/messages": "The path is /v1/messages, without a slash or anything else after it.",
        "/v1/messages/batches": f"Batches are not served. {_TO_PROVIDER}",
        "/v1/complete": "Legacy text completions are not served: send messages to /v1/messages instead.",
        "/v1/completions": "Legacy text completions are not served: send messages to /v1/chat/completions instead.",
        "/v1/engines": "Engines are not served: name the model in the body of /v1/chat/completions instead.",
        "/v1/edits": "Edits are not served: send messages to /v1/chat/completions instead.",
        "/v1/embeddings": "The path is /v1/embeddings, without a slash after it.",
        "/v1/rerank": f"Reranking is not served. {_TO_PROVIDER}",
        "/v1/moderations": f"Moderations are not served. {_TO_PROVIDER}",
        "/v1/audio": f"Speech and transcriptions are not served. {_TO_PROVIDER}",
        "/v1/realtime": f"The Realtime API is not served. {_TO_PROVIDER}",
        "/v1/images": f"The Images API is not served. {_TO_PROVIDER}",
        "/v1/videos": f"The Videos API is not served. {_TO_PROVIDER}",
        "/v1/files": f"Files are not stored here: put them into the messages. {_TO_PROVIDER}",
        "/v1/uploads": f"Files are not stored here: put them into the messages. {_TO_PROVIDER}",
        "/v1/batches": f"Batches are not served. {_TO_PROVIDER}",
        "/v1/assistants": f"The Assistants API is not served. {_TO_PROVIDER}",
        "/v1/threads": f"The Assistants API is not served. {_TO_PROVIDER}",
        "/v1/conversations": f"Conversations are not stored here: send all messages with each call. {_TO_PROVIDER}",
        "/v1/vector_stores": f"Vector stores are not served. {_TO_PROVIDER}",
        "/v1/containers": f"Containers are not served. {_TO_PROVIDER}",
        "/v1/fine_tuning": f"Fine-tuning is not served. {_TO_PROVIDER}",
        "/v1/evals": f"Evals are not served. {_TO_PROVIDER}",
        "/v1/organization": f"Organizations are not managed here. {_TO_PROVIDER}",
        "/v1/chat/completions": "The path is /v1/chat/completions, without a slash or anything else after it.",
        "/v1/v1": "The path has /v1 twice: remove it from the client's base_url.",
        "/v1beta": f"Gemini's native API is not served. {_NATIVE}",
        "/v1/projects": f"Vertex AI's native API is not served. {_NATIVE}",
        "/openai": "Azure's paths are not served: use the ordinary OpenAI client with a base_url that ends in /v1.",
        "/api": f"Ollama's native API is not served. {_NATIVE}",
        "/chat/completions": _WITHOUT_VERSION,
        "/models": _WITHOUT_VERSION,
        "/completions": _WITHOUT_VERSION,
        "/responses": _WITHOUT_VERSION,
        "/embeddings": _WITHOUT_VERSION,
        "/messages": _WITHOUT_VERSION,
    }
)
"""The message for each path, and for all paths below it."""


def make_not_found(path: str, served: Collection[str]) -> Refusal:
    """Return the refusal ``not_found`` of a path at which nothing is served. It repeats nothing of the path.

    ``served`` are the endpoints, such as ``POST /v1/chat/completions``.
    """
    known = [prefix for prefix in UNSERVED_PATHS if f"{path}/".startswith(f"{prefix}/")]
    said = UNSERVED_PATHS[max(known, key=len)] if known else "There is nothing here."
    *firsts, last = served
    return Refusal("not_found", f"{said} The gateway serves {', '.join(firsts)} and {last}.")
