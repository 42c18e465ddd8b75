"""``python -m mutation.planted PATH NUMBER``: run the tests named on standard input with one fault in the code.

For faults outside of functions: they take effect when their module is imported.
"""

import sys

import pytest

from mutation.faults import Fault
from mutation.gateways import plant_in_gateways
from mutation.planting import import_faulty, shorten_waits

if __name__ == "__main__":
    fault = Fault(sys.argv[1], int(sys.argv[2]), 0)
    shorten_waits()
    import_faulty(fault)
    plant_in_gateways(fault)
    sys.exit(
        pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *sys.stdin.read().split("\n")])
    )
