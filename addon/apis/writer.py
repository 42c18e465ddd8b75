"""What writes a chat answer in the shape of another API. Pure."""

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from policies.usage import Usage


class WriterContext(Struct, frozen=True, gc=False):
    """The facts of a call that its answer repeats.

    | field | is |
    |---|---|
    | ``call_id`` | the id of the call, of which the ids in the answer are made |
    | ``created_s`` | the Unix time of the call |
    | ``prompt_tokens`` | the estimate, for as long as the provider has not reported its count |
    | ``request`` | the body as the client wrote it |
    | ``prepared`` | what ``Api.prepare`` made of the body, None where the writer is to do that |
    """

    call_id: str
    model_slug: str
    created_s: int
    prompt_tokens: int
    request: Mapping[str, Any]
    prepared: Any = None


class StreamWriter(Protocol):
    """Writes the chunks of one chat stream as the events of an API."""

    @property
    def events_sent(self) -> int:
        """How many events were made."""

    def write(self, chunk: dict[str, Any]) -> bytes:
        """Return the events for one chunk of the contract, often none. Raises ValueError for what is no chunk."""

    def finish(self, usage: Usage | None) -> bytes:
        """Return the last events of an answer that is complete."""
