"""The names of ``dialects.opaque_reasoning``. Pure."""

from addon.dialects.opaque_reasoning import is_sealed, seal, unseal

__all__ = ["is_sealed", "seal", "unseal"]
