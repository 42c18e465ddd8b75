"""Recorded traffic: the gateway does not send parameters that a provider refused, and sends those that it accepted.

TOLLGATE_CORPUS is the folder of recordings. Without it these tests are skipped.
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
    """Return all recorded exchanges of the three APIs."""
    files = sorted(file for api in DIALECT_OF for file in Path(FOLDER).glob(f"*.{api}.jsonl"))
    found = [json.loads(line) for file in files for line in file.read_text("utf-8").split("\n") if line]
    assert found, f"no recordings in {FOLDER}"
    return tuple(found)


@cache
def errors() -> Mapping[str, Record]:
    return {record["id"]: record for record in recordings() if record["status"] >= 400}


def blame(record: Record) -> str | None:
    """Return the reason of an error that no parameter causes, or None."""
    for what, statuses, message in NO_PARAMETER:
        if record["status"] in statuses and re.search(message, record["response_text"]):
            return what
    return None


def chat_request_of(record: Record) -> Body:
    """Return the recorded request as a chat request. Raise the errors of the readers of native requests."""
    native = {name: value for name, value in record["request"].items() if value is not None}
    if record["api"] == "anthropic_messages":
        return native_anthropic.chat_request_of(native)
    if record["api"] == "gemini_generate":
        return native_gemini.chat_request_of(native_gemini.rest_names(native))
    return native


# --- refused parameters ----------------------------------------------------------------------------------------


def prevents(family: Family, record: Record, fault: Fault) -> bool:
    """Return whether the gateway drops or refuses the wrong parameter for a model of ``family``."""
    asked = chat_request_of(record) if fault.asked is None else fault.asked
    try:
        body, _ = sent(asked, family, DIALECT_OF[record["api"]])
    except Refusal as refusal:
        return fault.refused is not None and fault.refused in (refusal.param or refusal.message)
    return fault.sound is not None and fault.sound(body)


@needs_corpus
@pytest.mark.parametrize("record_id", FAULTS)
def test_a_refused_parameter_is_not_sent(record_id: str) -> None:
    record = errors()[record_id]
    assert prevents(shipped_families()[family_name(record)], record, FAULTS[record_id])


@needs_corpus
def test_without_its_family_a_refused_parameter_is_sent_if_the_contract_allows_it() -> None:
    # Only this separates the rule of a family from the gateway's own checks. Extra fields need the family to be sent.
    plain = Family("plain", extra=frozenset({"reasoning_effort", "thinking"}))
    sent_plainly = {id_ for id_, fault in FAULTS.items() if not prevents(plain, errors()[id_], fault)}
    assert {FAULTS[id_].parameter for id_ in sent_plainly} == BY_FAMILY


@needs_corpus
def test_every_recorded_error_has_a_parameter_or_another_reason() -> None:
    named = FAULTS.keys() | UNPREVENTED.keys()
    assert named <= errors().keys()
    assert not FAULTS.keys() & UNPREVENTED.keys()
    unexplained = [id_ for id_, record in errors().items() if id_ not in named and blame(record) is None]
    assert unexplained == []


# --- accepted requests -----------------------------------------------------------------------------------------


def accepted() -> Iterator[tuple[Record, Body]]:
    """Return each recorded request that was answered and that a chat request can express."""
    for record in recordings():
        if 200 <= record["status"] < 300 and record["request"]:
            try:
                yield record, chat_request_of(record)
            except (native_anthropic.NotInChatError, KeyError, ValueError, AssertionError):
                continue


@cache
def left_out() -> Mapping[tuple[str, str], list[str]]:
    """Return the fields that the gateway would not send unchanged: (family, field) → recordings."""
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
def test_an_accepted_parameter_is_sent() -> None:
    assert set(left_out()) - LEFT_OUT.keys() == set()
    assert LEFT_OUT.keys() - set(left_out()) == set()


@needs_corpus
def test_nearly_every_accepted_request_is_checked() -> None:
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
