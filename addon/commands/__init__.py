"""The groups of the ``tollgate`` command line: one module a group, each a click group named as its module."""
