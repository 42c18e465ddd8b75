"""Calls as flows of mitmproxy, for whoever looks: mitmweb, or an addon of the operator's. They can't change a call."""
