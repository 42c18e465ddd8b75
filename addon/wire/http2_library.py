"""The h2 library as the gateway uses it: which of its checks are ours, and what of it is bounded."""

from collections.abc import Iterable
from typing import Any, Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings
from hpack import Encoder

from addon.text.http2_heads import MAX_LIST_BYTES, encode_literals
from addon.wire.http2_frames import PREFACE

MAX_STREAMS: Final = 100
"""Open at once, as advertised."""
CONNECTION_WINDOW_BYTES: Final = 1_048_576
"""Of all bodies of a connection together that no call has read. A stream's own window is RFC 9113's 65,535."""
MAX_TABLE_BYTES: Final = 4_096
"""Of the compression of our heads, however much the client offers."""


class _LiteralEncoder(Encoder):
    """Encodes heads without a table, but says so where the client changes the size of that."""

    def encode(self, headers: Iterable[Any], huffman: bool = True) -> bytes:  # noqa: ARG002
        sizes = super().encode(()) if self.header_table.resized else b""
        return sizes + encode_literals(headers)


class _H2(H2Connection):
    MAX_CLOSED_STREAMS = (
        1_000  # the library remembers 65,536 otherwise: 8 MB for a connection that lives long
    )


def build_h2() -> H2Connection:
    """Return the server's side of a connection that has sent its settings and taken the client's preface."""
    config = H2Configuration(
        client_side=False,
        header_encoding=None,
        validate_inbound_headers=False,
        normalize_inbound_headers=False,
        validate_outbound_headers=False,
        normalize_outbound_headers=False,
    )
    h2 = _H2(config)
    h2.encoder = _LiteralEncoder()
    h2.decoder.max_header_list_size = 4 * MAX_LIST_BYTES  # what is larger ends the connection, not the stream
    h2.initiate_connection()
    h2.increment_flow_control_window(CONNECTION_WINDOW_BYTES - 65_535)
    # Past its own limit the library ends the connection; ours refuses the stream.
    settings = {SettingCodes(code): value for code, value in h2.local_settings.items()}
    settings[SettingCodes.MAX_CONCURRENT_STREAMS] = 2 * MAX_STREAMS
    h2.local_settings = Settings(client=False, initial_values=settings)
    h2.receive_data(PREFACE)
    return h2


def bound_settings(h2: H2Connection) -> None:
    """Keep what a client just set from growing what we hold: settings that nobody knows, the table of our heads."""
    for code in [code for code in h2.remote_settings if not isinstance(code, SettingCodes)]:
        del h2.remote_settings[code]
    if h2.encoder.header_table_size > MAX_TABLE_BYTES:
        h2.encoder.header_table_size = MAX_TABLE_BYTES
