"""The rates: tokens of requests, circuits and resting keys, which are hot and may be lost."""
