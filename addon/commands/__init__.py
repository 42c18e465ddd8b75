"""The commands of the ``tollgate`` command line: one module a command or group, and modules that they share."""
