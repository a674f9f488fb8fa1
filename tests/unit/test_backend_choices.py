"""What a backend may choose otherwise than its comparison, such as its precision or its loader."""

import pytest

from bench.config.compose import compose
from bench.config.identity import measured_settings
from bench.errors import UserError

WORKERS = "backend=[pytorch,pytorch_workers]"
TEXTS = "data=hf data.path=texts data.processor=words"
"""A dataset, which need not be there for a backend to be refused."""


def test_a_backend_that_leaves_all_to_its_comparison_is_the_same_as_before_it_could_choose() -> None:
    config = compose(["device=cpu", "backend=[pytorch,pytorch_bf16]"])
    settings = measured_settings(config)["backends"]
    assert "precision" not in settings["pytorch"]
    assert settings["pytorch_bf16"]["precision"] == "bf16"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (WORKERS, "workers has no effect with data=synthetic, whose batches lie ready"),
        (f"{WORKERS} {TEXTS} backends.pytorch_workers.workers=-1", "must be at least 0"),
        (f"backend=[pytorch,pytorch_unpinned] {TEXTS}", "pinned_memory is of batches that a GPU reads"),
        ("backends.pytorch_accumulation.accumulate=3", "does not divide micro_batch=8; choose micro_batch=9"),
        ("backends.pytorch_accumulation.accumulate=0", "must be at least 1"),
        ("measure.batch=max device.memory_limit_gib=4", "and measure.batch=max changes it"),
        ("backends.pytorch_accumulation.precision=fp8", "precision=fp8 is not known; choose one of"),
        ("backends.pytorch_accumulation.precision=tf32", "exists on CUDA devices only"),
    ],
)
def test_what_a_backend_cannot_have_is_refused_in_a_sentence(overrides: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        compose(
            ["device=cpu", "model=bert-mini", "backend=[pytorch,pytorch_accumulation]", *overrides.split()]
        )
    assert words in str(caught.value)
