"""`model.module`: how the user's module is named, found, hashed and combined with other settings."""

import importlib
import os
import sys
from operator import attrgetter
from pathlib import Path

import pytest

from bench.config.choices import BEST_ATTENTION
from bench.config.compose import compose
from bench.config.identity import config_hash, measured_settings
from bench.errors import UserError
from bench.measure.plan.resolve import resolve
from bench.plugins.user_model.file import find_file, hash_code, keep_bytecode_of

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command is typed: a file that imports another one, and a package."""
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "net.py": "import torch\nimport parts\n",
        "parts.py": "WIDTH = 8\n",
        "unused.py": "",
        "sub/net.py": "from . import nothing\n",
        "mypackage/__init__.py": "raise SystemExit\n",
        "mypackage/inner/net.py": "",
        "broken.py": "class Net\n",
    }.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    return tmp_path


def refusal(*overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        config_hash(compose(overrides))
    return str(caught.value)


def test_a_module_alone_makes_a_comparison_with_eager_attention_and_no_length() -> None:
    config = compose(["model.module=net.py:OwnGPT", "+model.config.width=8"])
    assert (config.model.name, config.model.task, config.seq_len) == ("own-gpt", "own", None)
    assert config.model.config == {"width": 8}
    assert config.attention_of("pytorch_best") == BEST_ATTENTION
    assert config.backends["pytorch_best"].optimizer == "adamw_fused"
    assert compose(["model.module=net.py:Net", "model.name=mine", "seq_len=16"]).seq_len == 16


@pytest.mark.parametrize(
    ("overrides", "data", "lengths"),
    [
        (["model.module=net.py:OwnGPT"], "example_batch", ""),
        (["model.module=net:Net", "seq_len=16"], "example_batch", ""),
        (["model=bert-tiny"], "synthetic", "uniform"),
    ],
)
def test_the_rows_say_that_a_module_makes_its_own_batches(
    overrides: list[str], data: str, lengths: str
) -> None:
    config = compose([*overrides, "device=cpu", "device.world_size=1"])
    plan = resolve(config, "name", gpus=[], cores=[(0,)])
    assert {(one.workload.data, one.workload.lengths) for one in plan.records.values()} == {(data, lengths)}


def test_a_model_without_a_module_is_what_it_was_before_there_were_any() -> None:
    assert "module" not in measured_settings(compose(["model=bert-tiny"]))["model"]


@pytest.mark.parametrize(
    ("module", "file"),
    [
        ("net.py:Net", "net.py"),
        ("sub/net.py:make_net", "sub/net.py"),
        ("net:Net", "net.py"),
        ("mypackage.inner.net:Net", "mypackage/inner/net.py"),
        ("mypackage:Net", "mypackage/__init__.py"),
    ],
)
def test_the_file_is_found_from_where_the_command_is_typed_and_not_run(
    module: str, file: str, code: Path
) -> None:
    assert find_file(module).absolute() == code / file


def test_an_installed_package_is_found() -> None:
    assert find_file("bench.config.user_model:USER_MODEL").name == "user_model.py"


def test_the_code_and_what_it_imports_from_its_own_folder_are_measured() -> None:
    assert [*hash_code("net.py:Net")] == ["net.py", "parts.py"]
    assert [*hash_code("mypackage.inner.net:Net")] == ["../__init__.py", "net.py"]
    hashes = [config_hash(compose(["model.module=net.py:Net"]))]
    for name, text in (("unused.py", "1\n"), ("parts.py", "WIDTH = 9\n"), ("net.py", "import torch\n")):
        Path(name).write_text(text)
        hashes.append(config_hash(compose(["model.module=net.py:Net"])))
    assert hashes[0] == hashes[1]
    assert len({*hashes}) == 3


@pytest.mark.parametrize(
    ("where", "name"), [("net.py:N", "parts"), ("net:N", "parts"), ("own.net:N", "own.net")]
)
def test_code_that_is_changed_and_keeps_its_time_and_size_is_the_code_that_runs(
    where: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = Path(f"{name.replace('.', '/')}.py")
    file.parent.mkdir(exist_ok=True)
    seen: list[int] = []
    for keeps in (False, False, True, True):
        file.write_text(f"WIDTH = {len(seen)}\n")
        os.utime(file, (1e9, 1e9))
        monkeypatch.delitem(sys.modules, name, raising=False)
        if keeps:
            keep_bytecode_of(where)
        seen.append(importlib.import_module(name).WIDTH)
    assert seen == [0, 0, 2, 3], "the second is what Python itself would take: bytecode of before"


def test_relative_imports_and_those_through_folders_without_init_are_followed() -> None:
    Path("net.py").write_text("def f():\n    from sub import net\n")
    Path("sub/net.py").write_text("from .deep.other import Name\nfrom .. import unused\n")
    Path("sub/deep").mkdir()
    Path("sub/deep/other.py").write_text("import numpy, parts\n")
    found = {"net.py", "sub/net.py", "sub/deep/other.py", "parts.py", "unused.py"}
    assert {*hash_code("net:Net")} == {*hash_code("net.py:Net")} == found


@pytest.mark.parametrize("name", ["mypackage.inner.net", "mypackage"])
def test_what_any_file_of_a_package_imports_from_the_current_folder_is_measured(name: str) -> None:
    Path("mypackage/other.py").write_text("from . import inner\nimport sub.net\nimport parts\n")
    Path("mypackage/template.py").write_text("not Python\n")
    beside = find_file(f"{name}:Net").parent
    hashed = {(beside / path).resolve() for path in hash_code(f"{name}:Net")}
    files = ("parts.py", "sub/net.py", "mypackage/inner/net.py")
    assert {Path(file).resolve() for file in files} < hashed


def test_an_installed_package_is_measured_alone() -> None:
    assert {*hash_code("yaml:Net")} > {"__init__.py", "nodes.py"}
    assert not any(".." in name for name in hash_code("yaml:Net"))


MINE = "model.module=net.py:Net"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ("model.module=net.py", "does not name a class or function"),
        ("model.module=net.py:", "write path/to/file.py:Name or package.module:Name"),
        ("model.module=nett.py:Net", "there is no file"),
        ("model.module=mypackage.outer.net:Net", "Python finds no module mypackage.outer.net"),
        ("model.module=broken.py:Net", "broken.py is not valid Python"),
        (f"{MINE} model=bert-tiny", "model.architecture=bert belongs to transformers' models"),
        ("model.task=own model=bert-tiny", "none is given; leave it out, or set model.module="),
        (f"{MINE} model.task=causal-lm", "model.task=causal-lm belongs to transformers' models"),
        (f"{MINE} model.pretrained=x/y", "model.pretrained=x/y belongs to transformers'"),
        (f"{MINE} model.size=mini", "model.size=mini belongs to transformers' models"),
        (f"{MINE} model.trained=head", "have your class do it"),
        (f"{MINE} data=python_docs", "read the data in example_batch"),
        (f"{MINE} data=hf", "leave data out, and read the data in example_batch"),
        (f"{MINE} attention=sdpa", "computes its attention itself"),
        (f"{MINE} backend=[pytorch,pytorch_sdpa]", "backends.pytorch_sdpa cannot set"),
    ],
)
def test_what_does_not_fit_a_module_is_refused_in_a_sentence(overrides: str, words: str) -> None:
    said = refusal(*overrides.split())
    assert words in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("experiment", "part", "of_bert_tiny", "of_a_module"),
    [
        ("advise", "data.lengths", "full", "uniform"),
        *((name, "model.size", "mini", "published") for name in ("matrix", "choices")),
    ],
)
def test_experiments_with_full_samples_or_miniatures_take_a_module_as_it_is(
    experiment: str, part: str, of_bert_tiny: str, of_a_module: str
) -> None:
    line, found = [f"experiment={experiment}", "device=cpu", "backend=[pytorch]"], attrgetter(part)
    assert found(compose([*line, "model=bert-tiny"])) == of_bert_tiny
    assert found(compose([*line, MINE])) == of_a_module


def test_nor_are_samples_of_a_dataset_full() -> None:
    line = ["experiment=advise", "device=cpu", "backend=[pytorch]"]
    theirs = ["data=hf", "data.path=x", "data.processor=y"]
    assert compose([*line, "model=bert-tiny", *theirs]).data.lengths == "uniform"
