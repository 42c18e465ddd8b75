"""The mitmproxy addon, what it starts and stops, and calls shown as flows."""
