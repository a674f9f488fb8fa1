"""Where the batches come from."""

from dataclasses import dataclass, field

from bench.config.choices import LENGTHS
from bench.config.fields import at_least, check_fields, one_of
from bench.errors import UserError

SYNTHETIC = "synthetic"  # of all others a folder in bench/plugins makes the batches

LOADER_SETTINGS = ("workers", "pinned_memory")
"""How batches are prepared, which changes none of them; a backend may have its own."""

SHORTEST_SHARE = 0.5  # of lengths=uniform: from this share of seq_len to all of it

OF_NAMES = {
    "synthetic": ("batches", "lengths"),
    "hf": ("path", "subset", "split", "columns", "processor", *LOADER_SETTINGS),
}
"""By `Data.name`: the settings that have an effect with it alone."""


@dataclass(kw_only=True)
class Data:
    """Where the batches come from: made from a seed, or real data.

    Samples are padded to `seq_len` alike for all backends, since ORTModule wants one shape.
    """

    # made from a seed, a dataset in Hugging Face's format, or what Python says of itself
    name: str = one_of(SYNTHETIC, "hf", "python_docs")
    # synthetic
    batches: int = at_least(2, 8)  # distinct micro-batches per rank, cycled through
    # how long samples are without their padding: bench.worker.workload.synthetic
    lengths: str = one_of(*LENGTHS, default="uniform")
    # hf
    path: str | None = None  # a local folder or a hub id
    subset: str | None = None  # of a hub id that has several subsets
    split: str = "train"
    columns: dict[str, str] = field(default_factory=dict)  # the task's name of a column: the dataset's
    processor: str | None = None  # tokenizer, image or speech processor: a folder or hub id
    # processes per rank that prepare batches; 0: the rank does it itself
    workers: int = at_least(0, 0)
    pinned_memory: bool = True  # on CUDA: batches wait in memory that the device reads by itself

    def loader_on(self, device: str) -> str:
        """Return how batches are prepared, `workers=2 pinned_memory=true`; empty without preparation."""
        if self.name != "hf":
            return ""
        pinned = f" pinned_memory={str(self.pinned_memory).lower()}" if device == "cuda" else ""
        return f"workers={self.workers}{pinned}"

    def __post_init__(self) -> None:
        check_fields(self, "data.")

    def check_source(self) -> None:
        """Refuse settings without effect, and a dataset without a name or without a processor.

        Called once the model is known to take such data.
        """
        default = Data(name=self.name)
        for name, keys in OF_NAMES.items():
            changed = [key for key in keys if getattr(self, key) != getattr(default, key)]
            if changed and name != self.name:
                raise UserError(
                    f"data.{changed[0]}={getattr(self, changed[0])} has no effect with data={self.name}",
                    f"leave it out, or choose data={name}",
                )
        if self.name == "hf" and self.path is None:
            raise UserError("data=hf needs a dataset", "set data.path=… to a folder or a hub id")
        if self.name == "hf" and self.processor is None:
            raise UserError(
                "data=hf needs the model's tokenizer or processor, and there is no model.pretrained to take "
                "it from",
                "set data.processor=… to a folder or a hub id",
            )
