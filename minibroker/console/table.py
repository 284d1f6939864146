"""All pages, and the navigation."""

from __future__ import annotations

from typing import Final

from minibroker.console.page import Page
from minibroker.console.pages import (
    access,
    clients,
    configs,
    groups,
    lab,
    metrics,
    overview,
    partition,
    produce,
    records,
    requests,
    schemas,
    topics,
    transactions,
)

PAGES: Final[dict[str, Page]] = {
    page.path: page
    for module in (
        overview, topics, records, produce, partition, schemas, groups, transactions, clients, requests, access, configs, lab, metrics,
    )
    for page in module.PAGES
}  # fmt: skip
NAVIGATION: Final[tuple[tuple[str, str], ...]] = (
    ("/", "Overview"),
    ("/topics", "Topics"),
    ("/schemas", "Schemas"),
    ("/groups", "Groups"),
    ("/transactions", "Transactions"),
    ("/clients", "Clients"),
    ("/requests", "Requests"),
    ("/charts", "Metrics"),
    ("/access", "Access"),
    ("/config", "Configuration"),
    ("/lab", "Lab"),
)
