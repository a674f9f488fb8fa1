"""Makes a model's transformers configuration once, before any launch, to find what must be corrected."""

from typing import Any

import msgspec

from bench.config.model import Model
from bench.worker.workload.inspecting import end_after


def inspect_model(plain: dict[str, Any]) -> None:
    """Make the configuration of a `Model` as plain JSON.

    Raises:
        LaunchFailed: it cannot be made.
    """
    from bench.worker.workload.settings import configuration, naming_what_cannot_be_read  # imports torch

    model = msgspec.convert(plain, Model)
    with naming_what_cannot_be_read(model):
        configuration(model)


if __name__ == "__main__":
    end_after(inspect_model)
