"""The page: in a real browser where there is one, and escaped in any case."""

import html
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.compare.__main__ import main as compare
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
        folder / "results" / "good.csv", comparison({"pytorch": [[2.0], [2.0]], "ortmodule": [[2.2], [2.2]]})
    )
    render_report(folder / "results", folder / "reports")
    return folder / "reports"


def test_foreign_text_is_whole_and_harmless_everywhere(reports: Path) -> None:
    page = (reports / "index.html").read_text(encoding="utf-8")
    assert "http:" not in page, "it needs nothing from elsewhere"
    assert "https:" not in page
    assert EVIL not in page
    assert html.escape(EVIL) in page
    assert "<img src=x" not in page
    assert "Ünïcode 日本" in page
    for path in (*reports.glob("*.md"), *reports.glob("*.svg")):
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
    assert compare([str(path), str(path), "--format=markdown"]) == 0
    assert EVIL not in capsys.readouterr().out


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


def test_a_model_s_name_leads_to_its_comparison_and_unfolds_it(browser: Any, reports: Path) -> None:
    from selenium.webdriver.common.by import By

    browser.get((reports / "index.html").as_uri())
    assert browser.execute_script("return document.querySelectorAll('details[open]').length") == 0
    link = browser.find_element(By.CSS_SELECTOR, "td a[href^='#']")
    target = link.get_attribute("href").rpartition("#")[2]
    link.click()
    (opened,) = browser.find_elements(By.CSS_SELECTOR, "details[open]")
    assert f"results file: /{target}.csv" in opened.text.replace("bench/", "/")
    broken = "return [...document.images].filter(image => !image.complete || !image.naturalWidth).length"
    assert browser.execute_script(broken) == 0
    assert browser.get_log("browser") == []
