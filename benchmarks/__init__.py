"""The speed of the gateway, compared with stock mitmdump and with no gateway. ``python -m benchmarks`` prints it.

Everything runs on loopback, in separate processes, with bounds on count and time.
"""
