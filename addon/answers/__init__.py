"""Readers of providers' answers: bytes come in, and the bytes for the client go out. Pure."""
