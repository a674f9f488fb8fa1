import itertools
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml  # type: ignore[import-untyped]

from bench.config.choices import CONF, TASKS
from bench.config.compose import compose
from bench.config.device import Device
from bench.config.identity import config_hash, measured_settings
from bench.config.schema import Config
from bench.config.user_model import USER_MODEL
from bench.errors import UserError
from bench.machine import hardware
from bench.measure.plan import preflight
from bench.measure.plan.preflight import check_machine, check_memory, check_packages
from bench.setup import stacks
from bench.setup.choice import Choice
from bench.setup.recipes import STACKS

pytestmark = pytest.mark.once


def shipped(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


MODELS, CHOICES = shipped("model"), shipped("backend")
SETS = ["advised", "default", "methods", "methods_gpu", "mission", "today", "today_gpu"]
BACKENDS = [name for name in CHOICES if name not in SETS]
ON_GPUS = ["ortmodule_tuned", "compile_reduce_overhead", "pytorch_flash", "pytorch_tf32", "pytorch_unpinned"]
WITH_LOADERS = ["pytorch_unpinned", "pytorch_workers"]
TEXTS = ["data=hf", "data.path=texts", "data.processor=words"]
ON_GPU = "device=cuda device.world_size=1"
IN_16_BITS = ["ortmodule_zero1_native", "pytorch_zero1_native"]


def refusal(*overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        compose(overrides)
    return str(caught.value)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen cores and four GPUs."""
    monkeypatch.setattr(hardware, "available_cores", lambda: 16)
    monkeypatch.setattr(hardware, "available_gpus", lambda: 4)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen cores and no GPU."""
    monkeypatch.setattr(hardware, "available_cores", lambda: 16)
    monkeypatch.setattr(hardware, "available_gpus", lambda: 0)


# --- the reference ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "reference"),
    [
        ("[pytorch,ortmodule]", "pytorch"),
        ("[ortmodule,pytorch]", "pytorch"),  # wherever it stands
        ("[pytorch_fused,ortmodule]", "pytorch_fused"),
        ("[ortmodule,pytorch_fused]", "ortmodule"),
        ("mission", "pytorch"),
    ],
)
def test_the_reference_is_pytorch_or_the_first_backend_where_that_is_not_among_them(
    chosen: str, reference: str
) -> None:
    assert compose([f"backend={chosen}"]).reference == reference


def test_a_new_key_leaves_the_hash_of_what_was_measured_before_it() -> None:
    here = ["device=cpu", "device.world_size=2", "device.threads=1", "device.blas=stock"]
    assert config_hash(compose(here)) == "65846e6a9c23c31c", "a key left at its default is not part of it"


def test_a_reference_that_is_chosen_stays_and_measures_the_same_as_one_that_follows() -> None:
    assert compose(["backend=[pytorch,ortmodule]", "reference=ortmodule"]).reference == "ortmodule"
    chosen = compose(["backend=[pytorch_fused,ortmodule]", "reference=pytorch_fused"])
    assert config_hash(chosen) == config_hash(compose(["backend=[pytorch_fused,ortmodule]"]))


# --- what is shipped ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("model", [name for name in MODELS if name != USER_MODEL])
def test_every_model_composes_at_its_own_batch_and_length(model: str) -> None:
    config = compose([f"model={model}"])
    assert config.model.name == model
    assert (config.micro_batch, config.seq_len) == (config.model.micro_batch, config.model.seq_len)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_composes(backend: str) -> None:
    device = ["device=cuda"] if backend in ON_GPUS else []
    precision = ["precision=fp16"] if backend in IN_16_BITS else []
    data = TEXTS if backend in WITH_LOADERS else ()
    overrides = [f"backend=[{backend}]", f"reference={backend}", *device, *precision, *data]
    assert list(compose(overrides).backends) == [backend]


@pytest.mark.slow
@pytest.mark.parametrize("experiment", shipped("experiment"))
def test_every_experiment_composes_and_starts_with_its_command(experiment: str) -> None:
    config = compose([f"experiment={experiment}", *(TEXTS if experiment == "loader" else ())])
    assert config.reference in config.backends
    package, command = (CONF / f"experiment/{experiment}.yaml").read_text().splitlines()[:2]
    assert package == "# @package _global_"
    assert command.startswith(f"# python -m bench experiment={experiment}")


@pytest.mark.slow
@pytest.mark.parametrize("measure", shipped("measure"))
@pytest.mark.parametrize("device", shipped("device"))
@pytest.mark.parametrize("data", shipped("data"))
def test_every_measure_composes_on_every_device(measure: str, device: str, data: str) -> None:
    theirs = ["data.path=my/data", "data.processor=my/tokenizer"] if data == "hf" else []
    overrides = [f"measure={measure}", f"device={device}", f"data={data}", *theirs]
    if measure == "converge" and data != "python_docs":
        with pytest.raises(UserError, match=rf"data={data} has none; choose data=python_docs\."):
            compose(overrides)
        return
    config = compose(overrides)
    assert config.device.type == device
    assert config.measure.schedule == "interleaved"
    assert (config.measure.min_steps, config.measure.block_warmup_s) == {
        "cpu": (1, 0.0),
        "cuda": (10, 0.0 if measure == "converge" else 0.2),
    }[device]
    assert device == "cpu" or config.measure.block_seconds >= 1


@pytest.mark.parametrize(
    ("preset", "together"), [("quick", 4), ("default", 4), ("thorough", 8), ("parity", 0)]
)
def test_groups_that_run_one_after_the_other_get_twice_the_launches(preset: str, together: int) -> None:
    def launches(*overrides: str) -> int:
        return compose([f"measure={preset}", *overrides]).measure.launches

    assert launches("device=cpu") == launches("device=cuda") == together
    assert preset == "parity" or launches("device=cuda", "measure.batch=max") == 2 * together


def test_so_do_those_that_were_asked_for_and_a_given_number_stays() -> None:
    for device, asked, launches in (("cpu", "schedule=sequential", 8), ("cuda", "launches=5", 5)):
        assert compose([f"device={device}", f"measure.{asked}"]).measure.launches == launches


def test_a_dataset_needs_a_place_and_a_processor() -> None:
    with pytest.raises(UserError, match=r"data=hf needs a dataset; set data\.path="):
        compose(["data=hf", "data.processor=my/tokenizer"])
    with pytest.raises(UserError, match=r"data=hf needs the model's tokenizer .* set data\.processor="):
        compose(["data=hf", "data.path=my/data"])


@pytest.mark.parametrize(
    ("overrides", "remedy"),
    [
        (["data.path=my/data"], "choose data=hf"),
        (["data.processor=my/words"], "choose data=hf"),
        (["data.split=test"], "choose data=hf"),
        (["data.workers=2"], "choose data=hf"),
        (["data.workers=2", "data=python_docs"], "choose data=hf"),
        (["data.batches=4", "data=python_docs"], "choose data=synthetic"),
        (["data.lengths=full", "data=hf", "data.path=x", "data.processor=y"], "choose data=synthetic"),
    ],
)
def test_a_setting_of_other_data_is_refused(overrides: list[str], remedy: str) -> None:
    key, value = overrides[0].split("=")
    assert f"{key}={value} has no effect with data" in (said := refusal("device=cpu", *overrides))
    assert said.endswith(f"leave it out, or {remedy}.")


def test_the_processor_is_that_of_the_pretrained_model_unless_set() -> None:
    config = compose(["model=bert-mini", "data=hf", "data.path=my/data", "model.pretrained=their/model"])
    assert config.data.processor == "their/model"


@pytest.mark.parametrize(
    ("stack", "capabilities", "precision"),
    [
        ("modern", [(9, 0), (8, 0)], "bf16"),
        ("ort", [(9, 0), (8, 0)], "fp16"),  # its GELU has no bf16 kernels there
        ("modern", [(9, 0), (7, 0)], "fp16"),
        ("ort", [(7, 5)], "fp16"),
        ("ort", [(6, 1)], "fp32"),
        ("ort", [], "fp32"),
    ],
)
def test_the_default_precision_is_that_of_the_oldest_gpu(
    stack: str, capabilities: list[tuple[int, int]], precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = tuple(SimpleNamespace(capability=capability) for capability in capabilities)
    monkeypatch.setattr(hardware, "_gpus", lambda: gpus)
    monkeypatch.setattr("bench.setup.stacks.own", lambda: stack)
    assert compose(["device=cuda"]).precision.name == precision
    assert compose(["device=cpu"]).precision.name == "fp32"
    assert compose(["device=cuda", "precision=tf32"]).precision.name == "tf32"


def test_no_two_backends_are_the_same_but_the_alias() -> None:
    on_cpus = ",".join(name for name in BACKENDS if name not in ON_GPUS)
    config = compose([f"backend=[{on_cpus}]", "precision=fp16", *TEXTS])
    choices = [repr(backend) for backend in config.backends.values()]
    assert len(set(choices)) == len(choices) - 1
    assert config.backends["pytorch_again"] == config.backends["pytorch"]


def test_the_attribution_measures_the_whole_factorial() -> None:
    backends = compose(["experiment=attribution"]).backends.values()
    found = [(one.engine, one.optimizer_on("cpu"), one.sharding) for one in backends]
    factorial = itertools.product(("eager", "ortmodule"), ("adamw", "adamw_fused"), ("ddp", "zero1"))
    assert sorted(found) == sorted(factorial)


def test_the_default_backends_are_those_of_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    for stack, device, names in (
        ("ort", "cpu", ["pytorch", "pytorch_best", "ortmodule", "ortmodule_zero1"]),
        ("ort", "cuda", ["pytorch", "pytorch_best", "ortmodule", "ortmodule_zero1"]),
        ("modern", "cpu", ["pytorch", "pytorch_best", "pytorch_zero1"]),
        ("modern", "cuda", ["pytorch", "pytorch_best", "pytorch_zero1", "compile_best"]),
    ):
        monkeypatch.setattr(stacks, "own", lambda stack=stack: stack)
        assert list(compose([f"device={device}"]).backends) == names
    assert list(compose(["backend=[mission,compile]"]).backends) == [
        *("pytorch", "ortmodule", "ortmodule_zero1", "compile")
    ]


def test_pytorch_at_its_best_leaves_its_attention_to_the_rank_unless_the_user_chooses() -> None:
    backends = "backend=[pytorch,pytorch_best,pytorch_best@modern,pytorch_sdpa]"
    config = compose([backends, "backends={pytorch_best@modern:{attention:eager}}"])
    assert config.attention_of("pytorch_best") == "best"
    assert config.attention_of("pytorch_best@modern") == "eager"
    assert config.attention_of("pytorch_sdpa") == "sdpa"  # asked for by name: refused where it is not there


# --- what depends on the machine ------------------------------------------------------------------


def test_without_a_gpu_the_default_is_two_ranks_of_a_small_model(no_gpu: None) -> None:
    config = compose()
    assert config.device == Device(type="cpu", world_size=2, threads=1, pin_cores=True, allocator="tuned")
    assert (config.model.name, config.micro_batch, config.seq_len) == ("bert-mini", 8, 128)


def test_with_gpus_the_default_is_a_large_model_on_all_of_them(machine: None) -> None:
    config = compose()
    assert config.device == Device(type="cuda", world_size=4, threads=4, pin_cores=True, allocator="tuned")
    assert config.model.name == "bert-large"


def test_a_single_core_runs_one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "available_cores", lambda: 1)
    assert compose(["device=cpu"]).device.world_size == 1


@pytest.mark.parametrize(("ranks", "threads"), [(1, 8), (4, 4), (5, 3), (32, 1)])
def test_gpu_ranks_share_the_cores_fairly(machine: None, ranks: int, threads: int) -> None:
    assert compose(["device=cuda", f"device.world_size={ranks}"]).device.threads == threads


def test_ranks_and_threads_that_fit_are_accepted(machine: None) -> None:
    check_machine(compose(["device=cuda"]), cores=16, gpus=4)
    check_machine(compose(["device=cpu", "device.threads=8"]), cores=16, gpus=0)


@pytest.mark.parametrize(
    ("overrides", "cores", "gpus", "sentence"),
    [
        (["device=cuda", "device.world_size=8"], 16, 0, "but this machine shows 0; run it where nvidia-smi"),
        (["device=cuda", "device.world_size=8"], 16, 4, "this machine shows 4; set device.world_size=4."),
        (
            ["device=cpu", "device.world_size=2", "device.threads=4"],
            *(6, 0, "need 8 cores, but this process has 6; set device.threads=3."),
        ),
        (
            ["device=cpu", "device.world_size=8", "device.threads=2"],
            *(4, 0, "need 16 cores, but this process has 4; set device.world_size=4 device.threads=1."),
        ),
    ],
)
def test_more_ranks_or_threads_than_the_machine_has_are_refused(
    overrides: list[str], cores: int, gpus: int, sentence: str
) -> None:
    with pytest.raises(UserError) as caught:
        check_machine(compose(overrides), cores=cores, gpus=gpus)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("line", "fits"),
    [
        (["model=gpt2", "micro_batch=8", "seq_len=1024"], False),
        (["model=gpt2", "model.size=mini", "micro_batch=8", "seq_len=1024"], True),
        (["model=bert-mini", "micro_batch=10000"], False),  # 4 layers keep 4 KiB of a token
        (["model=bert-mini", "micro_batch=10000", "model.trained=head"], True),
        (["model=bert-mini", "micro_batch=800"], True),  # it classifies: no word has a score
        (["model=bert-mini", "model.task=masked-lm", "micro_batch=800"], False),
        (["model=bert-mini", "micro_batch=1200", "backend=[pytorch]"], False),
        (["model=bert-mini", "micro_batch=1200", "precision=bf16", "backend=[pytorch]"], True),
    ],
)
def test_memory_that_any_training_needs_is_counted(line: list[str], fits: bool, no_gpu: None) -> None:
    with nullcontext() if fits else pytest.raises(UserError, match="choose a smaller micro_batch than"):
        check_memory(compose([*line, "device=cpu", "device.world_size=2"]), host_bytes=2**30)


