"""Contract: the headers of a response. None of a provider's headers is among them."""

import httpx
import pytest
from conftest import Chat
from rig.scripts import completion, whole
from rig.upstream import Upstream

COMES_BACK = {
    "content-type",
    "content-length",
    "transfer-encoding",
    "connection",
    "date",
    "cache-control",
    "x-request-id",
    "x-content-type-options",
}
UPSTREAM_HEADERS = [
    ("Set-Cookie", "session=vendor"),
    ("Server", "vendor"),
    ("X-Request-Id", "vendor"),
    ("X-RateLimit-Remaining-Requests", "vendor"),
    ("Retry-After", "0007"),
    ("OpenAI-Organization", "vendor"),
    ("Access-Control-Allow-Origin", "*"),
    ("Via", "1.1 vendor"),
    ("Alt-Svc", 'h3="vendor:443"'),
    ("Strict-Transport-Security", "max-age=1"),
    ("X-Gateway-Fallback", "true"),
    ("CF-Ray", "vendor"),
]


@pytest.mark.parametrize("status", [200, 400, 429, 500])
@pytest.mark.parametrize("stream", [False, True])
def test_no_header_of_the_upstream_is_returned(
    chat: Chat, upstream: Upstream, status: int, stream: bool
) -> None:
    body = completion() if status == 200 else {"error": {"message": "no"}}
    upstream.behave(whole(body, status, UPSTREAM_HEADERS))
    answer = chat(stream=stream and status != 200)
    assert answer.status_code == status
    remade = {"retry-after"} if status != 200 else set()
    assert set(answer.headers) <= COMES_BACK | remade
    assert "vendor" not in str(answer.headers)
    assert answer.headers.get("retry-after", "7") == "7"


def test_every_call_has_a_request_id_of_its_own(chat: Chat) -> None:
    ids = {chat().headers["x-request-id"] for _ in range(5)}
    assert len(ids) == 5


def test_answers_have_no_cors_headers(client: httpx.Client) -> None:
    body = {"messages": [{"role": "user", "content": "hello"}]}
    answer = client.post("/v1/chat/completions", json=body, headers={"Origin": "https://page.test"})
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]
