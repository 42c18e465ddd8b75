"""Google's native generateContent API: chat requests in its shape, its answers in the chat shape. Pure."""
