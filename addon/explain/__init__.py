"""A call's own steps, with nothing sent, taken or written."""
