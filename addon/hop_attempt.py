"""One attempt on the wire: what is asked of the connection layer for it, and the hook that fires when it fails."""

from dataclasses import dataclass

from mitmproxy import http
from mitmproxy.connection import Connection, Server
from mitmproxy.proxy import commands
from mitmproxy.proxy.layers.http import GetHttpConnection


@dataclass
class AttemptFailedHook(commands.StartHook):
    """
    An attempt ended without a usable answer: no connection, a timeout, a broken or an error answer.

    The call's ``failure`` says how the client would be told. The addon may prepare the next attempt on
    ``flow.request`` and dispatch the exchange again, as long as nothing went to the client; otherwise the client gets
    ``flow.response``, or, in a stream that has begun, one error event.
    """

    name = "attempt_failed"
    flow: http.HTTPFlow


@dataclass
class ReadAnswerHook(commands.StartHook):
    """
    A large answer came whole. The addon reads it outside the event loop, into ``last_bytes`` of the call.
    """

    name = "read_answer"
    flow: http.HTTPFlow


@dataclass
class GetUpstream(GetHttpConnection):
    """Ask for a connection to ``address``; ``fresh`` refuses one that was used before, ``opened`` is a new one."""

    fresh: bool = False
    reused: bool = False
    opened: Server | None = None

    __hash__ = GetHttpConnection.__hash__


@dataclass(eq=False)
class SentAttempt:
    """One request on its way upstream. ``answered`` from the response head on, which came at ``head_s``."""

    id: int
    connection: Connection | None = None
    reused: bool = False
    answered: bool = False
    status: int = 0
    sent_s: float = 0.0
    head_s: float = 0.0
