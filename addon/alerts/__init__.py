"""Alerts: what operators should know at once, found once a second and sent to their webhook."""
