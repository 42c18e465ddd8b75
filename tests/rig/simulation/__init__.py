"""Processes on a simulated asyncio loop: virtual time, a network in memory, and faults, all from one seed.

``simulate`` runs one coroutine. The seed decides everything in it, so two runs of one seed can be compared.
"""

from rig.simulation.faults import CALM, Faults
from rig.simulation.loop import Deadlock, SimulatedLoop, TooManySteps
from rig.simulation.network import Network
from rig.simulation.run import Outcome, World, compare, simulate

__all__ = [
    "CALM",
    "Deadlock",
    "Faults",
    "Network",
    "Outcome",
    "SimulatedLoop",
    "TooManySteps",
    "World",
    "compare",
    "simulate",
]
