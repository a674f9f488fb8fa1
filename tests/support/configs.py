"""Configurations for tests, made without Hydra."""

import typing
from pathlib import Path
from typing import Any

from bench.config.backend import Backend
from bench.config.data import Data
from bench.config.device import Device
from bench.config.measure import MeasureWithStudies
from bench.config.model import Model
from bench.config.schema import Config
from bench.config.track import Track
from bench.config.training import Adam, Precision
from bench.launch.spec import WorkerSpec

BACKENDS = {
    "pytorch": Backend(engine="eager", optimizer="adamw", sharding="ddp"),
    "ortmodule": Backend(engine="ortmodule", optimizer="ort_fused_adam", sharding="ddp"),
    "ortmodule_zero1": Backend(engine="ortmodule", optimizer="ort_fused_adam", sharding="zero1"),
}


TINY_MODEL = ("model=bert-tiny", "model.size=mini", "seq_len=32", "micro_batch=4")
"""Overrides of a shipped model that takes milliseconds a step; a model of the tests would be tried first."""

SMALL = 108_864
"""Parameters of `a_model()`."""


def a_model(**changes: Any) -> Model:
    """A BERT so small that a step takes milliseconds."""
    figures: dict[str, Any] = {
        "name": "m",
        "task": "masked-lm",
        "architecture": "bert",
        "config": {
            "vocab_size": 512,
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 128,
            "max_position_embeddings": 64,
        },
        "parameters": SMALL,
        "source": "",
        "micro_batch": 4,
        "seq_len": 16,
    }
    return Model(**figures | changes)


def a_config(folder: Path, *, model: Model | None = None, **measure: Any) -> Config:
    """Two CPU ranks, the three backends; `measure` replaces settings of that group.

    Where a held-out loss is wanted, the data are real.
    """
    figures: dict[str, Any] = {
        "launches": 2,
        "rounds": 3,
        "block_seconds": 2.0,
        "warmup_steps": 2,
        "preheat_s": 0.0,
        "schedule": "interleaved",
        "parity_steps": 4,
        "parity_tolerance": 1e-3,
        "margin": 0.02,
        "repeats": 2,
        "target_half_width": None,
        "max_launches": 6,
        "timeout_s": 600,
        "wait_s": 0.0,
    }
    if "explain" in typing.get_type_hints(MeasureWithStudies):  # the study may have been taken out
        figures["explain"] = False
    return Config(
        model=model or a_model(),
        backends=dict(BACKENDS),
        reference="pytorch",
        data=Data(name="python_docs") if "evaluate_every" in measure else Data(name="synthetic", batches=2),
        precision=Precision(name="fp32"),
        adam=Adam(lr=1e-4, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0),
        measure=MeasureWithStudies(**figures | measure),
        device=Device(type="cpu", world_size=2, threads=1, pin_cores=True, allocator="tuned"),
        micro_batch=4,
        grad_accum=2,
        seq_len=16,
        attention="eager",
        checkpointing=False,
        seed=0,
        machine="mine",
        study="bench",
        results_dir=str(folder / "results"),
        reports_dir=str(folder / "reports"),
        track=Track(folder=str(folder / "results" / "tracking"), timeout_s=60),
    )


def a_spec() -> WorkerSpec:
    """What a rank is started with: one step of one sample on one core."""
    return WorkerSpec(
        backend="pytorch",
        engine="eager",
        engine_options={},
        optimizer="adamw",
        sharding="ddp",
        loop="bare",
        slowed_by=0.0,
        model=a_model(config={}, parameters=1, micro_batch=1, seq_len=8),
        data=Data(name="synthetic", batches=2),
        adam=Adam(lr=1e-4, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0),
        precision=Precision(name="fp32"),
        attention="eager",
        checkpointing=False,
        micro_batch=1,
        grad_accum=1,
        accumulate=1,
        seq_len=8,
        seed=0,
        dropout=True,
        device="cpu",
        device_uuids=(),
        threads=1,
        pins_cores=True,
        blas="stock",
        cores=((0,),),
        memory_limit_bytes=None,
        initial_state="state",
        saves_initial_state=False,
        expected_tensors="expected",
    )
