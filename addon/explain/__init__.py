"""Explanations of calls: the steps of a live call, with nothing sent, taken or written."""
