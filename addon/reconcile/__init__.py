"""The comparison of a vendor's own export with the ledger. Pure. Source: docs/commands.md, "ledger reconcile"."""
