"""The bound of every wait in the tests."""

BOUND_S = 120.0
"""The time after which a wait fails, in seconds. Only a test that hangs takes that long."""
