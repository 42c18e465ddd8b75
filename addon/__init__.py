"""The shell: talks to mitmproxy, clocks, files and databases, and asks ``policies`` what to do."""

VERSION = "0.1.0"
"""As in pyproject.toml; a test says so."""
