"""Clocks, deadlines, sockets, a thread, locks and atomic files. Nothing here knows the gateway."""
