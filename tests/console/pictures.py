"""Take the pictures of docs/console.md and the README from a running broker: python -m tests.console.pictures"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

from tests.console.scene import consume, fill, get, post
from tests.console.served import ServedConsole

FOLDER: Final = Path(__file__).parents[2] / "docs" / "pictures"
PAGES: Final = {
    "topic": "/topic?name=payments",
    "records": "/records?topic=orders&json=%24.user.id+%3D+3",
    "group": "/group?id=billing",
}
WIDTH, HEIGHT = 1200, 760


def main() -> None:
    """Write a picture of each page, light and dark."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, ServedConsole(Path(folder)) as served:
        fill(served.bootstrap, served.url)
        consume(served.bootstrap, "auditors", "payments", count=20).close()
        member = consume(served.bootstrap, "billing", "orders", count=200)
        post(served.url, "produce", topic="orders", value="late", copies=7)
        assert get(served.url, "/group.json?id=billing")["state"] == "Stable"
        with sync_playwright() as playwright:
            options: dict[str, Any] = {"executable_path": "/usr/bin/chromium", "args": ["--no-sandbox", "--disable-background-networking"]}
            browser = playwright.chromium.launch(**options)
            for scheme in ("light", "dark"):
                page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
                for name, path in PAGES.items():
                    page.goto(served.url + path)
                    page.wait_for_timeout(500)  # the blocks that follow changes have arrived
                    page.screenshot(path=FOLDER / f"console-{name}-{scheme}.png")
                page.close()
            browser.close()
        member.close()


if __name__ == "__main__":
    main()
