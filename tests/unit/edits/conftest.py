"""Fixtures of the tests of edits."""

from unit.commands.conftest import folder

__all__ = ["folder"]
