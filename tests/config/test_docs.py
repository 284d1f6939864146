"""The reference page is what the tables say."""

from __future__ import annotations

from tests.config.reference_page import PAGE, page


def test_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.config.reference_page"