# --- packages -------------------------------------------------------------------------------------


def check_with(monkeypatch: pytest.MonkeyPatch, installed: str, overrides: str) -> str | None:
    """What `check_packages` says where only these distributions (or modules) are installed."""

    config = compose(["device=cpu", *overrides.split()])
    packages = {
        name: version or "1" for name, _, version in (one.partition("==") for one in installed.split())
    }
    here = stacks.Installed("python", Path("env"), "3.11.7", packages)
    monkeypatch.setattr(stacks, "installed_here", lambda: here)
    monkeypatch.setattr(
        stacks, "STACKS", {name: replace(one, folder="nowhere") for name, one in STACKS.items()}
    )
    try:
        check_packages(config)
    except UserError as error:
        return str(error)
    return None


BASE, ORT_CPU = "torch transformers", "torch transformers onnxruntime-training-cpu"
PYTORCH, ORT, ZERO = "backend=[pytorch]", "backend=[pytorch,ortmodule]", "backend=[pytorch_zero1]"


@pytest.mark.parametrize(
    ("installed", "overrides"),
    [
        (BASE, PYTORCH),
        (f"{BASE} deepspeed", f"{ZERO} reference=pytorch_zero1"),
        (ORT_CPU, ORT),
        (f"{BASE} onnxruntime-training", ORT),
        (f"{BASE} onnxruntime-training", f"{ORT} device=cuda"),
        (f"{BASE} onnxruntime", PYTORCH),
        ("torch==2.7.0 transformers onnxruntime-training-cpu", PYTORCH),
        ("torch==2.6.1+cu124 transformers==4.50.0 onnxruntime-training-cpu", ORT),
    ],
)
def test_only_what_the_chosen_backends_need_has_to_be_installed(
    monkeypatch: pytest.MonkeyPatch, installed: str, overrides: str
) -> None:
    assert check_with(monkeypatch, installed, overrides) is None


