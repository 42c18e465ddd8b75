"""The store for one machine: everything is in the ledger's file."""
