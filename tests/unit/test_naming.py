import re

import pytest

from bench.config.compose import compose
from bench.config.differences import overrides_of
from bench.config.identity import config_hash
from bench.config.naming import LONGEST, file_stem

pytestmark = pytest.mark.once


def named(*overrides: str) -> str:
    """The stem of what these overrides compose into, on a CPU with two ranks."""
    return file_stem(compose(["device=cpu", "device.world_size=2", *overrides]), "cpu")


def test_the_device_and_the_ranks_stand_in_the_name() -> None:
    assert file_stem(compose(["device=cuda", "device.world_size=8"]), "h200") == "bert-large-h200x8"


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["model=bert-mini", "measure=quick", "measure.rounds=20", "machine=my-node", "study=mine"],
        ["measure={rounds: 20, launches: 1}", "++measure.margin=0.1", "results_dir=a", "reports_dir=b"],
        ["resume=true", "hydra.run.dir=elsewhere", "hydra/job_logging=stdout", "measure.batch=equal"],
        # what is said although it is so by default
        ["micro_batch=8"],
        ["seq_len=128", "adam.lr=1e-4", "++seed=0", "data=synthetic", "data.batches=8", "precision=fp32"],
        ["backend=[pytorch,pytorch_best,ortmodule,ortmodule_zero1]", "reference=pytorch"],
        [
            "device.threads=1",
            "device.pin_cores=true",
            "model.config.vocab_size=30522",
            "model.size=published",
        ],
    ],
)
def test_what_is_not_measured_or_is_so_by_default_is_left_out(overrides: list[str]) -> None:
    assert named(*overrides) == "bert-mini-cpux2"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["model=gpt2", "model.size=mini"], ["model=gpt2", "model.size=mini", "micro_batch=4", "seq_len=64"]),
        (["backend=mission"], ["backend=[ortmodule_zero1,pytorch,ortmodule]"]),
        (["backend=pytorch"], ["backend=[pytorch]"]),
        (["seed=1", "adam={lr: 0.1}"], ["adam.lr=0.1", "seed=2", "seed=1"]),
        (["experiment=loops"], ["backend=[pytorch,pytorch_again,pytorch_trainer,pytorch_accelerate,ortmodule,"
         "ortmodule_trainer]", "device.world_size=1", "measure.explain=false"]),
        (["model.pretrained=conf/sweeps/architectures/bert"],
         ["model=user_model", "model.pretrained=conf/sweeps/architectures/bert", "micro_batch=8"]),
        (["data=python_docs", "model=bert-tiny"], ["model=bert-tiny", "data.name=python_docs"]),
    ],
)  # fmt: skip
def test_one_configuration_has_one_name_one_hash_and_one_command(one: list[str], other: list[str]) -> None:
    configs = [compose(["device=cpu", *overrides]) for overrides in (one, other)]
    assert len({config_hash(config) for config in configs}) == 1
    assert len({(file_stem(config, "cpu"), *overrides_of(config)) for config in configs}) == 1
    assert config_hash(compose(overrides_of(configs[0]))) == config_hash(configs[0])


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["precision=fp16"], "fp16"),
        (["seed=1"], "seed-1"),
        (["device.blas=full"], "blas-full"),
        (["experiment=attribution"], "5-backends"),
        (["attention=sdpa"], "attention-sdpa"),
        (["model=gpt2", "model.size=mini"], "mini"),
        (["reference=ortmodule"], "reference-ortmodule"),
        (["adam.lr=1e-3"], "lr-0-001"),
        (["seq_len=64", "micro_batch=4"], "micro_batch-4-seq_len-64"),
        (["device.world_size=1", "device.pin_cores=false"], "no-pin_cores"),
        (["data={batches: 4}"], "batches-4"),
        (["+model.config.layers=[1,2]"], "layers-1-2"),
        # what would otherwise replace the default comparison
        (["measure=parity"], "parity"),
        (["measure.launches=0"], "parity"),
        (["measure=converge", "data=python_docs", "adam.lr=1e-3"], "lr-0-001-data-python_docs-converge"),
        (["measure.batch=max", "device.memory_limit_gib=4"], "memory_limit_gib-4-batch-max"),
        (["backend=[pytorch,compile]"], "compile"),
        (["backend=[pytorch,compile,pytorch_sdpa,pytorch_fused]"], "3-backends"),
    ],
)
def test_what_changes_the_measurement_is_in_words_before_a_hash(overrides: list[str], words: str) -> None:
    assert re.fullmatch(f"(bert-mini|gpt2)-cpux[12]-{words}-[0-9a-f]{{4}}", named(*overrides))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["model.config.x=8"], ["model.config.x='8'"]),
        (["model.config.x=null"], ["model.config.x='null'"]),
        (["model.config.x=true"], ["model.config.x='true'"]),
        (["model.config.x=1"], ["model.config.x=1.0"]),
        (["model.config.x=a/b"], ["model.config.x=a_b"]),
        (["model.config.x='a,seed=1'"], ["model.config.x=a", "seed=1"]),
        (["model.config.x=[a,b]"], ["model.config.x='[a,b]'"]),
        (["model.config.x=[a,b]"], ["model.config.x=['a,b']"]),
        (["model.config.x=[]"], ["model.config.x='[]'"]),
        (["model.config.x={a: {b: 1}}"], ["model.config.x={a.b: 1}"]),
        (["model.config.x='é'"], ["model.config.x=e"]),
        (["seed=1", "seed=2"], ["seed=2", "seed=1"]),
        (["adam.lr=2", "adam={lr: 1}"], ["adam={lr: 1}", "adam.lr=2"]),
    ],
)
def test_different_overrides_have_different_names(one: list[str], other: list[str]) -> None:
    texts = ([text.replace("model.config.x", "++model.config.x") for text in each] for each in (one, other))
    assert len({named(*each) for each in texts}) == 2


def with_name(name: str) -> str:
    config = compose(["device=cpu", "device.world_size=2"])
    config.model.name = name
    return file_stem(config, "cpu")


def test_different_model_names_have_different_names() -> None:
    names = ["a", "a-cpux2", "a/b", "a%2Fb", "a b", "a+b", "A", ".a", "ä", ".."]
    assert len({with_name(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/", "..", ".hidden", "a\nb", "a\0b", "C:\\x", "模型", "x" * 300, ""]
)
def test_no_name_leaves_the_folder(name: str) -> None:
    made = with_name(name)
    assert re.fullmatch(r"[a-z0-9_-]+", made)
    assert len(made) <= LONGEST


def test_long_names_stay_different() -> None:
    one, other = (named(f"++model.config.x={'x' * 200}{end}") for end in "ab")
    assert one != other
    assert one[:-5] == other[:-5] == "bert-mini-cpux2", "words that do not fit are left out"