@pytest.mark.parametrize(
    ("installed", "overrides", "words"),
    [
        ("transformers", PYTORCH, "torch is not installed; run `make setup`, or `pip install '.[ort-cpu]'`."),
        (BASE, f"{PYTORCH} model=llama-2-7b", "model.lora needs peft, which is not installed; run `make set"),
        ("torch", f"{PYTORCH} device=cuda", "run `make setup`, or `pip install '.[ort-gpu]'`."),
        (BASE, ORT, "needs onnxruntime-training or onnxruntime-training-cpu, which is not installed; "),
        (
            *(ORT_CPU, f"{ORT} device=cuda"),
            "needs onnxruntime-training, which is not installed; run `make setup SETUP_ARGS='--device cuda'`"
            ", or measure without it: backend=[pytorch,pytorch_zero1].",
        ),
        (f"{ORT_CPU} onnxruntime", ORT, "overwrites its module; run `pip uninstall onnxruntime`, then `pip "),
        (BASE, "backend=[pytorch,pytorch@modern]", "needs the modern stack, which is not set up in this"),
        ("torch==2.13.0 transformers", ORT, "which the modern stack does not have, since it ended with"),
        (
            f"{ORT_CPU} torch==2.7.0",
            ORT,
            "1.19.2 does not work with torch 2.7.0, which is installed; run `ma",
        ),
        (f"{ORT_CPU} torch==2.10.0", "backend=[pytorch,ortmodule_zero1]", "does not work with torch 2.10.0"),
        ("torch==2.13.0", PYTORCH, "run `make setup STACK=modern`, or `pip install '.[modern]'`."),
        (BASE, "backend=[pytorch,pytorch_zero3]", "sharding=zero3 needs deepspeed, which is not installed; "),
    ],
)
def test_a_missing_package_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, installed: str, overrides: str, words: str
) -> None:
    assert words in str(check_with(monkeypatch, installed, overrides))


