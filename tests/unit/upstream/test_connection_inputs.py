"""The table of a provider's answers, on real sockets: each is relayed or refused, and its connection kept or closed."""

import asyncio

from rig.bounds import BOUND_S
from rig.http1_inputs import AnswerInput, answer_inputs
from rig.provider import Peer, Provider
from rig.upstream_pool import acquire, exchange, pool_of

from addon.upstream.connection_error import UpstreamConnectionError
from addon.upstream.pool import Pool


async def outcome_of(given: AnswerInput, pool: Pool, provider: Provider) -> tuple[int, bool]:
    """Return the status that a client gets for an answer, and whether its connection is kept."""
    connection = await acquire(pool, provider.origin(), fresh=True)
    try:
        body = await exchange(connection)
    except UpstreamConnectionError:
        body = b""
    connection.release()
    is_kept = pool.stats().idle == 1
    return (200 if body == b"{}" else 502), is_kept


async def test_each_answer_is_relayed_or_refused_as_in_the_table():
    answers = iter(inputs := answer_inputs(b"{}"))

    async def answer(peer: Peer) -> None:
        await peer.request()
        given = next(answers)
        await peer.send(given.raw)
        if given.provider_closes:
            peer.writer.close()

    wrong = []
    async with Provider(answer) as provider:
        for given in inputs:
            async with asyncio.timeout(BOUND_S), pool_of() as pool:
                outcome = await outcome_of(given, pool, provider)
            if outcome != (given.status, given.is_reusable):
                wrong.append((given.name, outcome))
    assert not wrong
