"""The gauges that pages read from the metrics of their gateway."""

from addon.console.sources import Sample, _read_gauges

PAGE = """\
# HELP tollgate_platform_keys The platform's keys, by whether they rest.
# TYPE tollgate_platform_keys gauge
tollgate_platform_keys{provider="LARGE",state="ready"} 2.0
tollgate_platform_keys{provider="SMALL",state="resting"} 1.0
# TYPE tollgate_calls_total counter
tollgate_calls_total{provider="LARGE"} 7.0
"""


def test_all_samples_of_a_gauge_are_read() -> None:
    gauges = _read_gauges(PAGE)
    assert gauges["tollgate_platform_keys"] == (
        Sample({"provider": "LARGE", "state": "ready"}, 2),
        Sample({"provider": "SMALL", "state": "resting"}, 1),
    )
    assert gauges["tollgate_circuits_open"] == ()
    assert "tollgate_calls_total" not in gauges
