"""What `make matrix` plans is built and fed before anything is measured: one refusal would end it."""

import pytest

from bench.config.compose import compose
from bench.studies.sweeps import plan_file
from bench.worker.workload.inspections import inspect_model

pytestmark = [pytest.mark.exhaustive, pytest.mark.once]

(PART,) = plan_file.select_parts(plan_file.load_plan("matrix"), ["architectures"])


@pytest.mark.parametrize("folder", PART.overrides_by_model)
def test_an_architecture_of_the_matrix_takes_a_batch(folder: str) -> None:
    own = PART.overrides_by_model[folder]
    config = compose([*PART.overrides, f"model.pretrained={folder}", *own, "device=cpu"])
    unused = inspect_model(config.model, seq_len=config.seq_len)
    assert len(unused) < 10, "nearly all weights get a gradient"
