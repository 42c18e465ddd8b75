"""The choices of an answer are put in the contract's shape, and left alone where they have it. Pure.

``ChunkNormalizer`` does it for the chunks of one stream, ``normalize_message_choices`` for a whole answer. Neither
changes what it is given, and what they return they would leave as it is.
"""

from typing import Any, Final, NamedTuple

from addon.answers.bounds import check_choices
from addon.answers.normalize.edits import same_or
from addon.answers.normalize.stream_choice import Made, StreamChoice
from addon.answers.normalize.whole_choice import whole_choice
from policies.family import Family


class Normal(NamedTuple):
    """What becomes of one chunk.

    ``choices`` is None where the chunk stays as it is. ``repeatable``: the same becomes of any chunk whose bytes
    differ only in the text of content, reasoning or arguments. ``skip``: nothing is left to say. ``renames``:
    ``choices`` differ in the key of ``reasoning`` alone, so that ``reasoning.rename_edits`` may be made instead;
    ``drops_role``: in a role that was told before, so that ``role.role_edits`` may be made (both, where both are true).
    """

    choices: list[Any] | None
    repeatable: bool
    skip: bool = False
    renames: bool = False
    drops_role: bool = False


_REPEATABLE: Final = Normal(None, True)
_UNCHANGED: Final = Normal(None, False)
_TEXT_OR_NONE: Final = (str, type(None))


class ChunkNormalizer:
    """One streamed answer of a model of this family.

    ``n`` is how many choices were asked for, None where that is unknown. A single one has index 0, whatever its
    provider counts there (TGI 1.4: tokens). ``seed`` tells this answer from others in ids that are made.
    """

    def __init__(self, family: Family, n: int | None = None, *, seed: str = "") -> None:
        self._seed = seed
        self._think_tags = family.think_tags
        self._is_single = n == 1
        self._choices: dict[int, StreamChoice] = {}

    def normalize(self, chunk: dict[str, Any]) -> Normal:
        """Return what becomes of the next chunk."""
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            return Normal([], False) if "choices" in chunk else _UNCHANGED
        plain = [self._is_plain(choice) for choice in choices]
        if all(plain):
            return _REPEATABLE
        made = [self._made(position, choice) for position, choice in enumerate(choices)]
        repeatable = all(one.repeatable for one in made)
        normal = same_or(choices, [one.choice for one in made])
        if normal is choices:
            return _REPEATABLE if repeatable else _UNCHANGED
        renames = len(made) == 1 and made[0].renamed
        drops_role = len(made) == 1 and made[0].unroled
        skip = any(one.swallowed for one in made) and not chunk.get("usage") and all(map(_is_silent, normal))
        return Normal(normal, repeatable and (renames or drops_role), skip, renames, drops_role)

    def last(self) -> list[dict[str, Any]]:
        """Return the choices that are left to be told once the stream has ended."""
        return [left for choice in self._choices.values() if (left := choice.last())]

    def _is_plain(self, choice: Any) -> bool:
        """Tell, quickly, that no rule has anything to do: so it is with nearly every chunk there is."""
        if type(choice) is not dict or choice.get("finish_reason") is not None or "message" in choice:
            return False
        index, delta = choice.get("index"), choice.get("delta")
        if type(index) is not int or (index and self._is_single) or type(delta) is not dict:
            return False
        if delta.get("tool_calls") is not None or delta.get("reasoning") or delta.get("role"):
            return False
        if delta.get("reasoning_details") or delta.get("annotations"):
            return False
        content, reasoning = delta.get("content"), delta.get("reasoning_content")
        if type(content) not in _TEXT_OR_NONE or type(reasoning) not in _TEXT_OR_NONE:
            return False
        state = self._choices.get(index)
        if state is None or state.tags is not None:
            return False
        if content:
            state.cumulative.by_delta = True
        if reasoning:
            state.has_reasoning = True
        return True

    def _made(self, position: int, choice: Any) -> Made:
        if not isinstance(choice, dict):
            return Made(choice, repeatable=False)
        index = choice.get("index")
        if type(index) is not int or (index and self._is_single):
            index = 0 if self._is_single else position
            made = self._state(index).normalize({**choice, "index": index})
            return made._replace(repeatable=False, renamed=False, unroled=False)
        return self._state(index).normalize(choice)

    def _state(self, index: int) -> StreamChoice:
        state = self._choices.get(index)
        if state is None:
            check_choices(len(self._choices))
            state = self._choices[index] = StreamChoice(
                index, (self._seed, index), think_tags=self._think_tags
            )
        return state


def normalize_message_choices(
    choices: list[Any], family: Family, answer_id: object = None
) -> list[Any] | None:
    """Return the choices of a whole answer as the contract has them, or None where they are so already.

    ``answer_id`` makes ids of tool calls that the provider gave none differ from answer to answer.
    """
    made = [
        whole_choice(choice, position, answer_id, think_tags=family.think_tags)
        if isinstance(choice, dict)
        else choice
        for position, choice in enumerate(choices)
    ]
    normal = same_or(choices, made)
    return None if normal is choices else normal


def _is_silent(choice: Any) -> bool:
    if not isinstance(choice, dict):
        return False
    others = any(value for key, value in choice.items() if key not in ("index", "delta"))
    return not others and not any(choice["delta"].values())
