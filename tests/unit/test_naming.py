import itertools
import re

import pytest

from bench.config.compose import compose
from bench.config.naming import LONGEST, file_stem
from bench.config.schema import Config

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def config() -> Config:
    return compose(["device=cpu", "device.world_size=2"])


def named(*overrides: str) -> str:
    """The stem of what these overrides compose into, on a CPU with two ranks."""
    return file_stem(compose(["device=cpu", "device.world_size=2", *overrides]), "cpu", list(overrides))


def test_the_default_comparison_has_no_suffix(config: Config) -> None:
    assert file_stem(config, "cpu", []) == "bert-mini-cpux2"


def test_the_device_and_the_ranks_stand_in_the_name() -> None:
    config = compose(["device=cuda", "device.world_size=8"])
    assert file_stem(config, "h200", ["device=cuda", "device.world_size=8"]) == "bert-large-h200x8"


@pytest.mark.parametrize(
    "override",
    [
        "model=bert-mini",
        "device=cpu",
        "device.world_size=2",
        "measure=quick",
        "measure.rounds=20",
        "measure.batch=equal",
        "measure={rounds: 20, launches: 1}",
        "++measure.margin=0.1",
        "results_dir=elsewhere",
        "machine=my-node",
        "study=mine",
        "resume=true",
        "reports_dir=elsewhere",
        "hydra.run.dir=elsewhere",
        "hydra/job_logging=stdout",
        "hydra.searchpath=[pkg://bench]",
    ],
)
def test_what_is_not_measured_or_is_said_already_is_left_out(override: str, config: Config) -> None:
    assert file_stem(config, "cpu", [override]) == "bert-mini-cpux2"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["precision=tf32"], "tf32"),
        (["seed=1"], "seed-1"),
        (["++seed=1"], "seed-1"),
        (["device.threads=2"], "threads-2"),
        (["device.hold_threads=false"], "no-hold_threads"),
        (["device.blas=full"], "blas-full"),
        (["experiment=attribution"], "attribution"),
        (["attention=sdpa"], "attention-sdpa"),
        (["model.size=mini"], "mini"),
        (["reference=ortmodule"], "reference-ortmodule"),
        (["adam.lr=1e-3"], "lr-0-001"),
        (["seq_len=64", "micro_batch=4"], "micro_batch-4-seq_len-64"),
        (["seed=1", "seed=2"], "seed-2"),
        (["device.threads=2", "device=cpu"], "threads-2"),
        (["data={batches: 4}"], "batches-4"),
        (["data.path=some/where/train"], "path-train"),
        (["+model.config.layers=[1,2]"], "layers-1-2"),
    ],
)
def test_what_changes_the_measurement_is_in_words_before_a_hash(
    overrides: list[str], words: str, config: Config
) -> None:
    made = file_stem(config, "cpu", overrides)
    assert re.fullmatch(f"bert-mini-cpux2-{words}-[0-9a-f]{{4}}", made), made


@pytest.mark.parametrize("override", ["measure=parity", "measure.launches=0"])
def test_parity_alone_replaces_no_timed_rounds(override: str) -> None:
    assert named(override)[:-5] == "bert-mini-cpux2-parity"


def test_the_way_to_a_target_replaces_no_other_comparison() -> None:
    made = named("measure=converge", "measure.rounds=3", "data=python_docs", "adam.lr=1e-3")
    assert made[:-5] == "bert-mini-cpux2-lr-0-001-data-python_docs-converge"


@pytest.mark.parametrize("override", ["measure.batch=max", "++measure.batch=max", "measure={batch: max}"])
def test_the_rule_of_batches_is_measured_where_it_is_not_the_default(override: str) -> None:
    made = named(override, "device.memory_limit_gib=4")
    assert made[:-5] == "bert-mini-cpux2-memory_limit_gib-4-batch-max"


def test_of_backends_the_unusual_ones_are_named_and_many_are_counted() -> None:
    assert named("backend=[pytorch,compile]")[:-5] == "bert-mini-cpux2-compile"
    assert named("backend=[pytorch,ortmodule]")[:-5] == "bert-mini-cpux2"
    many = "backend=[pytorch,compile,pytorch_sdpa,pytorch_fused]"
    assert named(many)[:-5] == "bert-mini-cpux2-3-backends"


