"""``python -m mutation.planted PATH NUMBER``: run the tests named on standard input with one fault in the code.

For faults outside of functions: they take effect when their module is imported.
"""

import sys

import pytest

from mutation.faults import Fault
from mutation.planting import import_faulty

if __name__ == "__main__":
    import_faulty(Fault(sys.argv[1], int(sys.argv[2]), 0))
    sys.exit(
        pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *sys.stdin.read().split("\n")])
    )
