"""The typed configuration of one comparison, checked once, before any work starts.

`conf/` composes into it. Every part (`model`, `data`, `measure` …) is a dataclass in its own file, which
refuses settings that are impossible in themselves. `Config` refuses impossible combinations of parts, and
`bench.measure.plan.preflight` what this machine cannot do. Nothing here imports Hydra: `compose` makes a
`Config` out of a command line.
"""

import re
from dataclasses import dataclass, field, replace

from bench.config import choices
from bench.config.backend import Backend
from bench.config.data import LOADER_SETTINGS, Data
from bench.config.device import Device
from bench.config.engine_options import check_engine_options
from bench.config.fields import at_least, check_fields, one_of
from bench.config.measure import SATURATING, Measure
from bench.config.model import Model
from bench.config.track import Track
from bench.config.training import Adam, Precision
from bench.errors import UserError
from bench.study import load_parts


@dataclass(kw_only=True)
class Config:
    """One comparison: one workload under several backends."""

    model: Model
    backends: dict[str, Backend]
    reference: str
    data: Data
    precision: Precision
    adam: Adam
    measure: Measure
    device: Device
    micro_batch: int = at_least(1)
    grad_accum: int = at_least(1)
    seq_len: int | None = at_least(8)
    attention: str = one_of(*choices.ATTENTIONS)
    checkpointing: bool
    seed: int = at_least(0, most=2**32 - 1, why="seeds are numbers of 32 bits")
    searchpath: list[str] = field(default_factory=list)  # follows from hydra.searchpath
    machine: str  # the name of this machine's folder
    study: str  # the folder in it: why the comparison is made
    results_dir: str
    reports_dir: str
    track: Track
    resume: bool = False  # go on with an interrupted comparison instead of replacing it

    def __post_init__(self) -> None:
        self.without_gradient: list[str] = []  # names of weights; the preflight finds them
        check_fields(self, "")
        for name, backend in self.backends.items():
            self._check_backend(name, backend)
        self._check_length()
        self._check_module()
        self.data.check_source()
        for key in ("machine", "study"):  # they become folders' names
            if not re.fullmatch(r"\w[\w-]*", getattr(self, key)):  # a dot would mark a table beside a file
                raise UserError(
                    f"{key}={getattr(self, key)} cannot be a folder's name",
                    "use letters, digits, `_` and `-`",
                )
        if self.reference not in self.backends:
            raise UserError(
                f"reference={self.reference} is not among the chosen backends "
                f"({', '.join(self.backends) or 'none'})",
                "add it to backend=[…] or choose another reference",
            )
        self._check_measure()
        self._check_precision()

    def attention_of(self, name: str) -> str:
        """Return the attention of a backend."""
        return self.backends[name].attention or self.attention

    def precision_of(self, name: str) -> Precision:
        """Return the precision of a backend."""
        own = self.backends[name].precision
        return self.precision if own in (None, self.precision.name) else Precision(name=own)

    def checkpointing_of(self, name: str) -> bool:
        """Return whether a backend computes activations again in the backward pass."""
        own = self.backends[name].checkpointing
        return self.checkpointing if own is None else own

    def data_of(self, name: str) -> Data:
        """Return the data of a backend: the comparison's, which it may prepare in another way."""
        own = {key: getattr(self.backends[name], key) for key in LOADER_SETTINGS}
        return replace(self.data, **{key: value for key, value in own.items() if value is not None})

    def _check_backend(self, name: str, backend: Backend) -> None:
        if not re.fullmatch(r"\w[\w@.+-]*", name):  # it becomes a folder's name
            raise UserError(
                f"{name!r} cannot be a backend's name", "use letters, digits, `_`, `-`, `@` and `.` within"
            )
        check_fields(backend, f"backends.{name}.")
        check_engine_options(
            f"backends.{name}.engine_options",
            backend.engine,
            backend.engine_options,
            device=self.device.type,
            checkpointing=self.checkpointing_of(name),
        )
        shardings = choices.SHARDINGS_OF_LOOPS.get(backend.loop, ("ddp",))
        if backend.loop != "bare" and backend.sharding not in shardings:
            raise UserError(
                f"backends.{name}.loop={backend.loop} cannot be combined with sharding={backend.sharding}",
                f"choose {' or '.join(shardings)}, or loop=bare",
            )
        if (backend.loop == "ort_trainer") != (backend.engine == "ortmodule") and backend.loop != "bare":
            raise UserError(
                f"backends.{name}.loop={backend.loop} does not train with engine={backend.engine}",
                "choose loop=ort_trainer with engine=ortmodule, and trainer or accelerate with others",
            )
        self._check_accumulation(name, backend)
        for key in LOADER_SETTINGS:
            if getattr(backend, key) is not None and self.data.name != "hf":
                raise UserError(
                    f"backends.{name}.{key} has no effect with data={self.data.name}, "
                    "whose batches lie ready",
                    "choose data=hf with data.path=… and data.processor=…",
                )
        if backend.pinned_memory is not None and self.device.type == "cpu":
            raise UserError(
                f"backends.{name}.pinned_memory is of batches that a GPU reads",
                "leave it out, or set device=cuda",
            )
        if backend.engine == "ortmodule" and backend.sharding in choices.WITHOUT_WHOLE_WEIGHTS:
            raise UserError(
                f"backends.{name}.sharding={backend.sharding} cannot be combined with engine=ortmodule, "
                "which runs the model as one graph and needs all of its weights at a time",
                "choose zero1 or zero2",
            )
        precision = self.precision_of(name).name
        if backend.sharding in choices.IN_16_BITS_ALONE and precision not in choices.SIXTEEN_BITS:
            raise UserError(
                f"backends.{name} cannot run precision={precision}, since "
                f"sharding={backend.sharding} trains in 16 bits alone",
                "choose precision=bf16 or fp16, or a backend with sharding=zero1",
            )

    def _check_accumulation(self, name: str, backend: Backend) -> None:
        parts = backend.accumulate
        if self.micro_batch % parts:
            raise UserError(
                f"backends.{name}.accumulate={parts} does not divide micro_batch={self.micro_batch}",
                f"choose micro_batch={-(-self.micro_batch // parts) * parts}, or a divisor",
            )
        if parts > 1 and self.measure.batch != "equal":
            raise UserError(
                f"backends.{name}.accumulate={parts} keeps the batch of the others, and "
                f"measure.batch={self.measure.batch} changes it",
                "leave one of them out",
            )

    def _check_measure(self) -> None:
        if self.device.share_cores and self.measure.launches:
            raise UserError(
                "device.share_cores=true has ranks take turns on a core, so that nothing can be timed",
                "set measure=parity measure.collectives=count, which counts what they send",
            )
        if self.measure.batch == SATURATING and self.device.type == "cpu":
            raise UserError(
                "micro_batch=saturating fills a GPU, and device=cpu computes no faster with a larger one",
                "choose a number",
            )
        for part in load_parts("checks").values():
            part.check(self)

    def _check_length(self) -> None:
        if self.model.module is not None:  # its example_batch may or may not take a length
            return
        without = self.model.task in choices.WITHOUT_LENGTH
        if self.seq_len is None:
            if not without:
                raise UserError(f"seq_len must have a value, since model.task={self.model.task} has lengths.")
            return
        if without:
            raise UserError(
                f"seq_len={self.seq_len} has no meaning for model.task={self.model.task}", "set seq_len=null"
            )
        positions = self.model.positions()
        if positions is not None and self.seq_len > positions:
            raise UserError(
                f"seq_len={self.seq_len} is longer than the {positions} positions of "
                f"model.name={self.model.name}",
                "choose a shorter one",
            )

    def _check_module(self) -> None:
        """Refuse data and attention that a user's module cannot have."""
        module = self.model.module
        if module is None:
            return
        if self.data.name != "synthetic":
            raise UserError(
                f"data={self.data.name} makes the inputs of transformers' models, and example_batch those of "
                f"model.module={module}",
                "leave data out, and read the data in example_batch",
            )
        if self.data.lengths != Data.lengths:
            raise UserError(
                f"data.lengths={self.data.lengths} has no effect on model.module={module}, whose samples "
                "example_batch makes",
                "leave it out",
            )
        for name in self.backends:
            if self.attention_of(name) not in ("eager", choices.BEST_ATTENTION):
                raise UserError(
                    f"backends.{name} cannot set attention={self.attention_of(name)}, since "
                    f"model.module={module} computes its attention itself",
                    "leave attention out, or choose another backend",
                )

    def _check_precision(self) -> None:
        """Refuse what no kernel can do; bf16 is checked by tests/real/test_precision.py.

        bench.worker.workload.precision refuses what the GPU at hand cannot do, before the model is built.
        """
        for name, backend in self.backends.items():
            precision = self.precision_of(name).name
            if precision == "tf32" and self.device.type == "cpu":
                raise UserError("precision=tf32 exists on CUDA devices only", "choose precision=fp32")
            if precision == "bf16" and self.device.type == "cpu" and backend.engine == "ortmodule":
                raise UserError(
                    f"backends.{name} cannot run precision=bf16 on a CPU, since ONNX Runtime 1.19.2 has "
                    "no such matrix product there",
                    "choose precision=fp16, or backends without ONNX Runtime: "
                    "backend=[pytorch,pytorch_zero1]",
                )
            in_16_bits = self.device.type == "cuda" and precision in choices.SIXTEEN_BITS
            if self.attention_of(name) == "flash_attention_2" and not in_16_bits:
                raise UserError(
                    "attention=flash_attention_2 exists on CUDA devices in 16 bits only",
                    "choose attention=sdpa, or device=cuda with precision=bf16",
                )


def global_batch(micro_batch: int, grad_accum: int, world_size: int) -> int:
    """Return the samples per optimizer step, over all data-parallel ranks."""
    return micro_batch * grad_accum * world_size