def test_the_order_of_backends_counts() -> None:
    assert named("backend=[pytorch,ortmodule]") != named("backend=[ortmodule, pytorch]")
    assert named("backend=pytorch") == named("backend=[pytorch]")


def test_a_model_file_of_another_name_than_its_model_counts(config: Config) -> None:
    config.model.name = "mine"
    try:
        assert file_stem(config, "cpu", ["model=mine"]) == "mine-cpux2"
        assert file_stem(config, "cpu", ["model=yours"])[:-5] == "mine-cpux2-model-yours"
    finally:
        config.model.name = "bert-mini"


def test_the_order_of_independent_overrides_does_not_matter(config: Config) -> None:
    overrides = ["seed=3", "precision=fp32", "adam.lr=0.1", "+model.config.x=a", "grad_accum=2"]
    names = {file_stem(config, "cpu", list(order)) for order in itertools.permutations(overrides)}
    assert len(names) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["model.config.x=8"], ["model.config.x='8'"]),
        (["model.config.x=null"], ["model.config.x='null'"]),
        (["model.config.x=true"], ["model.config.x='true'"]),
        (["model.config.x=nan"], ["model.config.x='nan'"]),
        (["model.config.x=''"], ["model.config.x=null"]),
        (["model.config.x=1"], ["model.config.x=1.0"]),
        (["model.config.x=a/b"], ["model.config.x=a_b"]),
        (["model.config.x='a,seed=1'"], ["model.config.x=a", "seed=1"]),
        (["model.config.x='a-b'"], ["model.config.x='a%2Db'"]),
        (["model.config.x='%2F'"], ["model.config.x='/'"]),
        (["model.config.x='a b'"], ["model.config.x='a+b'"]),
        (["model.config.x=[a,b]"], ["model.config.x='[a,b]'"]),
        (["model.config.x=[a,b]"], ["model.config.x=['a,b']"]),
        (["model.config.x=[]"], ["model.config.x='[]'"]),
        (["model.config.x={a: {b: 1}}"], ["model.config.x={a.b: 1}"]),
        (["model.config.x='é'"], ["model.config.x=e"]),
        (["seed=1", "seed=2"], ["seed=2", "seed=1"]),
        (["adam.lr=2", "adam={lr: 1}"], ["adam={lr: 1}", "adam.lr=2"]),
        (
            ["model.config.x=[1,2]", "model.config.x.0=3"],
            ["model.config.x.0=3", "model.config.x=[1,2]"],
        ),
    ],
)
def test_different_overrides_have_different_names(one: list[str], other: list[str], config: Config) -> None:
    assert file_stem(config, "cpu", one) != file_stem(config, "cpu", other)


def with_name(config: Config, name: str) -> str:
    before = config.model.name
    config.model.name = name
    try:
        return file_stem(config, "cpu", [])
    finally:
        config.model.name = before


def test_different_model_names_have_different_names(config: Config) -> None:
    names = [
        "a",
        "a-cpux2",
        "a/b",
        "a%2Fb",
        "a b",
        "a+b",
        "a=b",
        "a~b",
        "A",
        ".a",
        "%2Ea",
        "ä",
        "..",
    ]
    assert len({with_name(config, name) for name in names}) == len(names)
    assert with_name(config, "a-seed=1") != file_stem(config, "cpu", ["seed=1"])


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/", "..", ".hidden", "a\nb", "a\0b", "C:\\x", "模型", "x" * 300, ""],
)
def test_no_name_leaves_the_folder(name: str, config: Config) -> None:
    made = with_name(config, name)
    assert re.fullmatch(r"[a-z0-9_-]+", made)
    assert len(made) <= LONGEST


def test_long_names_stay_different(config: Config) -> None:
    prompt = "x" * 200
    one = file_stem(config, "cpu", [f"model.config.x={prompt}a"])
    other = file_stem(config, "cpu", [f"model.config.x={prompt}b"])
    assert one != other
    assert one[:-5] == other[:-5] == "bert-mini-cpux2", "words that do not fit are left out"
