"""Every way in which a launch can fail, provoked for real: the row that it leaves, and nothing else.

Not here: `unsupported` (test_end_to_end.py, FNet), `fallback` and `invalid` (test_backends.py,
test_comparison.py), which need no broken machine; ONNX Runtime under a limit of memory, enough and not
(test_largest.py).
"""

import dataclasses
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from bench.config.schema import Config
from bench.errors import CannotWriteResults
from bench.launch.group import Group
from bench.launch.messages import Request, TrainForParity
from bench.launch.spec import WorkerSpec
from bench.measure.plan.plans import PARITY
from bench.setup.checkout import ROOT
from tests.support.comparisons import Outcome
from tests.support.configs import BACKENDS, a_config
from tests.support.cores import two_cores
from tests.support.fakes import starter
from tests.support.processes import gone

pytestmark = [pytest.mark.usefixtures("forked"), two_cores]

Fault = Callable[[Group], None]


def config(folder: Path, *backends: str, device: dict[str, Any] | None = None, **settings: Any) -> Config:
    """`backends` of two eager ranks (or the named ones), one short launch of two rounds."""
    measure = {"launches": 1, "rounds": 2, "block_seconds": 0.1}
    made = a_config(folder, **measure | settings.pop("measure", {}))
    return dataclasses.replace(
        made,
        backends={name: dataclasses.replace(BACKENDS.get(name, BACKENDS["pytorch"])) for name in backends},
        reference=backends[0],
        device=dataclasses.replace(made.device, **device or {}),
        **settings,
    )


def faulty(faults: Mapping[str, tuple[str, Fault]], when: Callable[[], bool] = lambda: True) -> type[Group]:
    """Groups in which the backends of `faults` have it befall them at the action named there, once."""
    spared = set(faults)

    class Faulty(Group):
        seen: ClassVar[set[int]] = set()  # process ids

        def ask(self, request: Request[Any]) -> None:
            super().ask(request)
            self.seen.update(self.pids.values())
            name = backend_of(self)
            if name in spared and request.name == faults[name][0] and when():
                spared.remove(name)
                faults[name][1](self)

    return Faulty


def backend_of(group: Group) -> str:
    return group.local_ranks.log.parent.name


def kill_rank(group: Group) -> None:
    os.kill(group.pids[1], signal.SIGKILL)


def stop_rank(group: Group) -> None:
    group.seconds_left = 2
    os.kill(group.pids[1], signal.SIGSTOP)


