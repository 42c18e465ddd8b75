"""The ledger's SQLite file: its tables, its rows, and what is read from it."""
