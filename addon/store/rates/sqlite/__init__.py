"""Rates in the ledger's file, on one machine."""
