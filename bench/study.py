"""Studies: questions beside the one that a comparison answers, each with all that is its own in one folder.

A folder `bench/studies/NAME` is a study. It may have these modules, and whatever they need:

| module | what the core takes of it |
| --- | --- |
| `__init__.py` | `STUDY`: the question, and the configurations that ask it; imports nothing but this module |
| `settings.py` | `Settings`: keys of `measure`, `UNHASHED` those that no hash has; others only if not null |
| `checks.py` | `check`: refuses a `bench.config.schema.Config` |
| `stage.py` | `STAGE`: a `bench.measure.stages.stage.Stage` that asks groups of ranks, and writes a table |
| `watch.py` | `WATCH`: of a `Run`, `look`s at a group that was built or timed in a block, and `write`s |
| `cells.py` | `make_cells`: cells of a block's row, of its `Record`, steps and seconds |
| `messages.py` | requests of `bench.launch.messages.Request`, with the module that answers them in a rank |
| `table.py` | `TABLE`: the `bench.results.side_files.SideFile` that is written beside the results file |
| `section.py` | what is said of a `ReportedComparison`: `make_notes`, `make_blocks`, `make_facts` (page), |
| | `make_answer`, `make_closing` (end of `make bench`), or some; a note is a backend and words |
| `warnings.py` | `find_warnings` of rows: kind, what was seen, and the remedy |
| `chart.py` | `make_chart` of what it `can_show`; `NAME` of its file, `CAPTION` |
| `figures.py` | `planned_figures`: pictures of a machine's page, of the families of its comparisons |
| `commands.py` | `COMMANDS` of `python -m bench.report`: of `content.study_commands.StudyCommand` |
| `pages.py` | `PAGE`: a `bench.report.content.study_pages.StudyPage`, which is made of many comparisons |

The core finds folders and imports by these names; without the folder there is no such study.

What a user asks for that answers no question, such as several nodes, is a folder of `bench/plugins/`.
"""

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).parent / "studies"


@dataclass(frozen=True, kw_only=True)
class Study:
    """One study."""

    answers: str  # which question, in a sentence
    command: str  # by which it is asked: of make, or a setting of `make bench`
    # whether a `bench.config.schema.Config` asks for its stage
    is_wanted: Callable[[Any], bool] = lambda config: False  # noqa: ARG005
    # steps of every block of a `Config`, where training is followed: launches then differ in their seed
    block_steps: Callable[[Any], int | None] = lambda config: None  # noqa: ARG005
    file_word: str = ""  # in the name of its results files, which then replace no others
    # what it adds to a comparison that did not ask for it, in words, and the configuration that then does
    adds: tuple[str, Callable[[Any], Any]] | None = None


@cache
def find_studies() -> dict[str, Study]:
    """Every study that is there, by its folder's name."""
    names = sorted(module.name for module in pkgutil.iter_modules([str(FOLDER)]) if module.ispkg)
    modules = {name: import_module(f"bench.studies.{name}") for name in names}
    return {name: module.STUDY for name, module in modules.items() if hasattr(module, "STUDY")}


def load_part(study: str, part: str) -> ModuleType | None:
    """A module of a study, by its file's name; None if it has none."""
    name = f"bench.studies.{study}.{part}"
    return import_module(name) if find_spec(name) else None


def load_parts(part: str) -> dict[str, ModuleType]:
    """This module of every study that has it."""
    parts = {name: load_part(name, part) for name in find_studies()}
    return {name: module for name, module in parts.items() if module is not None}


def load_wanted(part: str, config: Any) -> list[ModuleType]:
    """This module of every study that a `bench.config.schema.Config` asks for, if it has it."""
    modules = [load_part(name, part) for name, study in find_studies().items() if study.is_wanted(config)]
    return [module for module in modules if module is not None]


def from_parts(part: str, function: str, *arguments: Any) -> list[Any]:
    """What a function of a module returns, of all studies that have it, one after the other."""
    functions = [getattr(module, function, None) for module in load_parts(part).values()]
    return [each for make in functions if make for each in make(*arguments)]


def block_steps(config: Any) -> int | None:
    """The steps that a study gives every block; None where blocks last for a time."""
    return next(filter(None, (study.block_steps(config) for study in find_studies().values())), None)


def load_plugin(module: str) -> ModuleType:
    """A module of `bench/plugins/`, which nothing else may import."""
    return import_module(f"bench.plugins.{module}")
