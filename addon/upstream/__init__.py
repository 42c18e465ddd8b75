"""The provider's side: the pool of connections, one for the process, and HTTP/1.1 toward providers.

Knows nothing of calls.
"""
