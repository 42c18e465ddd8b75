"""Money in SQLite: the file, its tables, and how a step runs in it."""
