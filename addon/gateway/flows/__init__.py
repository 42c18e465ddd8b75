"""Calls shown as flows of mitmproxy, for mitmweb or an operator's addon. A flow can't change its call."""
