"""Pages of the console in Chromium: no error, no request to other machines, no finding of axe-core; keyboard, small screens, changes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from minibroker.console.table import PAGES
from tests.console.scene import HOSTILE, LEGAL, get, post
from tests.console.served import ServedConsole
from tests.console.test_site import address_of
from tests.support.becoming import becomes
from tests.support.soak import IS_SOAK

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian: apt-get install chromium)")
AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()
ARGUMENTS = ["--no-sandbox", "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
TIMEOUT_MS = 20_000
TALL = 900
#: Width of the screen and colours. Each page is loaded once and then shown in all of them.
SCREENS = ((1440, "light"), (360, "dark"), *(((1440, "dark"), (360, "light")) if IS_SOAK else ()))
#: Pages that an empty broker has as well.
LISTS = [path for path, page in PAGES.items() if page.section in {"", "/"}]
#: Pages about things with hostile names, or with hostile content.
HOSTILE_PAGES = (
    f"/topic?name={LEGAL}", f"/records?topic={LEGAL}", f"/produce?topic={LEGAL}", f"/partition?topic={LEGAL}&partition=0",
    "/record?topic=hostile&partition=0&offset=1", "/batch?topic=hostile&partition=0&offset=0", f"/group?id={quote(HOSTILE, safe='')}",
    "/nothing", "/login",
)  # fmt: skip
#: Everything that axe-core has, also what it calls best practices.
AUDIT = (
    "axe.run(document, {resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"
)
#: Waits until the page has seen a new size: it makes what scrolls then focusable.
LAID_OUT = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"

#: What records could have become, if a page did not escape them.
MADE_BY_RECORDS = "document.querySelectorAll('main script, main img, main iframe, main [onerror]').length"


class Pages:
    """Opens pages, and collects what they must not do."""

    def __init__(self, browser: Any, served: ServedConsole, **options: Any) -> None:
        self._context = browser.new_context(**options)
        self._context.set_default_timeout(TIMEOUT_MS)
        self._served = served
        self.page = self._context.new_page()
        self.problems: list[str] = []
        self.request_count = 0
        self.allows_failures = False  #: while the broker is away
        self.page.on("console", self._note_message)
        self.page.on("pageerror", lambda error: self.problems.append(f"{self.page.url}: {error}"))
        self.page.on("request", self._note_request)
        self.page.on("dialog", self._note_dialog)

    def _note_message(self, message: Any) -> None:
        if message.type in {"error", "warning"} and not self.allows_failures:
            self.problems.append(f"{self.page.url}: {message.text}")

    def _note_request(self, request: Any) -> None:
        self.request_count += 1
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

    def inspect(self, path: str, *, is_failure: bool = False) -> None:
        """Load a page once, and collect what is wrong with it on each screen. Chromium reports statuses from 400 on as errors."""
        self.allows_failures = is_failure
        page = self.open(path)
        page.evaluate(AXE)
        for width, scheme in SCREENS:
            page.set_viewport_size({"width": width, "height": TALL})
            page.emulate_media(color_scheme=scheme)
            page.evaluate(LAID_OUT)
            found = page.evaluate(AUDIT)["violations"]
            self.problems += [
                f"{path} at {width} px, {scheme}: {each['id']}: {node['html'][:200]} {node.get('failureSummary', '')}"
                for each in found
                for node in each["nodes"]
            ]
            if page.evaluate("document.documentElement.scrollWidth") > width:
                self.problems.append(f"{path} is wider than {width} px")
        if page.evaluate(MADE_BY_RECORDS):
            self.problems.append(f"{path} has an element of a record")

    def close(self) -> None:
        self._context.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def pages(browser: Any, filled: ServedConsole) -> Iterator[Pages]:
    found = Pages(browser, filled, viewport={"width": 1440, "height": 900})
    yield found
    found.close()
    assert found.problems == []


def test_pages_are_accessible_and_fit(browser: Any, filled: ServedConsole) -> None:
    pages = Pages(browser, filled)
    for path in PAGES:
        pages.inspect(address_of(filled, path) if path != "/requests" else "/requests?api=JoinGroup")  # a hundred rows are slow to audit
    pages.close()
    assert pages.problems == []
    assert pages.request_count > 3 * len(PAGES)  # page, style sheet, script: what leaves the machine would have been seen


def test_hostile_names_and_records_stay_text_and_fit(browser: Any, filled: ServedConsole) -> None:
    pages = Pages(browser, filled)
    client = get(filled.url, "/clients.json?q=<script>")["clients"]
    for path in (*HOSTILE_PAGES, *(f"/client?number={each['number']}" for each in client[:1])):
        pages.inspect(path, is_failure=path == "/nothing")
    sync_api.expect(pages.open("/record?topic=hostile&partition=0&offset=1").locator("pre.bytes").last).to_contain_text("ff fe 00 01")
    pages.close()
    assert pages.problems == []


def test_problems_of_pages_are_found(browser: Any, filled: ServedConsole) -> None:
    """The inspection would see each kind of problem."""
    pages = Pages(browser, filled)
    pages.page.route("**/static/console.css", lambda route: route.fulfill(body="body { width: 2000px; color: #ccc; background: #ddd; }"))
    pages.page.route("**/topics", lambda route: route.fulfill(content_type="text/html", body=BROKEN))
    pages.inspect("/topics")
    pages.close()
    for problem in ("color-contrast", "wider than 360 px", "element of a record", "localhost.invalid", "is not defined", "dialog: 1"):
        assert any(problem in each for each in pages.problems), problem


BROKEN = """<!doctype html><html lang="en"><title>Broken</title><link rel="stylesheet" href="/static/console.css">
<main><h1>Broken</h1><p>Text</p><img alt="" src="http://localhost.invalid/x"><script>alert(1); missing()</script></main>"""


@pytest.fixture(scope="module")
def spare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedConsole]:
    """A broker that is empty at first. Tests after the first one fill and kill it."""
    with ServedConsole(tmp_path_factory.mktemp("spare"), "--registry-port", "0") as served:
        yield served
        served.broker.kill()  # flushing 10,000 logs takes long


def test_an_empty_broker_has_pages_for_everything(browser: Any, spare: ServedConsole) -> None:
    assert get(spare.url, "/index.json")["partition_count"] == 0
    pages = Pages(browser, spare)
    for path in LISTS:
        pages.inspect(path)
    pages.close()
    assert pages.problems == []


def test_a_visitor_logs_in_and_out(browser: Any, tmp_path: Path) -> None:
    users = ("--sasl", "ann:ann-secret", "--sasl", "root:root-secret", "--super-user", "root", "--acl", "ann allow READ TOPIC visible")
    with ServedConsole(tmp_path, *users, has_lab=False) as served:
        pages = Pages(browser, served)
        pages.inspect("/login")
        pages.allows_failures = True  # a wrong password is status 403, and so is a page that needs more
        page = pages.open("/topics")
        sync_api.expect(page).to_have_url(re.compile("/login$"))
        page.keyboard.type("ann")
        page.keyboard.press("Tab")
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
        sync_api.expect(page.locator("output")).to_contain_text("wrong user or password")
        page.get_by_label("Password").fill("ann-secret")
        page.keyboard.press("Enter")
        sync_api.expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        for path in ("/", "/access", "/clients"):
            pages.inspect(path, is_failure=path == "/clients")
        sync_api.expect(page.locator(".problem")).to_contain_text("CLUSTER_AUTHORIZATION_FAILED")
        page.get_by_role("button", name="Log out").click()
        sync_api.expect(page).to_have_url(re.compile("/login$"))
        pages.close()
        assert pages.problems == []


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


def tab_to(page: Any, target: Any) -> None:
    """Press Tab until an element has the focus, and check that the focus can be seen."""
    element = target.element_handle()
    for _ in range(60):
        page.keyboard.press("Tab")
        if element.evaluate("element => element === document.activeElement"):
            assert element.evaluate("element => getComputedStyle(element).outlineStyle") == "solid"
            return
    raise AssertionError(f"the keyboard does not reach {target}")


def test_a_record_is_produced_and_shown_by_the_keyboard_alone(pages: Pages) -> None:
    page = pages.open("/topics")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("q=orders"))
    tab_to(page, page.get_by_role("link", name="orders", exact=True))
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/topic\\?name=orders"))
    tab_to(page, page.get_by_role("link", name="Produce"))
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/produce"))
    tab_to(page, page.get_by_label("Key", exact=True))
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Tab")
    page.keyboard.type("typed")
    tab_to(page, page.get_by_role("button", name="Produce", exact=True))
    page.keyboard.press("Enter")
    sync_api.expect(page.locator("output")).to_contain_text("wrote offset")
    tab_to(page, page.get_by_role("link", name="Show", exact=True))
    page.keyboard.press("Enter")
    sync_api.expect(page.locator("#rows")).to_contain_text("by-keyboard")


def test_a_small_screen_has_a_menu_and_tables_that_do_not_scroll(browser: Any, filled: ServedConsole) -> None:
    pages = Pages(browser, filled, viewport={"width": 360, "height": 740})
    page = pages.open("/")
    link = page.get_by_role("link", name="Groups", exact=True)
    sync_api.expect(link).to_be_hidden()
    tab_to(page, page.get_by_role("button", name="Menu"))
    page.keyboard.press("Enter")
    tab_to(page, link)
    page.keyboard.press("Enter")
    sync_api.expect(page.get_by_role("heading", level=1)).to_have_text("Groups")
    page = pages.open("/partition?topic=payments&partition=0")
    assert page.locator("table.stack").count() >= 2
    assert page.evaluate("[...document.querySelectorAll('.scroll')].every((each) => each.scrollWidth <= each.clientWidth)")
    pages.close()
    assert pages.problems == []


def test_forms_show_the_fields_that_a_choice_needs(pages: Pages) -> None:
    page = pages.open("/records?topic=orders")
    offset = page.get_by_label("Offset", exact=True)
    sync_api.expect(offset).to_be_hidden()
    page.locator("select[name=from]").select_option("an offset")
    offset.fill("3")
    page.locator("select[name=partition]").select_option("0")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url(re.compile("offset=3"))
    sync_api.expect(page.get_by_label("Offset", exact=True)).to_be_visible()
    sync_api.expect(page.locator("#rows tr").first).to_contain_text("order-")


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


def test_pages_recover_when_the_broker_is_killed_and_started(browser: Any, spare: ServedConsole) -> None:
    post(spare.url, "topics/create", name="before", partitions="1")
    pages = Pages(browser, spare)
    page = pages.open("/topics?q=e")
    sync_api.expect(page.locator("[data-block=list]")).to_contain_text("before")
    sync_api.expect(page.locator(".lost")).to_be_hidden()
    page.evaluate("window.isSamePage = true")
    pages.allows_failures = True
    spare.broker.kill()
    sync_api.expect(page.locator(".lost")).to_be_visible()
    spare.broker.start()
    post(spare.url, "topics/create", name="after-the-end", partitions="1")
    sync_api.expect(page.locator("[data-block=list]")).to_contain_text("after-the-end")
    sync_api.expect(page.locator(".lost")).to_be_hidden()
    assert page.evaluate("window.isSamePage"), "the page was loaded again"
    pages.close()


def test_ten_thousand_topics_are_paged(browser: Any, spare: ServedConsole) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": spare.bootstrap})
    for start in range(0, 10_000, 1_000):
        new = [NewTopic(f"topic-{number:05d}", 1) for number in range(start, start + 1_000)]
        for future in admin.create_topics(new, request_timeout=60).values():
            future.result(60)
    pages = Pages(browser, spare)
    page = pages.open("/topics?q=topic-")
    sync_api.expect(page.locator("main")).to_contain_text("10,000 topics")
    page.get_by_role("link", name="Next").click()
    sync_api.expect(page.locator("main")).to_contain_text("topic-00050")
    pages.open("/topics?q=09999")
    sync_api.expect(page.locator("main")).to_contain_text("topic-09999")
    pages.inspect("/")
    sync_api.expect(page.locator("main")).to_contain_text(re.compile("10,00[0-9]"))
    pages.close()
    assert pages.problems == []


def test_a_value_of_60_mb_is_a_preview_with_a_download(browser: Any, spare: ServedConsole) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    size = 60_000_000
    settings = {"bootstrap.servers": spare.bootstrap}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic("huge", 1, config={"max.message.bytes": str(size + 1_000)})])["huge"].result(30)
    producer = Producer(settings | {"message.max.bytes": size + 1_000})
    producer.produce("huge", b'{"a": "' + b"x" * (size - 9) + b'"}', "the key")
    producer.produce("huge", "small")
    assert producer.flush(60) == 0
    pages = Pages(browser, spare)
    page = pages.open("/records?topic=huge")
    sync_api.expect(page.locator("#rows")).to_contain_text("the key")
    page.get_by_role("link", name="0", exact=True).click()
    sync_api.expect(page.locator("main")).to_contain_text("60.0 MB")
    assert len(page.content()) < 30_000
    with page.expect_download() as started:
        page.get_by_role("link", name="Download the value").click()
    content = started.value.path().read_bytes()
    assert (len(content), content[:7], content[-2:]) == (size, b'{"a": "', b'"}')
    page.get_by_role("link", name="Offset 1").click()
    sync_api.expect(page.locator("main")).to_contain_text("small")
    pages.close()
    assert pages.problems == []
