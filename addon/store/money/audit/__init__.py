"""The audit log: its lines, their chain, and those that wait."""
