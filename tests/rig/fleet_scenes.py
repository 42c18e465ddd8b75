"""Faults of a fleet under load: the fault, its end, the judge, and what it cost."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rig.fleet import SIZE, Fleet
from rig.fleet_judge import Allowed, judge
from rig.fleet_load import Answer, Load

BEFORE, DURING, AFTER = 60, 30, 12
"""How many calls are served before the fault, are answered while it lasts, and are served by each gateway after it."""

PROPERTY = "fleet"
"""The name of the property of a test that has its line of the table of faults."""


@dataclass
class Scene:
    """Faults of one fleet, one after another. ``costs`` are a line for each."""

    fleet: Fleet
    answers: list[Answer] = field(default_factory=list)
    costs: list[str] = field(default_factory=list)
    forgot: list[tuple[float, float]] = field(default_factory=list)

    def play(
        self,
        break_it: Callable[[Load], object],
        mend_it: Callable[[Load], object] | None = None,
        *,
        allowed: Allowed = Allowed(),  # noqa: B008
        gateways: Sequence[int] = tuple(range(SIZE)),
        forgets: bool = False,
    ) -> None:
        """Break it under load, and mend it. Fail if the judge finds what is not allowed.

        ``gateways`` are those that serve at the end. Without ``mend_it`` the fleet heals by itself. ``forgets`` says
        that PostgreSQL forgets what it has committed since the begin of the fault.
        """
        if self.answers:
            self.fleet.top_up()
        with self.fleet.load() as load:
            load.wait_for_served(BEFORE)
            began_s = time.monotonic()
            break_it(load)
            if forgets:
                self.forgot.append((began_s, time.monotonic()))
            if mend_it:
                load.wait_for_answers(DURING)
                mend_it(load)
            mended_s = time.monotonic()
            for number in gateways:
                load.wait_for_served(AFTER, number)
        self.answers += load.answers
        healed_s = max(load.first_served_s(number, mended_s) for number in gateways) - mended_s
        failing_s = max(load.last_failure_s() - mended_s, 0.0)
        verdict = judge(self.fleet, self.answers, replace(allowed, forgot=self.forgot))
        failed = sum(one.is_failure for one in load.answers)
        self.costs.append(
            f"{len(load.answers)} calls, {failed} failed, {verdict.lost_rows} rows lost,"
            f" {verdict.interrupted} interrupted, {verdict.unbilled_nanousd / 1e9:.2f} USD unbilled,"
            f" {verdict.overspent_nanousd / 1e9:.4f} USD overspent, all serve after {healed_s:.1f} s,"
            f" the last failure after {failing_s:.1f} s{self._describe_late(load, mended_s + healed_s)}"
        )
        assert not verdict.discrepancies, (verdict.discrepancies, self.costs, load.statuses())

    def _describe_late(self, load: Load, healed_s: float) -> str:
        """Return what each call was told that failed after all gateways served again, and what its gateway logged."""
        late = [one for one in load.answers if one.is_failure and one.began_s > healed_s]
        logs = {one.gateway: self.fleet.gateways[one.gateway].logs for one in late}
        outages = [
            f"gateway {number}: {line['message']}"
            for number, lines in logs.items()
            for line in lines
            if line.get("event") == "store unavailable"
        ]
        told = [f"gateway {one.gateway}: {one.status} {one.text or 'no answer'}" for one in late]
        return "".join(f"; {line}" for line in (*told, *outages))

    def record(self, record_property: Callable[[str, object], None]) -> None:
        """Keep the lines for the table at the end of the run."""
        for line in self.costs:
            record_property(PROPERTY, line)
