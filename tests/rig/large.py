"""Tests that are large by nature: a sample of each runs with the suite, all of it with ``--large``.

``large`` marks a test that is smaller in the suite, and ``sized`` chooses its size. Of one with ``sampled(every=5)``
the suite runs the first of each five sets of parameters, and of ``large_only`` none: a smaller relative is there. A
property test has more examples with ``--large``; in the suite, parsers and money have most. The hooks of pytest are
those of a plugin.
"""

from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

UNIT = Path(__file__).parents[1] / "unit"
STRONG = tuple(
    UNIT / name for name in ("answers", "text", "wire", "upstream", "dialects", "store", "policies")
)
"""Parsers and money."""
EXAMPLES, STRONG_EXAMPLES, LARGE_EXAMPLES = 15, 40, 300

large = pytest.mark.large
sampled = pytest.mark.sampled
large_only = pytest.mark.large_only
MARKS = ("large", "sampled", "large_only")
_sizes: dict[str, bool] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--large",
        action="store_true",
        help="run only the tests that are large by nature, at their whole size",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Note the size before the modules of tests are imported."""
    config.addinivalue_line("markers", "large: the test runs a sample, and all of it with --large")
    config.addinivalue_line(
        "markers", "sampled(every): without --large, one of so many sets of parameters runs"
    )
    config.addinivalue_line("markers", "large_only: the test runs with --large, or if its file is named")
    _sizes["whole"] = config.getoption("large")
    for name, sample in (("usual", EXAMPLES), ("strong", STRONG_EXAMPLES)):
        # No result depends on the speed of the machine.
        settings.register_profile(
            name,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
            max_examples=sized(sample, LARGE_EXAMPLES),
        )
    settings.load_profile("usual")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, object, object]:
    """Choose the number of examples before a module is imported: its tests take those of that moment."""
    if isinstance(collector, pytest.Module):
        is_strong = any(path in (collector.path, *collector.path.parents) for path in STRONG)
        settings.load_profile("strong" if is_strong else "usual")
    return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With ``--large``, keep the marked tests and the property tests. Without, leave out what is too large.

    All tests of a file that the command line names run.
    """
    if _sizes["whole"]:
        kept = [item for item in items if _is_large(item)]
    else:
        named = tuple(argument.partition("::")[0] for argument in config.args if ".py" in argument)
        counts: Counter[str] = Counter()
        kept = [item for item in items if item.nodeid.startswith(named) or _is_in_the_sample(item, counts)]
    remaining = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in remaining])
    items[:] = kept


def _is_large(item: pytest.Item) -> bool:
    is_marked = any(map(item.get_closest_marker, MARKS))
    return is_marked or hasattr(getattr(item, "obj", None), "hypothesis")


def _is_in_the_sample(item: pytest.Item, counts: Counter[str]) -> bool:
    if item.get_closest_marker("large_only"):
        return False
    if not (mark := item.get_closest_marker("sampled")):
        return True
    test = item.nodeid.partition("[")[0]
    counts[test] += 1
    return counts[test] % mark.kwargs["every"] == 1


def sized(sample: int, whole: int) -> int:
    """Return the size of a test that is marked ``large``."""
    return whole if _sizes["whole"] else sample
