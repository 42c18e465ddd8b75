"""The core: pure decisions over plain values. It imports nothing from ``addon``, and uses no HTTP, clock or disk."""
