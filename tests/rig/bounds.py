"""How long the tests wait."""

BOUND_S = 120.0
"""How long a test waits for something that should happen at once, before it fails: only a hang takes that long."""
