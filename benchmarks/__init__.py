"""How fast the gateway is beside stock mitmdump and beside no gateway at all; ``python -m benchmarks`` prints it.

Everything runs on loopback, in processes of its own, and is bounded in count and in time.
"""
