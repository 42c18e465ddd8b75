"""Access tokens of service accounts, with a token server on loopback that checks the signature."""

import asyncio
import json
import ssl
from typing import Any

import jwt
import pytest
from rig.bounds import BOUND_S
from rig.provider import Peer
from rig.provider import Provider as TokenProvider
from rig.service_accounts import EMAIL, key_file, rsa_key
from rig.token_server import TokenServer, bearer, let_others_run, target
from rig.upstream_pool import acquire, exchange

from addon.dialects.endpoint import auth_headers
from addon.upstream.access_tokens import MAX_ANSWER_BYTES, AccessTokens, AccessTokenUnavailable
from addon.upstream.pool import Pool


async def test_an_account_signs_for_its_token_and_the_token_goes_to_the_provider(
    server: TokenServer, tokens: AccessTokens
) -> None:
    authorized = await tokens.authorize(target(key_file(server.url)))
    assert bearer(authorized) == "Bearer ya29.token-1"
    assert authorized.secrets == ("ya29.token-1",)
    (form,) = server.asked
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    public_key = rsa_key().public_key()
    claims = jwt.decode(form["assertion"], public_key, algorithms=["RS256"], audience=server.url)
    assert (claims["iss"], claims["scope"]) == (EMAIL, "https://www.googleapis.com/auth/cloud-platform")
    assert claims["exp"] - claims["iat"] == 3600
    assert jwt.get_unverified_header(form["assertion"]) == {"alg": "RS256", "typ": "JWT", "kid": "key-1"}


@pytest.mark.usefixtures("trusted")
async def test_a_token_comes_over_tls(server_tls: ssl.SSLContext, tokens: AccessTokens) -> None:
    asked = []

    async def answer(peer: Peer) -> None:
        asked.append(await peer.request())
        body = b'{"access_token": "ya29.safe", "expires_in": 3599}'
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    async with TokenProvider(answer, server_tls) as server:
        url = f"https://localhost:{server.port}"
        authorized = await tokens.authorize(target(key_file(f"{url}/token?v=2")))
        assert bearer(await tokens.authorize(target(key_file(url)))) == "Bearer ya29.safe"
    assert bearer(authorized) == "Bearer ya29.safe"
    assert [request.split(b"\r\n")[0] for request in asked] == [
        b"POST /token?v=2 HTTP/1.1",
        b"POST / HTTP/1.1",
    ]


async def test_other_providers_targets_stay_the_same_object(tokens: AccessTokens) -> None:
    plain = target("sk-plain", auth="bearer")
    assert await tokens.authorize(plain) is plain


async def test_a_token_is_used_until_it_nears_its_end(server: TokenServer, tokens: AccessTokens) -> None:
    secret = key_file(server.url)
    for _ in range(3):
        assert bearer(await tokens.authorize(target(secret))) == "Bearer ya29.token-1"
    assert len(server.asked) == 1


async def test_calls_that_come_together_wait_for_one_request(
    server: TokenServer, tokens: AccessTokens
) -> None:
    server.may_answer.clear()
    secret = key_file(server.url)
    waiting = [asyncio.create_task(tokens.authorize(target(secret))) for _ in range(5)]
    await server.was_asked.wait()
    waiting[0].cancel()  # the client leaves
    server.may_answer.set()
    assert [bearer(made) for made in await asyncio.gather(*waiting[1:])] == ["Bearer ya29.token-1"] * 4
    assert len(server.asked) == 1


async def test_a_token_near_its_end_is_renewed_while_calls_go_on_with_it(
    server: TokenServer, tokens: AccessTokens
) -> None:
    secret = key_file(server.url)
    server.answer["expires_in"] = 200
    await tokens.authorize(target(secret))
    server.was_asked.clear()
    server.may_answer.clear()
    # The server is silent, so a call that waited for it would hang.
    for _ in range(3):
        assert bearer(await tokens.authorize(target(secret))) == "Bearer ya29.token-1"
    await server.was_asked.wait()
    server.may_answer.set()
    async with asyncio.timeout(BOUND_S):
        while bearer(await tokens.authorize(target(secret))) == "Bearer ya29.token-1":
            await let_others_run()
    assert len(server.asked) >= 2


