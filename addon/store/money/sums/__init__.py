"""The sums of calls by hour and day."""
