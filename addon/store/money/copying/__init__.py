"""The copy of a whole ledger from one engine into the other."""
