"""What README, CONTRIBUTING and docs/ name exists, and their figures are those of the committed results."""

import dataclasses
import json
import re
import shutil
import typing
from functools import cache
from pathlib import Path
from types import NoneType, UnionType

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from bench.config.choices import CONF
from bench.config.compose import compose
from bench.config.measure import Measure, MeasureWithStudies
from bench.config.schema import Config
from bench.report.closing_words import print_rest, print_verdict
from bench.report.content.collection import read_comparison
from tests.support.git import COMMITTED
from tests.support.pages import (
    PAGES,
    ROOT,
    Command,
    code_spans,
    commands,
    defines,
    files_shown,
    links,
    text_of,
)

pytestmark = pytest.mark.once

PLACES = ("bench", "conf", "containers", "docs", "reports", "requirements", "results", "tests")
GENERATED = ("results/runs/cuda-cache", ".venv")
"""What is not in a checkout until something has been run."""

PLACEHOLDER = re.compile(r"[<…]|NAME")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
OF_SWEEPS = ("parts", "model")
"""Settings of `make matrix` and `make gpu-campaign` that are no overrides of a comparison."""

GROUPS = {
    folder.name: {path.stem for path in folder.glob("*.yaml")} for folder in CONF.iterdir() if folder.is_dir()
}


def paths_named(page: str) -> list[str]:
    """Paths of the checkout in backticks, also with a function; not those that the page lets one write."""
    spans = [span for span in code_spans(page) if re.match(rf"({'|'.join(PLACES)})/\S*$", span)]
    return [
        span
        for span in spans
        if not PLACEHOLDER.search(span) and not span.startswith(GENERATED) and span not in files_shown(page)
    ]


def schema_has(dotted: str) -> bool:
    """Whether a dotted key is one of the configuration's, or lies in a mapping of it."""
    kind: object = Config
    for key in dotted.split("."):
        if isinstance(kind, UnionType):  # with None
            (kind,) = (one for one in typing.get_args(kind) if one is not NoneType)
        if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
            return typing.get_origin(kind) is dict
        hints = typing.get_type_hints(MeasureWithStudies if kind is Measure else kind)
        if key not in hints:
            return False
        kind = hints[key]
    return True


def overrides_of(command: Command) -> list[str] | None:
    """The overrides of one comparison; None for a command that takes none."""
    if command.target is None:
        return [word for word in command.words[3:] if "=" in word]
    if command.target not in ("bench", "sweep", "overhead", "matrix", "gpu-campaign"):
        return None
    given = command.variables
    words = given.get("ARGS", "").split()
    if command.target in ("matrix", "gpu-campaign"):
        return [word for word in words if word.partition("=")[0] not in OF_SWEEPS]
    if "MODEL" in given:
        words.append(f"model={given['MODEL']}")
    if "GPUS" in given:
        words += ["device=cuda", f"device.world_size={given['GPUS']}"]
    return words


def points(overrides: list[str]) -> list[str]:
    """The same overrides with the first value of each that is swept over; the others must be choices too."""
    first = []
    for override in OverridesParser.create().parse_overrides(overrides):
        if not override.is_sweep_override():
            first.append(override.input_line)
            continue
        values = [str(value) for value in override.sweep_iterator()]
        assert set(values) <= GROUPS.get(override.key_or_group, set(values))
        first.append(f"{override.key_or_group}={values[0]}")
    return first


