"""Pages of the console in Chromium: no error, no request to other machines, no finding of axe-core; keyboard, small screens, changes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from minibroker.console.table import PAGES
from tests.console.scene import HOSTILE, get, post
from tests.console.served import ServedConsole
from tests.console.test_site import address_of
from tests.support.becoming import becomes

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian: apt-get install chromium)")
AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()
TIMEOUT_MS = 20_000


class Pages:
    """Opens pages, and collects what they must not do."""

    def __init__(self, browser: Any, served: ServedConsole, **options: Any) -> None:
        self._context = browser.new_context(**options)
        self._context.set_default_timeout(TIMEOUT_MS)
        self._served = served
        self.page = self._context.new_page()
        self.problems: list[str] = []
        self.allows_failures = False  #: while the broker is away
        self.page.on("console", self._note_message)
        self.page.on("pageerror", lambda error: self.problems.append(f"{self.page.url}: {error}"))
        self.page.on("request", self._note_request)
        self.page.on("dialog", self._note_dialog)

    def _note_message(self, message: Any) -> None:
        if message.type in {"error", "warning"} and not self.allows_failures:
            self.problems.append(f"{self.page.url}: {message.text}")

    def _note_request(self, request: Any) -> None:
        if urlsplit(request.url).hostname != "127.0.0.1":
            self.problems.append(f"{self.page.url} asks {request.url}")

    def _note_dialog(self, dialog: Any) -> None:
        if dialog.type == "confirm":
            dialog.accept()
        else:
            self.problems.append(f"{self.page.url} shows a dialog: {dialog.message}")
            dialog.dismiss()

    def open(self, path: str) -> Any:
        """Open a page of the console."""
        self.page.goto(self._served.url + path)
        return self.page

    def close(self) -> None:
        self._context.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-background-networking"])
        yield browser
        browser.close()


@pytest.fixture
def pages(browser: Any, filled: ServedConsole) -> Iterator[Pages]:
    found = Pages(browser, filled, viewport={"width": 1440, "height": 900})
    yield found
    found.close()
    assert found.problems == []


RULES = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}"
#: What colours and the size of the screen may break; the others were looked at before.
SHAPES = "{runOnly: {type: 'rule', values: ['color-contrast', 'scrollable-region-focusable', 'landmark-unique', 'target-size']}}"


def findings(page: Any, rules: str = RULES) -> list[str]:
    """Return what axe-core finds: rule and element."""
    page.evaluate(AXE)
    result = page.evaluate(f"axe.run(document, {rules})")
    return [
        f"{page.url}: {each['id']}: {node['html'][:200]} {node.get('failureSummary', '')}"
        for each in result["violations"]
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("width, scheme, rules", [(1440, "light", RULES), (360, "dark", SHAPES)], ids=["light", "dark"])
def test_pages_are_accessible_and_fit(browser: Any, filled: ServedConsole, width: int, scheme: str, rules: str) -> None:
    """Hostile names and values are on most pages."""
    pages = Pages(browser, filled, viewport={"width": width, "height": 900}, color_scheme=scheme)
    problems: list[str] = []
    for path in (*PAGES, "/login", "/nothing"):
        address = path if path in {"/login", "/nothing"} else address_of(filled, path)
        pages.allows_failures = path == "/nothing"  # Chromium reports the status 404
        page = pages.open(address)
        problems += findings(page, rules)
        if page.evaluate("document.documentElement.scrollWidth") > width:
            problems.append(f"{address} is wider than {width} px")
        if page.evaluate("document.querySelectorAll('main script, main img, main iframe').length"):
            problems.append(f"{address} has an element of a record")
    pages.close()
    assert problems + pages.problems == []


def test_an_empty_broker_has_pages_for_everything(browser: Any, tmp_path: Path) -> None:
    with ServedConsole(tmp_path) as served:
        pages = Pages(browser, served, viewport={"width": 360, "height": 900})
        problems: list[str] = []
        for path in PAGES:
            if path in {
                "/",
                "/topics",
                "/groups",
                "/transactions",
                "/clients",
                "/requests",
                "/charts",
                "/access",
                "/config",
                "/lab",
                "/doctor",
            }:
                problems += findings(pages.open(path), SHAPES)
        pages.close()
        assert problems + pages.problems == []


def test_the_live_tail_shows_records_as_they_are_appended(pages: Pages, filled: ServedConsole) -> None:
    page = pages.open("/records?topic=orders")
    page.get_by_role("button", name="Live tail").click()
    sync_api.expect(page.locator("#tail-status")).to_contain_text("0 new records")
    post(filled.url, "produce", topic="orders", value=f"arrives now {HOSTILE}")
    sync_api.expect(page.locator("#rows tr").first).to_contain_text("arrives now", timeout=1_000)
    post(filled.url, "produce", topic="orders", value="many", copies=500)
    sync_api.expect(page.locator("#tail-status")).to_contain_text("skipped")
    page.get_by_role("button", name="Live tail").click()
    sync_api.expect(page.locator("#tail-status")).to_contain_text("stopped")


def test_lag_follows_commits_without_a_reload(pages: Pages, filled: ServedConsole) -> None:
    page = pages.open("/group?id=auditors")
    before = page.locator("[data-block=offsets]").inner_text()
    post(filled.url, "groups/reset", id="auditors", to="latest")
    assert becomes(lambda: page.locator("[data-block=offsets]").inner_text() != before)
    post(filled.url, "groups/reset", id="auditors", to="earliest")


def test_a_record_is_produced_and_shown_by_the_keyboard_alone(pages: Pages) -> None:
    page = pages.open("/topics")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("q=orders"))
    page.get_by_role("link", name="orders", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/topic\\?name=orders"))
    page.get_by_role("link", name="Produce").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/produce"))
    page.get_by_label("Key", exact=True).focus()
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Tab")
    page.keyboard.type("typed")
    page.get_by_role("button", name="Produce", exact=True).focus()
    page.keyboard.press("Enter")
    sync_api.expect(page.locator("output")).to_contain_text("wrote offset")
    page.get_by_role("link", name="Show", exact=True).focus()
    page.keyboard.press("Enter")
    sync_api.expect(page.locator("#rows")).to_contain_text("by-keyboard")


def test_the_focus_stays_while_a_page_changes(pages: Pages, filled: ServedConsole) -> None:
    page = pages.open("/topics")
    page.get_by_role("link", name="payments").focus()
    post(filled.url, "produce", topic="payments", partition="0", value="x")
    count = str(get(filled.url, "/topics.json?q=payments")["topics"][0]["record_count"])
    sync_api.expect(page.locator("[data-block=list]")).to_contain_text(count)
    assert page.evaluate("document.activeElement.textContent") == "payments"


def test_a_reset_shows_its_plan_first(pages: Pages) -> None:
    page = pages.open("/group?id=auditors")
    page.locator("select[name=to]").select_option("latest")
    page.get_by_role("button", name="Preview").click()
    sync_api.expect(page.locator(".plan table")).to_contain_text("payments")
    page.get_by_role("button", name="Reset", exact=True).click()
    sync_api.expect(page.locator("[data-block=facts]")).to_contain_text("0")


def test_faults_are_injected_and_removed_by_the_mouse(pages: Pages, filled: ServedConsole) -> None:
    page = pages.open("/lab")
    page.get_by_role("button", name="Fetch is 2 s late").click()
    page.get_by_role("button", name="Inject").click()
    sync_api.expect(page.locator("[data-block=faults]")).to_contain_text('"ms": 2000')
    page.get_by_role("button", name="Remove fault").click()
    sync_api.expect(page.locator("[data-block=faults]")).to_contain_text("No fault")
    assert get(filled.url, "/lab.json")["faults"] == []


def test_pages_recover_when_the_broker_is_killed_and_started(browser: Any, tmp_path: Path) -> None:
    with ServedConsole(tmp_path) as served:
        post(served.url, "topics/create", name="before", partitions="1")
        pages = Pages(browser, served)
        page = pages.open("/topics")
        sync_api.expect(page.locator("[data-block=list]")).to_contain_text("before")
        pages.allows_failures = True
        served.broker.kill()
        sync_api.expect(page.locator(".lost")).to_be_visible()
        served.broker.start()
        post(served.url, "topics/create", name="after", partitions="1")
        sync_api.expect(page.locator("[data-block=list]")).to_contain_text("after")
        sync_api.expect(page.locator(".lost")).to_be_hidden()
        pages.close()


def test_ten_thousand_topics_are_paged(browser: Any, tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    with ServedConsole(tmp_path) as served:
        admin = AdminClient({"bootstrap.servers": served.bootstrap})
        for start in range(0, 10_000, 1_000):
            new = [NewTopic(f"topic-{number:05d}", 1) for number in range(start, start + 1_000)]
            for future in admin.create_topics(new, request_timeout=60).values():
                future.result(60)
        pages = Pages(browser, served)
        page = pages.open("/topics")
        sync_api.expect(page.locator("main")).to_contain_text("10,000 topics")
        page.get_by_role("link", name="Next").click()
        sync_api.expect(page.locator("main")).to_contain_text("topic-00050")
        pages.open("/topics?q=09999")
        sync_api.expect(page.locator("main")).to_contain_text("topic-09999")
        pages.open("/")
        sync_api.expect(page.locator("main")).to_contain_text("10,000")
        pages.close()
        assert pages.problems == []
