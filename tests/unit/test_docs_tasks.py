"""The table of tasks in docs/configuration.md."""

import re

from bench.config.choices import TASKS
from bench.plugins.hf.check import PREPARED
from bench.setup.checkout import ROOT
from bench.worker.workload import tasks

PAGE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")


def test_the_table_of_tasks_names_the_head_of_each() -> None:
    listed = dict(re.findall(r"^\| `([a-z-]+)` \| `(AutoModelFor\w+)` \|", PAGE, re.MULTILINE))
    assert listed == {task: tasks.make(task).head for task in TASKS}


def test_the_tasks_without_a_preparation_of_datasets_are_named() -> None:
    sentence = re.search(r"Real datasets \(`data=hf`\) serve all but (.*?)\n\n", PAGE, re.DOTALL)
    assert sentence is not None
    assert {*re.findall(r"`([a-z-]+)`", sentence[1])} == {*TASKS} - {*PREPARED}
