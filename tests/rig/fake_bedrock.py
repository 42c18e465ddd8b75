"""A fake Amazon Bedrock: it checks signatures, and answers Converse whole and streamed, as its documentation says."""

import hashlib
import hmac
import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

from rig.native_converse_stream import event_frame, stream_of
from rig.scripts import Received, Script, chunked, whole

HELLO = {
    "output": {"message": {"role": "assistant", "content": [{"text": "hello"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 9, "outputTokens": 2, "totalTokens": 11},
    "metrics": {"latencyMs": 12},
}


def is_for_bedrock(request: Received) -> bool:
    """Return whether a request is one of Converse."""
    return request.target.endswith(("/converse", "/converse-stream"))


def model_asked(request: Received) -> str:
    """Return the model in the path."""
    return unquote(request.target.split("/")[-2])


def answer(request: Received, said: dict[str, Any] = HELLO) -> Script:
    """Answer with ``said``, in frames if the request asks for a stream. Each frame comes in two pieces."""
    if request.target.endswith("/converse"):
        return whole(said)
    assert request.target.endswith("/converse-stream"), request.target
    assert request.header("accept") == "application/vnd.amazon.eventstream"
    frames = [event_frame(name, payload) for name, payload in stream_of(said)]
    pieces = [piece for frame in frames for piece in (frame[:20], frame[20:])]
    return chunked(*pieces, content_type="application/vnd.amazon.eventstream")


def refusal_of_signature(request: Received, access_key: str, secret: str, token: str = "") -> Script | None:
    """Return the answer to a request whose signature is wrong, or None.

    This computes the signature from the request as it came, after the rules of AWS.
    """
    authorization = request.header("authorization") or ""
    found = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([\w-]+)/bedrock/aws4_request, "
        r"SignedHeaders=([\w;-]+), Signature=([0-9a-f]{64})",
        authorization,
    )
    if found is None or found[1] != access_key or (request.header("x-amz-security-token") or "") != token:
        return _denied("The security token included in the request is invalid.")
    _, day, region, names, signature = found.groups()
    path, _, query = request.target.partition("?")
    assert not query
    headers = "".join(f"{name}:{(request.header(name) or '').strip()}\n" for name in names.split(";"))
    body = hashlib.sha256(request.body).hexdigest()
    wanted = f"POST\n{quote(path, safe='/')}\n\n{headers}\n{names}\n{body}"
    time = request.header("x-amz-date") or ""
    scope = f"{day}/{region}/bedrock/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashlib.sha256(wanted.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    right = hmac.new(key, text.encode(), hashlib.sha256).hexdigest() == signature
    age_s = abs((datetime.now(UTC) - datetime.strptime(time, "%Y%m%dT%H%M%S%z")).total_seconds())
    if right and time.startswith(day) and age_s < 300 and {"host", "x-amz-date"} <= set(names.split(";")):
        return None
    return _denied("The request signature we calculated does not match the signature you provided.")


def _denied(message: str) -> Script:
    headers = [("x-amzn-errortype", "InvalidSignatureException:http://internal.amazon.com/coral/")]
    return whole({"message": message}, 403, headers)