def test_readme_is_read_in_a_minute_and_docs_in_an_hour() -> None:
    assert len(text_of("README.md").splitlines()) <= 90
    words = {page: len(text_of(page).split()) for page in PAGES if page.startswith("docs/")}
    assert sum(words.values()) <= 15_000
    assert words["docs/methodology.md"] <= 2_000


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    assert [str(target) for target, _ in links(page) if not target.exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_to_a_place_on_a_page_leads_to_it(page: str) -> None:
    """To a heading, by GitHub's rule, or to a comparison's section of a report."""
    linked = [(target, anchor) for target, anchor in links(page) if anchor and target.suffix == ".md"]
    assert [anchor for target, anchor in linked if anchor not in anchors_of(target)] == []


@cache
def anchors_of(page: Path) -> frozenset[str]:
    text = page.read_text(encoding="utf-8")
    headings = re.findall("^#+ (.*)", text, re.MULTILINE)
    slugs = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    return frozenset([*slugs, *re.findall('<a id="(.*?)">', text)])


def test_the_index_links_to_every_page_of_docs() -> None:
    linked = {target.resolve() for target, _ in links("docs/README.md")}
    assert {ROOT / page for page in PAGES if page.startswith("docs/")} - linked == {ROOT / "docs/README.md"}


@pytest.mark.parametrize("page", PAGES)
def test_every_file_and_function_in_backticks_exists(page: str) -> None:
    missing = []
    for span in paths_named(page):
        path, _, name = span.partition(":")
        found = list(ROOT.glob(path.rstrip("/")))
        if not found or (name and not defines(found[0], name)):
            missing.append(span)
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_every_module_in_backticks_exists(page: str) -> None:
    spans = [span.removeprefix("python -m ").split()[0] for span in code_spans(page)]
    modules = [span for span in spans if re.fullmatch(r"(bench|tests)(\.\w+)+", span)]
    missing = [
        name
        for name in modules
        if not (path := ROOT / name.replace(".", "/")).is_dir() and not path.with_suffix(".py").exists()
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_and_variable_exists(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    (known,) = re.findall(r"^KNOWN := (.*)$", MAKEFILE, re.MULTILINE)
    for command in commands(page):
        if command.target is not None:
            assert command.target in targets, command.line
            assert set(command.variables) <= set(known.split()), command.line


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_command_composes(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "my" / "conf" / "model" / "mine.yaml"  # which the configuration's page has one write
    mine.parent.mkdir(parents=True)
    shutil.copy(CONF / "model" / "bert-tiny.yaml", mine)
    (tmp_path / "my" / "folder").mkdir()  # a checkpoint of the user's
    config = {"model_type": "bert", "architectures": ["BertForMaskedLM"]}
    (tmp_path / "my" / "folder" / "config.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    for command in commands(page):
        overrides = overrides_of(command)
        if (
            overrides is None
            or "…" in command.line
            or any(name in command.line for name in shown_names(page))
        ):
            continue
        composed(tuple(points(overrides)))


@cache
def composed(overrides: tuple[str, ...]) -> Config:
    """Pages repeat each other's commands."""
    return compose(overrides)


def shown_names(page: str) -> list[str]:
    """Names of the choices that the page lets one add; its own test composes them."""
    return [Path(path).stem for path in files_shown(page) if path.startswith("conf/")]


@pytest.mark.parametrize("page", PAGES)
def test_every_override_in_prose_has_a_known_group_or_key(page: str) -> None:
    words = [
        word
        for span in code_spans(page)
        for word in span.split()
        if not span.startswith(("make", "python")) and re.match(r"[a-z_.]+=\S", word)
    ]
    for word in words:
        key, _, value = word.partition("=")
        if key.startswith("hydra.") or key in (*OF_SWEEPS[:2], "group", "key"):
            continue
        choices = [] if PLACEHOLDER.search(value) else value.strip("[]").split(",")
        if key in GROUPS:
            assert set(choices) <= GROUPS[key], word
        else:
            assert schema_has(key), word


@pytest.mark.parametrize("page", PAGES)
def test_every_dotted_key_in_prose_is_one_of_the_configuration(page: str) -> None:
    keys = "|".join(name for name in typing.get_type_hints(Config) if name in {*GROUPS, "adam"})
    spans = [span for span in code_spans(page) if re.fullmatch(rf"({keys})(\.[a-z_]+)+", span)]
    assert [span for span in spans if not span.endswith(".py") and not schema_has(span)] == []


@pytest.mark.parametrize("group", ["data", "device", "experiment", "measure", "precision"])
def test_every_choice_stands_on_the_page_about_the_configuration(group: str) -> None:
    assert GROUPS[group] - set(code_spans("docs/configuration.md")) == set()


def test_the_page_for_contributors_explains_every_mark_as_pyproject_does() -> None:
    """Models and backends are added often, and `--help` lists them; marks are few."""
    marks = re.findall(
        r'^    "(\w+): (.*)",$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(marks) >= 6
    for mark, meaning in marks:
        assert f"| `{mark}` | {meaning} |" in text_of("CONTRIBUTING.md")


INTEL = COMMITTED / "results" / "intel-family6-model207-2-cores-2ffd" / "bench"
CLOSING = {
    "README.md": COMMITTED / "results/amd-family25-model17-2-cores-b93e-b66ab9/bench/bert-mini-cpux2.csv",
    "docs/tutorial.md": INTEL / "own-gpt-cpux2-module-own_gpt-py-owngpt-d453.csv",
}
"""The pages that show what the end of a comparison says, and the results that it was of."""


@pytest.mark.parametrize("page", CLOSING)
def test_the_end_of_make_bench_on_a_page_is_what_it_prints(
    page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page may leave lines out, and shows no rules."""
    monkeypatch.chdir(COMMITTED)
    comparison = read_comparison(CLOSING[page])
    print_verdict(comparison)
    print_rest(comparison, [CLOSING[page]], compose(comparison.overrides), interrupted=False)
    printed = iter(line.rstrip() for line in capsys.readouterr().out.splitlines())
    (block,) = re.findall(r"^```\n(Faster than .*?)^```$", text_of(page), re.MULTILINE | re.DOTALL)
    for line in filter(None, block.splitlines()):
        assert line in printed, line


MEASURED = re.compile(r"\b(\d\.\d{3})×? \[(\d\.\d{3}), (\d\.\d{3})\]")


@pytest.mark.parametrize("page", PAGES)
def test_every_ratio_with_an_interval_stands_in_a_report(page: str) -> None:
    """Which `make report` makes of the results. A table below a study's command is tested with the study."""
    known = {found for path in (COMMITTED / "reports").rglob("*.md") for found in measured_in(path)}
    of_the_core = re.sub(r"python -m bench\.studies\.[^|]*\n\n(\|.*\n)+", "", text_of(page))
    assert set(MEASURED.findall(of_the_core)) - known == set()


@cache
def measured_in(path: Path) -> frozenset[tuple[str, ...]]:
    return frozenset(MEASURED.findall(path.read_text(encoding="utf-8")))


def test_how_often_a_backend_is_faster_is_what_each_machines_page_says() -> None:
    rows = re.findall(
        r"^\| \[.+?\]\((\.\./reports/.+?)\) \| (.+) \|$", text_of("docs/answer.md"), re.MULTILINE
    )
    assert len(rows) >= 5
    for link, cells in rows:
        page = (COMMITTED / "docs" / link).resolve().read_text(encoding="utf-8").replace("*", "")
        for cell in cells.removeprefix("faster on ").split(" | "):
            assert f"| {cell} |" in page


@pytest.mark.parametrize(
    "page", sorted((ROOT / "bench").rglob("README.md")), ids=lambda page: page.parent.name
)
def test_the_files_that_a_package_names_exist(page: Path) -> None:
    spans = re.findall(r"`([\w./]+\.(?:py|yaml|md|csv))(?::[\w.]+)?`", page.read_text(encoding="utf-8"))
    there = [file.as_posix() for place in ("bench", "conf") for file in (ROOT / place).rglob("*.*")]
    missing = [name for name in spans if not any(file.endswith(f"/{name}") for file in there)]
    assert spans, "it says in which order its files are read"
    assert [name for name in missing if name != "NAME.py"] == []
