"""The groups of the ``tollgate`` command line: one module a command or group; ``common`` is what they share."""
