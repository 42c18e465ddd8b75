"""The store of several machines: limits and money in Redis, the ledger in SQLite."""
