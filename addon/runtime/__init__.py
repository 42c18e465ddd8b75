"""What the gateway needs of its machine: clock, deadlines, sockets, a thread, a lock. Knows nothing of the gateway."""
