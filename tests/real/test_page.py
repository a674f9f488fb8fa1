"""The page: in a real browser where there is one, and escaped in any case."""

import html
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.plugins.compare.__main__ import main as compare
from bench.report.build import render_report
from bench.report.content.collection import read_comparison
from bench.report.pages.comparison import render_terminal
from bench.results import csv_files
from bench.results.records import Record
from tests.support.factories import comparison, failed, workload
from tests.support.result_files import write_records, write_rows

pytestmark = pytest.mark.once

EVIL = "<script>alert(1)</script>"
MESSAGE = 'comma, "quotes"\nnew line; Ünïcode 日本 </td><img src=x onerror=alert(2)> [red]markup[/red]'


def records() -> list[Record]:
    return [
        *comparison(
            {
                "pytorch": [[2.0], [2.01], [1.99]],
                "ortmodule": [[1.5], [1.51], [1.49]],
                "ortmodule_zero1": [[2.5], [2.51], [2.49]],
            },
            workload=workload(model=EVIL),
        ),
        failed("compile", "crashed", MESSAGE, workload=workload(model=EVIL)),
    ]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    write_records(folder / "results" / "evil.csv", records())
    write_records(
        folder / "results" / "good.csv",
        comparison({"pytorch": [[2.0], [2.0]], "ortmodule": [[2.2], [2.2]]}),
    )
    render_report(folder / "results", folder / "reports")
    return folder / "reports"


def test_foreign_text_is_whole_and_harmless_everywhere(reports: Path) -> None:
    page = (reports / "index.html").read_text(encoding="utf-8")
    assert EVIL not in page
    assert html.escape(EVIL) in page
    assert "<img src=x" not in page
    assert "Ünïcode 日本" in page
    for path in reports.glob("*.md"):
        assert "<script" not in path.read_text(encoding="utf-8"), path
    for path in reports.glob("*.svg"):
        assert "<script" not in path.read_text(encoding="utf-8"), path
    rows = csv_files.read(reports.parent / "results" / "evil.csv")
    assert set(rows["model"]) == {EVIL}
    assert MESSAGE in set(rows["message"])


