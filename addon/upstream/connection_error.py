"""``UpstreamConnectionError``: why a connection to a provider gave no whole answer."""

from policies.resend import LostRequest


class UpstreamConnectionError(Exception):
    """The connection ended before its answer did, or the answer is not HTTP/1.1.

    ``lost`` says what became of the request. ``is_malformed``: the bytes of the answer are malformed. The text may be
    logged: it has nothing of the answer.
    """

    def __init__(self, reason: str, lost: LostRequest, *, is_malformed: bool) -> None:
        super().__init__(reason)
        self.lost = lost
        self.is_malformed = is_malformed
