"""The HTTP sites of `minibroker serve` together."""

from __future__ import annotations

from itertools import product

import pytest

from minibroker.cli.http_sites import HttpSites
from minibroker.config.broker_config import BrokerConfig
from minibroker.server.broker import Broker
from minibroker.testing.memory_files import MemoryFiles


@pytest.mark.parametrize("metrics, registry, console", [*product([False, True], repeat=3)])
def test_every_combination_of_sites_makes_a_broker(metrics: bool, registry: bool, console: bool) -> None:
    wanted = {"metrics": metrics, "registry": registry, "console": console}
    sites = HttpSites({f"{name}_port": 0 for name, is_wanted in wanted.items() if is_wanted})
    config = BrokerConfig({"log.dirs": "/sites", "listeners": "PLAINTEXT://127.0.0.1:0"})
    sites.follow(config)
    hooks = sites.hooks()
    assert ("make_dispatcher" in hooks, "make_registry" in hooks) == (metrics or console, registry)
    Broker(config, MemoryFiles(), **hooks)  # takes all of them
