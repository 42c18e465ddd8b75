"""Tests that are large by nature: a sample of each runs with the suite, all of it with ``--large``.

``large`` marks such a test, and ``sized`` chooses its size. The hooks of pytest are those of a plugin.
"""

import pytest

large = pytest.mark.large
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
    _sizes["whole"] = config.getoption("large")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With ``--large``, keep the marked tests."""
    if _sizes["whole"]:
        others = [item for item in items if not item.get_closest_marker("large")]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item.get_closest_marker("large")]


def sized(sample: int, whole: int) -> int:
    """Return the size of a test that is marked ``large``."""
    return whole if _sizes["whole"] else sample
