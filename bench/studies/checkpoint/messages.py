"""What ranks are asked for: to save the state of the training, and to go on from it."""

from typing import ClassVar

from bench.launch.messages import Answer, Request


class CheckpointSaved(Answer, frozen=True, kw_only=True):
    """The state of the training lies on the disk."""

    seconds: float  # from the moment when all ranks were ready until it did
    bytes: int = 0  # of all its files; only rank 0 counts


class CheckpointLoaded(Answer, frozen=True, kw_only=True):
    """Training can go on where it was."""

    seconds: float  # that it took, the check of all files included
    steps: int  # that had been taken


class SaveCheckpoint(Request[CheckpointSaved], frozen=True, tag="save_checkpoint"):
    """Write down all that is needed to go on after this step."""

    folder: str  # of the checkpoints; all ranks share it
    steps: int  # that have been taken since the first micro-batch
    answered_by: ClassVar[str] = "bench.studies.checkpoint.ranks"


class LoadCheckpoint(Request[CheckpointLoaded], frozen=True, tag="load_checkpoint"):
    """Go on from the newest checkpoint, with the micro-batch that would have been the next."""

    folder: str
    answered_by: ClassVar[str] = "bench.studies.checkpoint.ranks"
