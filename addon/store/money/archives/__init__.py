"""Months of calls that were moved to files of their own, and what names a person."""
