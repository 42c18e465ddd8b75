"""Changes of fields: the source that each rule names."""

from policies.family import Family
from policies.field_change import name_family_rule


def test_a_source_names_a_family_as_the_file_does() -> None:
    dotted = Family("vendor-4.1", drops=frozenset({"seed"}))
    assert name_family_rule(dotted, "drops") == 'families.toml ["vendor-4.1"] drops'


def test_a_rule_that_the_family_does_not_set_is_the_default() -> None:
    assert name_family_rule(Family("plain"), "drops") == "families.toml, default of drops"


def test_a_source_names_the_entry_of_a_table() -> None:
    clamping = Family("claude", clamps={"temperature": (0.0, 1.0)})
    assert name_family_rule(clamping, "clamps", "temperature") == "families.toml [claude] clamps.temperature"
