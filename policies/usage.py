"""The counts of one call, as its provider reported them."""

from msgspec import Struct


class Usage(Struct, frozen=True, gc=False):
    """The counts that a provider reported. A count that it did not report is None, never zero.

    ``cache_write_1h_tokens`` are those of ``cache_write_tokens`` that are kept for an hour, ``cached_audio_tokens``
    those of ``cached_tokens`` that are sound. ``service_tier`` is in lower case. ``reported_nanousd`` is the provider's
    own cost of the call.
    Source: contract, "usage object"; docs/usage.md.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    audio_input_tokens: int | None = None
    cached_audio_tokens: int | None = None
    image_input_tokens: int | None = None
    audio_output_tokens: int | None = None
    searches: int | None = None
    service_tier: str | None = None
    reported_nanousd: int | None = None
