"""Name each failed test at once, also in a pipe: the summary comes minutes later."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Show the lines of failures."""
    config.pluginmanager.register(FailureLines(config))


class FailureLines:
    """The plugin that writes a line for each failure, after its letter."""

    def __init__(self, config: pytest.Config) -> None:
        self._plugins = config.pluginmanager

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the name of the test and what went wrong."""
        terminal = self._plugins.get_plugin("terminalreporter")
        if report.failed and terminal:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = crash.message.partition("\n")[0] if crash else f"{report.when} failed"
            terminal.write_line(f"\nFAILED {report.nodeid} - {reason}", red=True)
            terminal.flush()
