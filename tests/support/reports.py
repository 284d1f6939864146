"""Fewer messages from a pytest-xdist worker to pytest: one report of a test that passes, where there are five.

Each report is serialized, sent, decoded and passed to all plugins. With thousands of short tests that took a tenth of `make check`.
"""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol


class CallReports:
    """Runs a test as pytest does, but reports its set-up and teardown only if they fail or skip, and not when it starts and ends."""

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        for report in runtestprotocol(item, nextitem=nextitem, log=False):
            if report.when == "call" or not report.passed:
                item.ihook.pytest_runtest_logreport(report=report)
        return True


def use_fewer_reports(config: pytest.Config) -> None:
    """Register `CallReports` in a worker, unless a person wants to see durations."""
    if hasattr(config, "workerinput") and config.getoption("durations") is None:
        config.pluginmanager.register(CallReports())