async def test_a_token_that_may_expire_before_it_arrives_is_not_used(
    server: TokenServer, tokens: AccessTokens
) -> None:
    secret = key_file(server.url)
    server.answer["expires_in"] = 20
    assert bearer(await tokens.authorize(target(secret))) == "Bearer ya29.token-1"
    assert bearer(await tokens.authorize(target(secret))) == "Bearer ya29.token-2"


@pytest.mark.parametrize(("more_bytes", "fails"), [(0, False), (1, True)])
async def test_the_answer_of_a_token_server_has_a_bound(
    server: TokenServer, tokens: AccessTokens, more_bytes: int, fails: bool
) -> None:
    server.answer = {"access_token": "!~", "expires_in": 3599, "padding": ""}
    padding = MAX_ANSWER_BYTES - len(json.dumps(server.answer)) + more_bytes
    server.answer["padding"] = " " * padding
    asking = target(key_file(server.url))
    if fails:
        with pytest.raises(AccessTokenUnavailable, match="too large"):
            await tokens.authorize(asking)
    else:
        assert bearer(await tokens.authorize(asking)) == "Bearer !~"


@pytest.mark.parametrize("life", ["soon", None, True, [], -1])
async def test_a_token_without_a_life_is_used_once(
    server: TokenServer, tokens: AccessTokens, life: Any
) -> None:
    server.answer = {"access_token": "ya29.token-{n}", "expires_in": life}
    asking = target(key_file(server.url))
    assert [bearer(await tokens.authorize(asking)) for _ in range(2)] == [
        "Bearer ya29.token-1",
        "Bearer ya29.token-2",
    ]


async def test_each_account_has_a_token_of_its_own(server: TokenServer, tokens: AccessTokens) -> None:
    first = await tokens.authorize(target(key_file(server.url)))
    second = await tokens.authorize(target(key_file(server.url, private_key_id="key-2")))
    assert {bearer(first), bearer(second)} == {"Bearer ya29.token-1", "Bearer ya29.token-2"}


async def test_a_new_account_leaves_the_tokens_of_others(server: TokenServer, tokens: AccessTokens) -> None:
    first, second = (target(key_file(server.url, private_key_id=name)) for name in ("key-1", "key-2"))
    server.may_answer.clear()
    waiting = asyncio.create_task(tokens.authorize(first))
    await server.was_asked.wait()
    other = asyncio.create_task(tokens.authorize(second))
    await let_others_run()
    again = asyncio.create_task(tokens.authorize(first))
    await let_others_run()
    server.may_answer.set()
    assert bearer(await waiting) == bearer(await again) != bearer(await other)
    await tokens.authorize(target(key_file(server.url, private_key_id="key-3")))
    assert bearer(await tokens.authorize(first)) == bearer(await waiting)
    assert len(server.asked) == 3


async def test_a_new_account_drops_the_keys_whose_tokens_are_over(
    server: TokenServer, tokens: AccessTokens
) -> None:
    server.answer["expires_in"] = 0
    for name in ("key-1", "key-2", "key-3"):
        await tokens.authorize(target(key_file(server.url, private_key_id=name)))
    assert list(tokens._accounts) == [key_file(server.url, private_key_id="key-3")]


async def test_a_token_is_requested_over_a_connection_of_its_own(pool: Pool) -> None:
    async def answer(peer: Peer) -> None:
        while True:
            await peer.request()
            body = b'{"access_token": "ya29.own", "expires_in": 3599}'
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    tokens = AccessTokens(pool)
    async with TokenProvider(answer) as server:
        # An idle connection may be closed by its server as the request comes. No one would send it again.
        connection = await acquire(pool, server.origin())
        await exchange(connection)
        connection.release()
        asking = target(key_file(f"http://127.0.0.1:{server.port}/token"))
        assert bearer(await tokens.authorize(asking)) == "Bearer ya29.own"
        assert server.connections == 2


async def test_closing_cancels_running_renewals(server: TokenServer, pool: Pool) -> None:
    server.may_answer.clear()
    tokens = AccessTokens(pool)
    waiting = asyncio.create_task(tokens.authorize(target(key_file(server.url))))
    await server.was_asked.wait()
    await tokens.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_the_key_file_itself_is_never_sent() -> None:
    with pytest.raises(ValueError, match="a provider gets an access token"):
        auth_headers(target(key_file("https://oauth2.googleapis.com/token")))
