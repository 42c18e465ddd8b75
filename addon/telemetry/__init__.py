"""Metrics, log lines and the admin port: the view of operators on a process."""
