"""What providers refused for a parameter is not sent to them, and what they took is: by the recordings.

The recordings are read from the folder in TOLLGATE_CORPUS; without it these tests are skipped.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rig import native_anthropic, native_gemini
from rig.corpus import FOLDER, needs_corpus
from rig.recorded_families import family_name
from rig.recorded_faults import BY_FAMILY, FAULTS, NO_PARAMETER, UNPREVENTED, Body, Fault
from rig.recorded_leftovers import LEFT_OUT, OURS
from rig.sent import DIALECT_OF, sent, shipped_families

from policies.family import Family
from policies.refusal import Refusal

type Record = Mapping[str, Any]


@cache
def recordings() -> tuple[Record, ...]:
    """Every exchange of the three APIs."""
    files = sorted(file for api in DIALECT_OF for file in Path(FOLDER).glob(f"*.{api}.jsonl"))
    found = [json.loads(line) for file in files for line in file.read_text("utf-8").split("\n") if line]
    assert found, f"no recordings in {FOLDER}"
    return tuple(found)


@cache
def errors() -> Mapping[str, Record]:
    return {record["id"]: record for record in recordings() if record["status"] >= 400}


def blame(record: Record) -> str | None:
    """What an error is about that no parameter is to blame for, or None."""
    for what, statuses, message in NO_PARAMETER:
        if record["status"] in statuses and re.search(message, record["response_text"]):
            return what
    return None


def chat_request_of(record: Record) -> Body:
    """The chat request that asks what was recorded. Raises what the readers of native requests raise."""
    native = {name: value for name, value in record["request"].items() if value is not None}
    if record["api"] == "anthropic_messages":
        return native_anthropic.chat_request_of(native)
    if record["api"] == "gemini_generate":
        return native_gemini.chat_request_of(native_gemini.rest_names(native))
    return native


# --- what was refused ------------------------------------------------------------------------------------------


def prevents(family: Family, record: Record, fault: Fault) -> bool:
    """Tell whether the parameter at fault is not sent to a model of ``family``, or refused by its name."""
    asked = chat_request_of(record) if fault.asked is None else fault.asked
    try:
        body, _ = sent(asked, family, DIALECT_OF[record["api"]])
    except Refusal as refusal:
        return fault.refused is not None and fault.refused in (refusal.param or refusal.message)
    return fault.sound is not None and fault.sound(body)


@needs_corpus
@pytest.mark.parametrize("record_id", FAULTS)
def test_a_parameter_that_was_refused_is_not_sent(record_id: str) -> None:
    record = errors()[record_id]
    assert prevents(shipped_families()[family_name(record)], record, FAULTS[record_id])


@needs_corpus
def test_without_its_family_a_fault_would_be_sent_unless_the_contract_rules_it_out() -> None:
    # Nothing else would tell a family's rule from the gateway's own checks; extra fields need the family to be sent.
    plain = Family("plain", extra=frozenset({"reasoning_effort", "thinking"}))
    sent_plainly = {id_ for id_, fault in FAULTS.items() if not prevents(plain, errors()[id_], fault)}
    assert {FAULTS[id_].parameter for id_ in sent_plainly} == BY_FAMILY


@needs_corpus
def test_every_recorded_error_is_about_a_parameter_or_has_a_reason_why_not() -> None:
    named = FAULTS.keys() | UNPREVENTED.keys()
    assert named <= errors().keys()
    assert not FAULTS.keys() & UNPREVENTED.keys()
    unexplained = [id_ for id_, record in errors().items() if id_ not in named and blame(record) is None]
    assert unexplained == []


# --- what was taken --------------------------------------------------------------------------------------------


def accepted() -> Iterator[tuple[Record, Body]]:
    """Every recorded request that was answered and that a chat request can ask."""
    for record in recordings():
        if 200 <= record["status"] < 300 and record["request"]:
            try:
                yield record, chat_request_of(record)
            except (native_anthropic.NotInChatError, KeyError, ValueError, AssertionError):
                continue


@cache
def left_out() -> Mapping[tuple[str, str], list[str]]:
    """What of them would not be sent as it was: (family, field) → the recordings."""
    found = defaultdict(list)
    for record, request in accepted():
        name = family_name(record)
        try:
            _, changes = sent(request, shipped_families()[name], DIALECT_OF[record["api"]])
        except Refusal as refusal:
            found[name, f"refused: {refusal.param}"].append(record["id"])
            continue
        touched = {change.field for change in changes if change.action in ("dropped", "clamped", "renamed")}
        for field in touched - {OURS}:
            found[name, field].append(record["id"])
    return found


@needs_corpus
def test_what_a_provider_took_is_sent_to_it() -> None:
    assert set(left_out()) - LEFT_OUT.keys() == set()
    assert LEFT_OUT.keys() - set(left_out()) == set()


@needs_corpus
def test_nearly_every_accepted_request_is_looked_at() -> None:
    assert sum(1 for _ in accepted()) >= 1_500


def main() -> None:
    """Print the tables."""
    whose = Counter(
        "a parameter, prevented" if id_ in FAULTS else UNPREVENTED.get(id_, blame(record))
        for id_, record in errors().items()
    )
    for what, count in whose.most_common():
        print(f"{count:4} {what}")
    for (family, field), ids in sorted(left_out().items()):
        print(f"{len(ids):4} {family:36}{field:32}{LEFT_OUT.get((family, field), '?')}  {ids[0]}")
    print(sum(1 for _ in accepted()), "accepted requests")


if __name__ == "__main__":
    main()
