"""From the bytes of a Messages request to the chat request that a call works with. Pure.

The body stays beside it as the client wrote it, for providers that speak this API.
"""

from collections.abc import Mapping
from typing import Final

from addon.apis.chat.request import ChatRequest, make_chat_request
from addon.apis.messages.request import to_chat
from addon.apis.messages.schema import validate
from addon.dialects.native_request import NativeRequest
from addon.text.json_decode import decode_large_object

PASSING_HEADERS: Final = ("anthropic-beta",)
"""The headers of a client to which the API gives a meaning. The dialect knows which of their values may pass."""


def parse_messages(body: bytes, headers: Mapping[str, str], *, counts_only: bool = False) -> ChatRequest:
    """Return the request in ``body``. ``headers`` have names in lower case.

    A request that ``counts_only`` tokens needs no ``max_tokens``. Raises Refusal ``bad_request`` or
    ``validation_failed``, naming the fields.
    """
    decoded, large = decode_large_object(body)
    given = {name: value for name, value in decoded.items() if value is not None}
    validate(given, counts_only=counts_only)
    made = to_chat(given)
    passing = {name: headers[name] for name in PASSING_HEADERS if name in headers}
    return make_chat_request(
        made.body,
        large,
        len(body),
        NativeRequest(decoded, passing),
        made.untranslated,
        made.obstacle,
        made.sources,
    )
