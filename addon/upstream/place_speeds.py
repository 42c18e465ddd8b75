"""How fast the places of models are, as one process sees it, by place and by whether answers are streamed."""

from collections.abc import Iterable

from addon.runtime.clock import Clock
from policies.model import Model
from policies.place_order import Measure
from policies.place_speed import PlaceSpeed, after_attempt, after_choice
from policies.route import Target

_NEW = PlaceSpeed()
_FIRST = -1.0
"""The measure of a place that a call is to try."""


class PlaceSpeeds:
    """The speeds of one process. Only places of models whose order is ``fastest`` are measured."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._speeds: dict[tuple[str, bool], PlaceSpeed] = {}

    def make_measure(self, first: Target, *, stream: bool) -> Measure:
        """Return the measure of places for one call. It lets the call try one place that is due, if there is any.

        ``first`` is one of the places that the call may begin with. Places of a fallback are not tried: the call
        seldom reaches them.
        """
        now_s, is_trying = self._clock.monotonic_s(), False

        def measure(target: Target) -> float:
            nonlocal is_trying
            named = (target.model.place, stream)
            speed = self._speeds.get(named, _NEW)
            begins = (target.model.slug, target.mode) == (first.model.slug, first.mode)
            if is_trying or not begins or not target.model.weight or not speed.is_due(now_s):
                return speed.measure_s(now_s)
            is_trying = True
            self._speeds[named] = after_choice(speed, now_s)
            return _FIRST

        return measure

    def note_attempt(self, target: Target, *, stream: bool, first_byte_s: float) -> None:
        """Note how long the first byte of an answer took, infinite for an attempt that failed."""
        model = target.model
        if model.order == "fastest" and model.has_siblings:
            speed = self._speeds.get((model.place, stream), _NEW)
            now_s = self._clock.monotonic_s()
            self._speeds[model.place, stream] = after_attempt(speed, now_s, first_byte_s)

    def use_models(self, models: Iterable[Model]) -> None:
        """Forget the places of other models. Meanwhile a thread may choose a route."""
        places = {place.place for model in models for place in model.places}
        self._speeds = {named: speed for named, speed in list(self._speeds.items()) if named[0] in places}
