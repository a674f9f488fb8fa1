"""`after=checkpoint`: does training go on from a checkpoint as if nothing had happened?"""

from typing import Any

from bench.errors import UserError
from bench.study import Study

FOLDER = "checkpoints"


def _check(config: Any) -> None:
    if config.device.nnodes > 1:
        raise UserError("after=checkpoint writes to one machine's disk", "leave device.nnodes out")


STUDY = Study(
    answers="What does a checkpoint cost, and does training go on from it as if nothing had happened?",
    is_wanted=lambda config: config.after == "checkpoint",
    is_after=True,
    check=_check,
    large=(FOLDER,),  # three times as large as the model, each
)
