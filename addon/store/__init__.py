"""The store: calls, money and the ledger, in SQLite alone or in Redis with a SQLite ledger."""
