"""Take the pictures of docs/console.md and the README from a running broker: python -m tests.console.pictures"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Final

from PIL import Image  # matplotlib brings it
from playwright.sync_api import Page, sync_playwright

from tests.console.scene import consume, fill, get, post
from tests.console.served import ServedConsole

FOLDER: Final = Path(__file__).parents[2] / "docs" / "pictures"
#: name: address, and how far to scroll
PAGES: Final = {
    "overview": ("/", 0),
    "topic": ("/topic?name=payments", 0),
    "records": ("/records?topic=orders&json=%24.user.id+%3D+3", 0),
    "batch": ("/batch?topic=payments&partition=0&offset=0", 420),
    "group": ("/group?id=billing", 0),
}
WIDTH, HEIGHT = 1200, 760
COLOURS: Final = 128  #: of a picture: more cannot be seen, and make the files larger


def main() -> None:
    """Write a picture of each page, light and dark."""
    with tempfile.TemporaryDirectory() as folder, ServedConsole(Path(folder)) as served:
        fill(served.bootstrap, served.url)
        consume(served.bootstrap, "auditors", "payments", count=20).close()
        member = consume(served.bootstrap, "billing", "orders", count=200)
        post(served.url, "produce", topic="orders", value="late", copies=7)
        post(served.url, "lab", operation="high_watermark.hold", topic="payments", partition="0")
        post(served.url, "produce", topic="payments", partition="0", value="held", copies=6)
        assert get(served.url, "/group.json?id=billing")["state"] == "Stable"
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-background-networking"]
            )
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            for name, (path, scroll) in PAGES.items():
                page.goto(served.url + path)
                page.mouse.wheel(0, scroll)
                page.wait_for_timeout(500)  # the blocks that follow changes have arrived
                take(page, name)
            browser.close()
        member.close()


def take(page: Page, name: str) -> None:
    """Write the pictures of a page, in few colours."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        few = picture.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        few.save(FOLDER / f"console-{name}-{scheme}.png", optimize=True)


if __name__ == "__main__":
    main()
