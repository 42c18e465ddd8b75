"""Bytes and values in, values out: no module here knows of calls, connections or files."""