@pytest.mark.parametrize(
    ("backend", "choice", "words"),
    [
        ("pytorch_zero1", Choice("", "", "cpu"), "None"),
        (
            *("pytorch_zero2_offload", Choice("", "", "cpu")),
            "backends.pytorch_zero2_offload.optimizer=deepspeed_cpu_adam has not been compiled; run `make",
        ),
        ("pytorch_zero2_offload", Choice("", "", "cpu", cpu_adam=True), "None"),
    ],
)
def test_kernels_that_are_not_there_are_named_with_what_compiles_them(
    monkeypatch: pytest.MonkeyPatch, backend: str, choice: Choice, words: str
) -> None:
    monkeypatch.setattr(preflight, "recorded_choice", lambda env: choice)
    line = f"backend=[{backend}] reference={backend}"
    assert str(check_with(monkeypatch, f"{BASE} deepspeed onnxruntime-training", line)).startswith(words)


# --- what is refused ------------------------------------------------------------------------------

REFUSED = [
    # unknown keys
    (
        "adam.momentum=0",
        "adam.momentum is not a key of the configuration; adam has lr, beta1, beta2, eps, weig",
    ),
    (
        "backend=[pytorch,ortmodule] backends.other.engine=eager",
        "backends.other is not among the chosen backends (pytorch, ortmodule); add other to backend=[…].",
    ),
    ("model=llama-2-7b ++model.lora.rnak=4", "model.lora has rank, alpha, dropout, modules."),
    # wrong types
    ("seed=abc", "seed must be a whole number, not abc."),
    ("measure.rounds=2.5", "measure.rounds must be a whole number, not 2.5."),
    ("seed=null", "seed must have a value, not null."),
    ("backends=[pytorch]", "backends is made of the chosen files; choose them with backend=[…]."),
    # missing values
    ("seed=???", "seed has no value; set seed=… or write it in the YAML file."),
    ("backend=[]", "backends is made of the chosen files; choose them with backend=[…]."),
    # choices
    ("model=bort", f"model=bort does not exist; choose from: {', '.join(MODELS)}."),
    ("backend=[pytorch,jax]", f"backend=jax does not exist; choose from: {', '.join(CHOICES)}."),
    ("backend=null", "backend=null is not one choice; name one, compare several with --multirun backend=…,…"),
    ("model=3", "model=3 is not one choice"),
    ("model=[bert-tiny,gpt2]", "model=[bert-tiny,gpt2] is not one choice"),
    # impossible values
    ("micro_batch=0", "micro_batch must be at least 1, not 0."),
    ("adam.lr=nan", "adam.lr must be above 0, not nan."),
    ("measure.block_seconds=inf", "measure.block_seconds must be above 0, not inf."),
    ("measure.target_half_width=0", "measure.target_half_width must be above 0, not 0.0."),
    # gates so wide that they would see no fault
    ("measure.parity_tolerance=1e9", "at most 0.1, not 1e+09: a backend that learns nothing could pass."),
    ("measure.parity_steps=2", "at least 3, not 2."),  # of which no loss is of a batch that was seen before
    ("measure.margin=0.9", "at most 0.2, not 0.9: published speed-ups would be called `same`."),
    ("measure.target_half_width=3", "at most 0.2, not 3: launches would end before the faster one is known."),
    (
        "adam.lr=1e-30",
        "so that parity sees no lost update; set adam.lr=1e-08 or more, and adam.eps=1 or less",
    ),
    ("backend=[pytorch_slowed] backends.pytorch_slowed.slowed_by=-0.1", "must be at least 0, not -0.1."),
    # what does not go together, or not here
    ("attention=flash", "attention=flash is not known; choose one of: eager, sdpa, flash_attention_2."),
    ("attention=flash_attention_2", "on CUDA devices in 16 bits only; choose attention=sdpa, or device=cuda"),
    ("precision=bf16 backend=[pytorch,ortmodule]", "backends.ortmodule cannot run precision=bf16 on a CPU"),
    (
        "backend=[pytorch,pytorch_zero1_native]",
        "sharding=zero1_native trains in 16 bits alone; choose precis",
    ),
    (
        "backends.pytorch.sharding=split",
        "sharding=split is not known; choose one of: ddp, fsdp2, zero1, zero",
    ),
    (
        "backend=[pytorch_fused,ortmodule] reference=pytorch",
        "reference=pytorch is not among the chosen backends (pytorch_fused, ortmodule)",
    ),
    ("precision=tf32 device=cpu", "precision=tf32 exists on CUDA devices only; choose precision=fp32."),
    ("seq_len=513 model=bert-tiny", "seq_len=513 is longer than the 512 positions of model.name=bert-tiny"),
    (
        "measure=parity measure.target_half_width=0.01",
        "needs launches that are timed, and measure.launches=0 has none",
    ),
    # the overrides themselves
    (
        "seed",
        "seed is not an override; write key=value, or key=[a,b] for a list, or 'key=\"any text\"' for un",
    ),
    (
        "seed=1,2",
        "seed=1,2 is a sweep; add --multirun, or write key=[a,b] for a list, or 'key=\"a,b\"' for a ",
    ),
    ("hydra.searchpath=[file://nowhere]", "path=nowhere is not available."),
]


