"""The wire shapes that clients speak: one package an API, each with the same functions. Pure.

A call does not know which API it serves: it reads the request, writes the answer and words an error with these alone.
Where a provider speaks the shape of the API, the body goes to it natively, else through chat. See
``docs/ARCHITECTURE.md``.
"""

from collections.abc import Mapping
from typing import Final

from addon.apis.api import Api
from addon.apis.chat import api as chat
from addon.apis.embeddings import api as embeddings
from addon.apis.messages import api as messages
from addon.apis.responses import api as responses

APIS: Final[Mapping[str, Api]] = {
    "chat": chat,
    "messages": messages,
    "responses": responses,
    "embeddings": embeddings,
}