def test_foreign_text_is_whole_and_harmless_in_the_terminal_too(
    reports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = reports.parent / "results" / "evil.csv"
    console = Console(width=100, color_system=None)
    with console.capture() as captured:
        console.print(render_terminal(read_comparison(path)))
    shown = " ".join(captured.get().split())
    assert EVIL in shown
    assert (
        'comma, "quotes" new line; Ünïcode 日本 </td><img src=x onerror=alert(2)> [red]markup[/red]' in shown
    )
    other = csv_files.read(path).assign(model="[red]other[/red]|`x`")
    write_rows(reports.parent / "other.csv", other.to_dict("records"))
    assert compare([str(path), str(reports.parent / "other.csv")]) == 2
    assert f"model ({EVIL}, [red]other[/red]|`x`)" in capsys.readouterr().err
    assert compare([str(path), str(path), "--markdown"]) == 0
    assert EVIL not in capsys.readouterr().out


def test_the_page_needs_nothing_from_elsewhere(reports: Path) -> None:
    page = (reports / "index.html").read_text(encoding="utf-8")
    assert "http:" not in page
    assert "https:" not in page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("needs chromium and chromedriver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield started
    started.quit()


def column(browser: Any, number: int) -> list[str]:
    """The cells of the rows that are shown."""
    script = (
        "return [...document.querySelectorAll('table.sortable tbody tr')].filter(row => !row.hidden)"
        f".map(row => row.cells[{number}].textContent)"
    )
    found: list[str] = browser.execute_script(script)
    return found


def headers(browser: Any) -> list[str]:
    script = "return [...document.querySelectorAll('table.sortable th')].map(cell => cell.textContent.trim())"
    found: list[str] = browser.execute_script(script)
    return found


def test_the_table_sorts_and_filters_and_the_console_stays_empty(browser: Any, reports: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    browser.get((reports / "index.html").as_uri())
    browser.find_element(By.CSS_SELECTOR, "details:has(table.sortable) > summary").click()
    names = headers(browser)
    place = names.index("speed-up [95 %]")
    button = browser.find_elements(By.CSS_SELECTOR, "table.sortable th button")[place]
    button.send_keys(Keys.ENTER)  # by keyboard
    keys = (
        "return [...document.querySelectorAll('table.sortable tbody tr')]"
        ".map(row => row.cells[%d].dataset.key)"
    )
    up = [float(key) for key in browser.execute_script(keys % place) if key]
    assert up == sorted(up)
    assert len(up) == 5
    button.click()
    down = browser.execute_script(keys % place)
    assert [float(key) for key in down if key] == sorted(up, reverse=True)
    assert down[-1] == "", "what has no figure stays last"

    browser.find_element(By.ID, "filter-contains").send_keys("ortmodule_zero1")
    assert column(browser, names.index("backend")) == ["ortmodule_zero1"]
    assert browser.find_element(By.ID, "count").text == "1 of 6 rows"
    browser.find_element(By.ID, "filter-contains").clear()
    browser.find_element(By.ID, "filter-contains").send_keys(Keys.SPACE)
    browser.find_element(By.CSS_SELECTOR, "#filter-verdict option[value=faster]").click()
    assert set(column(browser, names.index("verdict"))) == {"faster"}

    browser.find_element(By.ID, "theme").click()
    theme = browser.execute_script("return document.documentElement.dataset.theme")
    assert theme in ("light", "dark")
    broken = "return [...document.images].filter(image => !image.complete || !image.naturalWidth).length"
    assert browser.execute_script(broken) == 0
    assert browser.get_log("browser") == []


@pytest.mark.exhaustive
@pytest.mark.parametrize(("width", "height"), [(400, 900), (1300, 900), (1920, 1080)])
def test_the_answer_stands_on_the_first_screen_and_everything_else_is_folded(
    browser: Any, reports: Path, width: int, height: int
) -> None:
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        browser.get((reports / "index.html").as_uri())
        bottom = "return document.querySelector('.machine table').getBoundingClientRect().bottom"
        assert browser.execute_script(bottom) < height
        first = browser.execute_script("return document.querySelector('.machine td').textContent")
        assert first.startswith("1 of 2")
        assert browser.execute_script("return document.querySelectorAll('main > details').length") > 3
        assert browser.execute_script("return document.querySelectorAll('details[open]').length") == 0
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        cut = (
            "return [...document.querySelectorAll('.machine .wide')]"
            ".filter(one => one.scrollWidth > one.clientWidth)"
        )
        assert width < 1300 or browser.execute_script(cut) == [], "the first table is seen whole"
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.exhaustive
def test_a_model_s_name_leads_to_its_comparison_and_unfolds_it(browser: Any, reports: Path) -> None:
    from selenium.webdriver.common.by import By

    browser.get((reports / "index.html").as_uri())
    link = browser.find_element(By.CSS_SELECTOR, ".machine tbody a")
    target = link.get_attribute("href").rpartition("#")[2]
    link.click()
    opened = browser.execute_script(
        "return [...document.querySelectorAll('details[open]')].map(one => one.id)"
    )
    assert opened == [target]
    assert "results file" in browser.find_element(By.ID, target).text


@pytest.mark.exhaustive
@pytest.mark.parametrize(("scheme", "ground"), [("light", 255), ("dark", 22)])
def test_the_page_follows_the_screen_s_theme_until_the_reader_changes_it(
    browser: Any, reports: Path, scheme: str, ground: int
) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    browser.get((reports / "index.html").as_uri())
    colour = "return getComputedStyle(document.body).backgroundColor"
    assert browser.execute_script(colour) == f"rgb({ground}, {ground}, {ground})"
    browser.execute_script("document.getElementById('theme').click()")
    assert browser.execute_script(colour) != f"rgb({ground}, {ground}, {ground})"
