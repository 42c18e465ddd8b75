"""AWS credentials, and the signature of a request with them (Signature Version 4). Pure.

No message shows a part of a credential. Source: AWS, "Create a signed AWS API request"; botocore 1.44.5, ``auth``.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, unquote

from msgspec import Struct

ALGORITHM: Final = "AWS4-HMAC-SHA256"
TOKEN_HEADER: Final = "x-amz-security-token"  # noqa: S105  (the name of a header)
DATE_HEADER: Final = "x-amz-date"

# Regions as they occur in the names of hosts: us-east-1, ap-southeast-2, us-gov-west-1.
_REGION: Final = re.compile(r"(?:\A|\.)([a-z]{2,4}(?:-[a-z]{2,12}){1,3}-\d{1,2})(?=\.)")
_PATH_SAFE: Final = "/-_.~"
_QUERY_SAFE: Final = "-_.~"
_SIGNED: Final = frozenset({"host", "content-type"})
_AMAZON: Final = "x-amz-"
# The names in what `aws configure export-credentials` and the API of AWS STS print.
_JSON_NAMES: Final = ("AccessKeyId", "SecretAccessKey", "SessionToken")
_PART: Final = re.compile(r"[!-9;-~]+")  # printable ASCII without the colon


class AwsCredentials(Struct, frozen=True, gc=False):
    """An access key, and the session token that belongs to a temporary one."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None

    def __repr__(self) -> str:
        """Show nothing."""
        return "AwsCredentials(...)"

    @property
    def text(self) -> str:
        """The credentials as one word: ``ID:SECRET`` or ``ID:SECRET:TOKEN``."""
        return ":".join(
            part for part in (self.access_key_id, self.secret_access_key, self.session_token) if part
        )


def parse_aws_credentials(text: str) -> AwsCredentials:
    """Return the credentials in a text: ``ID:SECRET[:TOKEN]``, or a JSON object. Raises ValueError."""
    parts = _json_parts(text) if text.lstrip().startswith("{") else text.split(":")
    if not 2 <= len(parts) <= len(_JSON_NAMES):
        raise ValueError("the AWS credentials are not ACCESS_KEY_ID:SECRET_ACCESS_KEY[:SESSION_TOKEN]")
    if not all(map(_PART.fullmatch, parts)):
        raise ValueError("a part of the AWS credentials is empty, or not one word of printable ASCII")
    return AwsCredentials(*parts)


def _json_parts(text: str) -> list[str]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError("the AWS credentials are not a JSON object")
    parts = [found.get(name) for name in _JSON_NAMES]
    if parts[-1] is None:
        parts.pop()
    if wrong := [name for name, part in zip(_JSON_NAMES, parts, strict=False) if not isinstance(part, str)]:
        raise ValueError(f"the AWS credentials have no {wrong[0]}")
    return [str(part) for part in parts]


def find_region(host: str) -> str | None:
    """Return the region in the name of a host of AWS, or None."""
    found = _REGION.search(host)
    return found[1] if found else None


class RequestSigner(Struct, frozen=True, gc=False):
    """Signs requests for one service in one region."""

    credentials: AwsCredentials
    region: str
    service: str

    def __repr__(self) -> str:
        """Show nothing of the credentials."""
        return f"RequestSigner(..., {self.region!r}, {self.service!r})"

    def sign(
        self, method: str, target: str, headers: Iterable[tuple[str, str]], content: bytes, now: datetime
    ) -> tuple[tuple[str, str], tuple[str, str]]:
        """Return the two headers to add: the time of the request, and its ``authorization``.

        ``headers`` (names in lower case) are those that are sent, with ``host`` among them. The signature covers
        ``host``, ``content-type`` and all of Amazon's own. ``target`` is the path and the query as they are sent.
        """
        time = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        covered = [(name, value) for name, value in headers if name in _SIGNED or name.startswith(_AMAZON)]
        names, request = canonical_request(method, target, [*covered, (DATE_HEADER, time)], content)
        scope = f"{time[:8]}/{self.region}/{self.service}/aws4_request"
        signed = f"{ALGORITHM}\n{time}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        key = f"AWS4{self.credentials.secret_access_key}".encode()
        for part in (time[:8], self.region, self.service, "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, signed.encode(), "sha256").hex()
        credential = f"Credential={self.credentials.access_key_id}/{scope}"
        authorization = f"{ALGORITHM} {credential}, SignedHeaders={names}, Signature={signature}"
        return (DATE_HEADER, time), ("authorization", authorization)


def canonical_request(
    method: str, target: str, headers: Iterable[tuple[str, str]], content: bytes
) -> tuple[str, str]:
    """Return the names of the signed headers, and the text whose hash is signed.

    The path is quoted once more than it is sent, as all services but S3 want it.
    """
    path, _, query = target.partition("?")
    pairs = [part.partition("=") for part in query.split("&") if part]
    quoted = sorted((_quoted(name), _quoted(value)) for name, _, value in pairs)
    joined: dict[str, list[str]] = {}
    for name, value in headers:
        joined.setdefault(name, []).append(" ".join(value.split()))
    lines = [f"{name}:{','.join(joined[name])}\n" for name in sorted(joined)]
    names = ";".join(sorted(joined))
    parts = (
        method,
        quote(path or "/", safe=_PATH_SAFE),
        "&".join(f"{name}={value}" for name, value in quoted),
        "".join(lines),
        names,
        hashlib.sha256(content).hexdigest(),
    )
    return names, "\n".join(parts)


def _quoted(text: str) -> str:
    return quote(unquote(text), safe=_QUERY_SAFE)
