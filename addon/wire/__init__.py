"""The client's side: client connections inside mitmproxy, HTTP/1.1 and HTTP/2, and the streams that calls see.

It knows nothing of calls: a connection receives the coroutine that it runs for each stream.
"""
