"""The client's side: one client connection inside mitmproxy, HTTP/1.1 and HTTP/2, and the streams that calls see.

Knows nothing of calls: a connection is handed the coroutine to run for each stream.
"""
