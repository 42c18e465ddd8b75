"""The built-in upstream: it answers on loopback as a chat-completions provider would."""
