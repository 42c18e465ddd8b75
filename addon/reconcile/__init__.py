"""The comparison of a vendor's own export with the ledger. Pure. Source: docs/closing-a-month.md."""
