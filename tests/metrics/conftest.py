"""A broker with metrics in the loop of the test, and clients of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from minibroker.metrics.names import ALL
from minibroker.metrics.scrape import Scraper, scraper_of
from minibroker.testing import Broker

Series = dict[frozenset[tuple[str, str]], float]


class Scraped:
    """Scrapes a broker, and finds samples in the text."""

    def __init__(self, broker: Broker, names: Iterable[str] = ALL) -> None:
        self.scraper: Scraper = scraper_of(lambda: broker._hosted.broker, broker._hosted.meter, names)

    async def all(self) -> dict[str, Series]:
        """All samples by name and labels."""
        found: dict[str, Series] = {}
        for family in text_string_to_metric_families(await self.scraper.text()):
            for sample in family.samples:
                found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
        return found

    async def __call__(self, name: str, **labels: object) -> float | None:
        """The only sample of a name with these labels among others; None if there is none."""
        wanted = {(key, str(value)) for key, value in labels.items()}
        found = [value for series, value in (await self.all()).get(name, {}).items() if wanted <= series]
        assert len(found) <= 1, found
        return found[0] if found else None


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with Broker(topics={"orders": 2}) as broker:
        yield broker


@pytest.fixture
def scraped(broker: Broker) -> Scraped:
    return Scraped(broker)
