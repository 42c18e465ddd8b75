"""The way of one call, from its head to its ledger row. ``call`` reads from top to bottom."""