STATES = "rank 0: (sleeping|running), rank 1: stopped"
EXPECTED = {
    "killed": (1, "crashed", "rank 1 was killed by SIGKILL during block$"),
    "stopped": (1, "timeout", f"block: .* longer than measure.timeout_s=600 seconds in all; {STATES}$"),
    "deaf": (0, "timeout", "parity: .*; rank 0: (sleeping|running), rank 1: (sleeping|running)$"),
    "import": (0, "crashed", "^ImportError: libfoo.so.7: no such file$"),
}
"""A backend for each fault: the launch, the status and the message of its row. Other ends: test_group.py."""


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """One comparison of `pytorch` and all the victims, since each takes a while."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "broken").mkdir()
    (folder / "broken" / "deepspeed.py").write_text("raise ImportError('libfoo.so.7: no such file')\n")
    victims = faulty({"killed": ("block", kill_rank), "stopped": ("block", stop_rank)})

    class Faulty(victims):  # type: ignore[misc,valid-type]
        def __init__(self, spec: WorkerSpec, *, variables: dict[str, str], **settings: Any) -> None:
            if spec.backend == "import":
                variables = {**variables, "PYTHONPATH": f"{folder / 'broken'}:{ROOT}"}
            super().__init__(spec, variables=variables, **settings)

        def ask(self, request: Request[Any]) -> None:
            if not isinstance(request, TrainForParity) or backend_of(self) != "deaf":
                super().ask(request)
                return
            # Rank 1 never hears of it, and rank 0 waits for it in a collective.
            self.seconds_left = 3
            self.channels[0].send(request)

    made = config(folder, "pytorch", *EXPECTED)
    made.backends["import"].sharding = "zero1"
    outcome = Outcome(made, Faulty)
    outcome.pids = Faulty.seen
    return outcome


@pytest.mark.once
@pytest.mark.parametrize("name", EXPECTED)
def test_a_row_says_what_happened_as_it_is_said_at_once_and_listed_at_the_end(
    faults: Outcome, name: str
) -> None:
    ((launch, status, message),) = [row[1:] for row in faults.failed() if row[0] == name]
    assert (launch, status) == EXPECTED[name][:2]
    assert re.search(EXPECTED[name][2], message), message
    assert faults.rounds(name) == []
    words = f"{name}, {'launch 1/1' if launch else 'parity launch'}: {status}: "
    assert len([line for line in faults.printed if words in line]) == 1
    assert len([line for line in faults.failures if words in line]) == 1


@pytest.mark.once
def test_the_other_goes_on_no_process_is_left_and_an_error_s_details_lie_beside_the_log(
    faults: Outcome,
) -> None:
    assert faults.rounds("pytorch") == [(1, 1), (1, 2)]
    assert len(faults.failures) == len(EXPECTED)
    folder = faults.comparison.shared.output.folder_of("import", PARITY)
    assert "Traceback" in (folder / "error.txt").read_text()
    assert "libfoo.so.7" in (folder / "log.txt").read_text()
    started = {0: 1 + len(EXPECTED), 1: 3}
    assert len(faults.pids) == 2 * sum(started.values()), "two ranks of each"
    assert gone(list(faults.pids))


@pytest.mark.once
def test_a_launch_that_takes_too_long(tmp_path: Path) -> None:
    outcome = Outcome(config(tmp_path, "pytorch", "victim", measure={"timeout_s": 1.0}))
    statuses = {backend: (launch, status) for backend, launch, status, _ in outcome.failed()}
    assert statuses["pytorch"] == (0, "timeout")
    assert set(statuses) == {"pytorch", "victim"}
    assert outcome.rounds("pytorch") == []


@pytest.mark.once
def test_no_more_memory_than_the_limit(tmp_path: Path) -> None:
    # 40,000 x 16 tokens x 512 words x 4 bytes are 1.2 GiB of scores a rank, and there are 2 GiB.
    made = config(tmp_path, "pytorch", device={"memory_limit_gib": 4.0}, micro_batch=40_000, grad_accum=1)
    outcome = Outcome(made)
    ((name, launch, status, message),) = outcome.failed()
    assert (name, launch, status) == ("pytorch", 0, "oom"), message
    assert "\n" not in message


@pytest.mark.once
def test_a_loss_that_diverges(tmp_path: Path) -> None:
    made = config(tmp_path, "pytorch", "victim", device={"world_size": 1})
    made.adam.lr = 1e30
    outcome = Outcome(made)
    statuses = {backend: status for backend, _, status, _ in outcome.failed()}
    assert statuses == {"pytorch": "diverged", "victim": "skipped"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB; mounting one takes root's rights."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("no right to mount a small file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.exhaustive
@pytest.mark.once
def test_a_full_disk(small_disk: Path) -> None:
    """Real ranks until the disk is full; that going on afterwards takes none is the coordinator's affair."""
    csv = small_disk / "results" / "m-cpux2.csv"
    written: list[bytes] = []

    def a_round_is_there() -> bool:
        return csv.exists() and b",pytorch," in csv.read_bytes()

    def fill(_: Group) -> None:
        written.append(csv.read_bytes())
        with (small_disk / "filler").open("wb", buffering=0) as filler:
            for size in (1 << 20, 1 << 12, 1):
                with suppress(OSError):
                    while True:
                        filler.write(b"x" * size)

    made = config(small_disk, "pytorch", "victim", device={"world_size": 1}, measure={"rounds": 3})
    with pytest.raises(
        CannotWriteResults, match=r"cannot be written \(no space left on device\); make room, and go"
    ):
        Outcome(made, faulty({"victim": ("block", fill)}, a_round_is_there))
    assert csv.read_bytes() == written[0], "the round before"
    (small_disk / "filler").unlink()
    fakes = starter({name: {"step_seconds": 0.1} for name in made.backends}, [])
    outcome = Outcome(dataclasses.replace(made, resume=True), cast(Any, fakes))
    assert outcome.failed() == []
    for backend in ("pytorch", "victim"):
        assert outcome.rounds(backend)[0] == (1, 1), "kept"
        assert len(outcome.rounds(backend)) >= 3
