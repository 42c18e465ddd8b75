"""The store of one machine: everything in the ledger's file."""