@pytest.mark.parametrize(("overrides", "words"), REFUSED, ids=[overrides for overrides, _ in REFUSED])
def test_a_mistake_is_refused_in_one_sentence(no_gpu: None, overrides: str, words: str) -> None:
    said = refusal(*overrides.split())
    assert words in said
    assert "\n" not in said


# --- a user's files ---------------------------------------------------------------------------

USER_PRESET = """
name: mine
task: causal-lm
architecture: gpt2
config: {n_layer: 1}
parameters: 10
source: nowhere
micro_batch: 2
seq_len: 16
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    return tmp_path


def test_a_folder_of_the_user_adds_models(folder: Path) -> None:
    (folder / "model/mine.yaml").write_text(USER_PRESET)
    config = compose([f"hydra.searchpath=[file://{folder}]", "model=mine"])
    assert (config.model.name, config.seq_len, config.model.pretrained) == ("mine", 16, None)


def test_a_file_of_the_users_with_a_shipped_name_is_refused(folder: Path) -> None:
    (folder / "model/bert-tiny.yaml").write_text(USER_PRESET)
    assert refusal(f"hydra.searchpath=[file://{folder}]", "model=gpt2") == (
        f"{folder}/model/bert-tiny.yaml is not read, since a shipped file has its name; give it another name."
    )


def test_the_choices_include_the_users(folder: Path) -> None:
    (folder / "model/mine.yaml").write_text(USER_PRESET)
    choices = ", ".join(sorted([*MODELS, "mine"]))
    assert refusal(f"hydra.searchpath=[file://{folder}]", "model=zzz") == (
        f"model=zzz does not exist; choose from: {choices}."
    )


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("gpt2", "[gpt2]", "model/mine.yaml: model.architecture: cannot convert"),
        ("seq_len: 16", "seq_len: long", "model/mine.yaml: model.seq_len must be a whole number, not long."),
        (
            "seq_len",
            "layers",
            "model/mine.yaml: model.layers is not a key of the configuration; model has na",
        ),
        ("task: causal-lm", "", "model.task has no value; set model.task=… or write it in the YAML file."),
        ("causal-lm", "poetry", f"model.task=poetry is not known; choose one of: {', '.join(TASKS)}."),
        ("seq_len: 16", "  - :", "A configuration file is not valid YAML: "),
        (USER_PRESET, "- a", "model/mine.yaml: Invalid type assigned: list"),
    ],
)
def test_a_mistake_in_the_users_file_names_key_or_place(
    folder: Path, old: str, new: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yaml.SafeLoader", yaml.loader.SafeLoader)  # users' words, not libyaml's
    (folder / "model/mine.yaml").write_text(USER_PRESET.replace(old, new))
    said = refusal(f"hydra.searchpath=[file://{folder}]", "model=mine")
    assert said.startswith(sentence)
    assert "\n" not in said


# --- the rest -------------------------------------------------------------------------------------


def test_the_configuration_is_plain_dataclasses_all_the_way_down() -> None:
    config = compose(["+model.config.rope={type: linear, factors: [1, 2], 0: one}"])
    parts = [config, config.backends, config.model.config, config.model.config["rope"]]
    assert [type(part) for part in parts] == [Config, dict, dict, dict]
    assert type(config.model.config["rope"]["factors"]) is list


def test_where_files_go_and_how_long_one_waits_is_not_measured() -> None:
    waiting = ["measure.timeout_s=3000", "measure.wait_s=0"]
    elsewhere = compose(["results_dir=a", "reports_dir=b", "machine=c", "study=d", "resume=true", *waiting])
    assert measured_settings(elsewhere) == measured_settings(compose())
    assert measured_settings(compose(["seed=1"])) != measured_settings(compose())
