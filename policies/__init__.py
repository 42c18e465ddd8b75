"""The core: pure decisions over plain values. Imports nothing from ``addon``, knows no HTTP, clock or disk."""
