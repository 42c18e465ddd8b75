"""The store for several machines: limits and money in Redis, the ledger in SQLite."""
