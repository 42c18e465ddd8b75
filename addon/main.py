"""What mitmproxy loads: ``mitmdump -s addon/main.py --set tollgate_conf=proxy.conf``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from addon.gateway import Gateway

addons = [Gateway()]
