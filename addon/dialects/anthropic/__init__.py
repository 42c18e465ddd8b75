"""Anthropic's native Messages API: chat requests in its shape, its answers in the chat shape. Pure."""
