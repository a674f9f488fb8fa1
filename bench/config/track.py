"""The settings of `track`: to which experiment trackers a finished comparison is logged."""

from dataclasses import dataclass

from bench.config.fields import above_zero, check_fields, one_of


@dataclass(kw_only=True)
class Mlflow:
    """MLflow."""

    uri: str | None  # of a server; null: a SQLite file in `Track.folder`
    experiment: str


@dataclass(kw_only=True)
class Wandb:
    """Weights & Biases: the fields are arguments of `wandb.init`."""

    mode: str = one_of("offline", "online")
    project: str
    entity: str | None  # the team; null: that of the logged-in user


@dataclass(kw_only=True)
class Track:
    """The trackers, each None if it is not wanted."""

    folder: str  # where trackers without a server store what is logged
    timeout_s: float = above_zero()  # for all of them together
    mlflow: Mlflow | None = None
    wandb: Wandb | None = None

    def __post_init__(self) -> None:
        check_fields(self, "track.")
        for name in self.names:
            check_fields(getattr(self, name), f"track.{name}.")

    @property
    def names(self) -> list[str]:
        """The wanted ones."""
        return [name for name in ("mlflow", "wandb") if getattr(self, name) is not None]
