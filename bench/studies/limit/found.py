"""The study's results: the work of a step, and how fast its matrix products are."""

from dataclasses import dataclass

NAME = "limit"  # of this study, in a record


@dataclass(frozen=True, kw_only=True, order=True)
class Shape:
    """The shape of a matrix product: `batch` times a matrix of rows x inner times one of inner x columns."""

    batch: int
    rows: int
    inner: int
    columns: int

    @property
    def flops(self) -> int:
        """FLOPs of one product; a multiplication and an addition are two."""
        return 2 * self.batch * self.rows * self.inner * self.columns

    def __str__(self) -> str:
        return f"{self.batch}x{self.rows}x{self.inner}x{self.columns}"


@dataclass(frozen=True, kw_only=True)
class WorkloadProduct:
    """All matrix products of one shape in one rank's forward and backward pass."""

    shape: Shape
    flops: int


@dataclass(frozen=True, kw_only=True)
class Product:
    """Matrix products of one rank, timed together."""

    shape: Shape  # that was asked for
    flops: int  # of what was multiplied; of shapes that take very long only a part is
    seconds: float


@dataclass(frozen=True, kw_only=True)
class TimedLibrary:
    """The matrix products of one library on one stack."""

    library: str  # that multiplied, such as `torch` or `onnxruntime`
    stack: str  # that it belongs to
    precision: str  # of the backend whose ranks were asked
    # each rank's quickest products of every shape, while all ranks multiplied
    ranks: tuple[tuple[Product, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """The work of a step and what the device can do, determined once for all backends of a comparison."""

    # micro-batches, and the FLOPs of one rank's forward and backward pass with each; empty if they could not
    # be counted
    counted: tuple[tuple[int, int], ...] = ()
    products: tuple[WorkloadProduct, ...] = ()  # its matrix products that have most of the FLOPs, by shape
    # the rates of everything that multiplies in this comparison; empty if none could be timed
    libraries: tuple[TimedLibrary, ...] = ()
    absent: tuple[str, ...] = ()  # why something is missing
