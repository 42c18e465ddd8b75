"""The built-in upstream: an HTTP server on loopback that answers like a provider of chat completions."""
