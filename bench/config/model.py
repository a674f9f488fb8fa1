"""The model of a comparison: its architecture, size and adapters."""

from dataclasses import dataclass
from typing import Any

from bench.config import user_model
from bench.config.choices import TASKS, USER_TASK
from bench.config.fields import above_zero, at_least, below_one, check_fields, one_of
from bench.config.layers import PREFIX, parse
from bench.config.sizes import MINI, PUBLISHED, check_mini, check_size
from bench.errors import UserError

ALL, HEAD = "all", "head"  # values of `Model.trained`


@dataclass(kw_only=True)
class Lora:
    """Low-rank adapters (Hu et al. 2021, arXiv:2106.09685), the rest of the model frozen."""

    rank: int = at_least(1)
    alpha: float = above_zero()
    dropout: float = below_one()
    modules: list[str]  # names of the linear layers that get one

    def __post_init__(self) -> None:
        check_fields(self, "model.lora.")
        if not self.modules:
            raise UserError("model.lora.modules names no layer", "name at least one, such as q_proj")


@dataclass(kw_only=True)
class Model:
    """A published architecture, built from its configuration without a download."""

    name: str
    task: str = one_of(*TASKS, USER_TASK, unnamed=USER_TASK)
    architecture: str | None  # transformers' model_type, e.g. "bert"; None where `pretrained` says it
    config: dict[str, Any]  # what differs from the architecture's default configuration
    # of the published size, head included, tied weights counted once; adapters not counted
    parameters: int | None = at_least(1)
    source: str | None  # where the dimensions were published
    micro_batch: int  # per rank, as published or customary
    seq_len: int | None  # null where a sample has none: images
    longest: int | None = None  # tokens, where the model takes fewer than it has positions: RoBERTa
    size: str = PUBLISHED  # or mini, or layers:N; by the rules of bench.config.mini and .layers
    lora: Lora | None = None  # train adapters only
    trained: str = ALL  # or head, or layers:N for the last N layers and the head; the rest is frozen
    pretrained: str | None = None  # a hub id or a folder; random weights from `config` when None
    trust_remote_code: bool = False  # whether the Python files that come with a checkpoint may run
    module: str | None = None  # the user's torch module: path/to/file.py:Name or package.module:Name

    def __post_init__(self) -> None:
        check_fields(self, "model.")
        self._check_module()
        self._check_trained()
        user_model.check_folder(self.pretrained, self.architecture, self.config)
        if not user_model.is_random(self.pretrained) and self.size != PUBLISHED:
            raise UserError(
                f"model.size={self.size} shrinks a model that is built from its configuration, and "
                f"model.pretrained={self.pretrained} has the size of its weights",
                "leave one of them out",
            )
        check_size(self.name, self.dimensions, self.size)
        if self.size == MINI:
            check_mini(self.name, self.config)

    @property
    def dimensions(self) -> dict[str, Any]:
        """`config`, over what a folder's config.json says; a hub id's is read on the ranks alone."""
        return user_model.merge(user_model.read_config(self.pretrained) or {}, self.config)

    def _check_module(self) -> None:
        """Refuse transformers' settings for a user's module, and the reverse."""
        if self.module is None:
            if self.task == USER_TASK:
                raise UserError(
                    f"model.task={USER_TASK} is the task of a module, and none is given",
                    "leave it out, or set model.module=path/to/file.py:Name",
                )
            return
        presets = {
            "architecture": None,
            "task": USER_TASK,
            "pretrained": None,
            "size": PUBLISHED,
            "trained": ALL,
        }
        for key, preset in presets.items():
            value = getattr(self, key)
            if value != preset:
                raise UserError(
                    f"model.{key}={value} belongs to transformers' models and has no meaning for "
                    f"model.module={self.module}",
                    "leave it out, and have your class do it",
                )

    def _check_trained(self) -> None:
        if self.trained not in (ALL, HEAD) and not self.trained.startswith(PREFIX):
            raise UserError(
                f"model.trained={self.trained} names nothing that can be trained",
                f"choose {ALL}, {HEAD}, or {PREFIX}N for the last N layers and the head",
            )
        parse(self.trained)
        if self.trained != ALL and self.lora is not None:
            raise UserError(
                f"model.trained={self.trained} cannot be combined with model.lora: only adapters train",
                "set model.lora=null",
            )

    def positions(self) -> int | None:
        """Return the longest sequence that the position embeddings allow; None if `config` does not say."""
        if self.longest is not None:
            return self.longest
        keys = ("max_position_embeddings", "n_positions", "max_target_positions")
        dimensions = self.dimensions
        return next((dimensions[key] for key in keys if key in dimensions), None)
