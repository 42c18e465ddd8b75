"""Tags: ``metadata`` of a request, as the ledger and the log may hold it. Pure."""

from collections.abc import Mapping

import msgspec

from addon.text.masking import mask_credentials


def recordable_tags(metadata: Mapping[str, str]) -> str | None:
    """Return tags as JSON, sorted by name and without credentials; None without any.

    Half a surrogate pair becomes a question mark. NUL is left out, because PostgreSQL takes it in no text.
    """
    if not metadata:
        return None
    tags = {_recordable(name): _recordable(tag) for name, tag in metadata.items()}
    return msgspec.json.encode(tags, order="sorted").decode()


def _recordable(text: str) -> str:
    return mask_credentials(text.replace("\0", "").encode("utf-8", "replace").decode())
