"""Readers of providers' answers: bytes in as they come, out what the client may get. Pure."""
