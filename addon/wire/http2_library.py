"""The h2 library as the gateway uses it: which of its checks the gateway does itself, and the library's bounds."""

from collections.abc import Iterable
from typing import Any, Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings
from h2.windows import WindowManager
from hpack import Encoder

from addon.text.http2_heads import MAX_LIST_BYTES, encode_literals
from addon.wire.http2_frames import PREFACE

MAX_STREAMS: Final = 100
"""How many streams may be open at once, as advertised."""
MAX_CALLS: Final = 2 * MAX_STREAMS
"""Streams with a task: open streams, and streams that the client reset while their call goes on."""
CONNECTION_WINDOW_BYTES: Final = 1_048_576
"""The unread bytes of all bodies of a connection together. The window of a stream is RFC 9113's 65,535."""
MAX_TABLE_BYTES: Final = 4_096
"""The table that compresses our heads, even when the client offers more."""


class _LiteralEncoder(Encoder):
    """An encoder of heads that uses no table. It still announces a size when the client changes the table's size."""

    def encode(self, headers: Iterable[Any], huffman: bool = True) -> bytes:  # noqa: ARG002
        sizes = super().encode(()) if self.header_table.resized else b""
        return sizes + encode_literals(headers)


class _H2(H2Connection):
    # The library's default is 65,536, which takes 8 MB on a long connection.
    MAX_CLOSED_STREAMS = 1_000


def build_h2() -> H2Connection:
    """Return the server's side of a connection. It has sent its settings and received the client's preface."""
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
    # A larger head ends the connection, not only the stream.
    h2.decoder.max_header_list_size = 4 * MAX_LIST_BYTES
    h2.initiate_connection()
    h2.increment_flow_control_window(CONNECTION_WINDOW_BYTES - 65_535)
    # Past its limit the library ends the connection. The gateway's own limit is lower and refuses the stream.
    settings = {SettingCodes(code): value for code, value in h2.local_settings.items()}
    settings[SettingCodes.MAX_CONCURRENT_STREAMS] = 2 * MAX_STREAMS
    h2.local_settings = Settings(client=False, initial_values=settings)
    h2.receive_data(PREFACE)
    return h2


def used_window_bytes(h2: H2Connection) -> tuple[int, int]:
    """Return how many bytes of the connection's window, and of its open streams' windows, are not given back yet."""
    # The library has no public name for what it has taken back and not announced yet.
    streams = [stream._inbound_window_manager for stream in h2.streams.values() if not stream.closed]
    return _used_bytes(h2._inbound_flow_control_window_manager), sum(map(_used_bytes, streams))


def _used_bytes(window: WindowManager) -> int:
    return window.max_window_size - window.current_window_size - window._bytes_processed


def bound_settings(h2: H2Connection) -> None:
    """Bound what the client's settings can make us keep: unknown settings, and the table of our heads."""
    for code in [code for code in h2.remote_settings if not isinstance(code, SettingCodes)]:
        del h2.remote_settings[code]
    if h2.encoder.header_table_size > MAX_TABLE_BYTES:
        h2.encoder.header_table_size = MAX_TABLE_BYTES
