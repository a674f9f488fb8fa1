"""The settings of `track`: to which experiment trackers a finished comparison is logged."""

from dataclasses import dataclass

from bench.config.checks import above_zero, one_of
from bench.errors import UserError

WANDB_MODES = ("offline", "online")


@dataclass(kw_only=True)
class Mlflow:
    """MLflow."""

    uri: str | None  # of a server; null: a SQLite file in `Track.folder`
    experiment: str

    def __post_init__(self) -> None:
        _not_empty("track.mlflow.experiment", self.experiment)


@dataclass(kw_only=True)
class Wandb:
    """Weights & Biases."""

    mode: str
    project: str
    entity: str | None  # the team; null: of who is logged in

    def __post_init__(self) -> None:
        one_of("track.wandb.mode", self.mode, WANDB_MODES)
        _not_empty("track.wandb.project", self.project)


@dataclass(kw_only=True)
class Tensorboard:
    """TensorBoard."""

    subfolder: str  # of `Track.folder`

    def __post_init__(self) -> None:
        _not_empty("track.tensorboard.subfolder", self.subfolder)


@dataclass(kw_only=True)
class Track:
    """The trackers, each None if it is not wanted."""

    folder: str  # where those that have no server keep what they are given
    timeout_s: float  # for all of them together
    mlflow: Mlflow | None = None
    wandb: Wandb | None = None
    tensorboard: Tensorboard | None = None

    def __post_init__(self) -> None:
        above_zero("track.timeout_s", self.timeout_s)

    @property
    def names(self) -> list[str]:
        """The wanted ones."""
        return [name for name in TRACKERS if getattr(self, name) is not None]


LIBRARIES = {
    "mlflow": ("mlflow-skinny", "sqlalchemy", "alembic"),
    "wandb": ("wandb",),
    "tensorboard": ("tensorboard",),
}
"""By tracker, the packages that it needs; the extra in pyproject.toml that installs them bears its name."""

TRACKERS = tuple(LIBRARIES)


def _not_empty(key: str, value: str) -> None:
    if not value.strip():
        raise UserError(f"{key} must not be empty", "leave it out to get the default")
