"""Functions from bytes and values to values. No module here knows of calls, connections or files."""
