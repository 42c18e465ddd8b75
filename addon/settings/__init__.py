"""From the files that operators write to one frozen ``Settings``."""
