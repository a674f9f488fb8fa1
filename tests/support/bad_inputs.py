"""Mistakes that users make, and the one sentence that each command prints.

    python -m tests.support.bad_inputs --folder EMPTY_FOLDER --out tests/support/bad_inputs.md

Every case runs the real command in a folder with the files of `prepare`. Numbers that belong to the machine
are written as `N`, and the folder as `FOLDER`. The commands are forked from a process that has imported the
harness, since a hundred starts of Python would take most of the time.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OPEN_LIST = re.compile(r"^((?:model|backend|backends\.\w+\.engine)=\S+ .*?; choose (?:from|one of): ).*")
"""A sentence that lists all models, backends or engines: the table leaves them out, since more come."""

DEFAULT_STEM = "bert-mini-cpux2"
"""What `make bench` calls its file: `resume=true` must find it, or it would begin to measure."""

GOOD = ROOT / "tests" / "golden" / "results" / "bert-tiny-cpux2.csv"
"""A results file that no `make bench` replaces."""

TOO_LONG = "long" * 100
"""For a file's name; the table shows less of it."""

SECONDS = 5.0
"""The longest that a refusal may take, with Python's start."""

BENCH = (
    # numbers
    "micro_batch=0",
    "micro_batch=1.5",
    "micro_batch=many",
    "micro_batch=1000000000",
    "grad_accum=-1",
    "grad_accum=1000000000",
    "data.batches=1000000000",
    "seq_len=4",
    "seq_len=100000",
    "seed=-1",
    "seed=null",
    "seed=99999999999999999999",
    "adam.lr=0",
    "adam.beta1=1",
    "data.workers=100",
    "measure.launches=-1",
    "measure.launches=1000000",
    "measure.rounds=2.5",
    "measure.rounds=5000",
    "measure.block_seconds=inf",
    "measure.margin=nan",
    "measure.until=-0.1",
    "measure.timeout_s=0",
    "measure=converge",
    "measure=converge data=python_docs measure.repeats=3",
    "measure.target_loss=3",
    "backend=[pytorch,pytorch_slowed] backends.pytorch_slowed.slowed_by=-1",
    # the machine
    "device.world_size=0",
    "device.world_size=10000",
    "device.threads=1000",
    "device.memory_limit_gib=0",
    # choices
    "model=bert-huge",
    "model=null",
    "model=[bert-tiny,gpt2]",
    "model=bert-tiny,gpt2",
    "backend=[]",
    "backend=[pytorch,jax]",
    "backend=[ortmodule] reference=pytorch",
    "reference=nobody",
    "backends.pytorch.engine=jax",
    "backends.nobody.engine=eager",
    "precision=bf17",
    "precision=tf32 device=cpu",
    "precision=bf16",
    "attention=flash",
    "attention=flash_attention_2",
    "model=bert-large model.size=mini model.pretrained=./conf",
    "model=bert-large model.size=tiny",
    "model.trained=neck",
    "model.trained=layers:0",
    "model=llama-2-7b model.trained=head",
    "model=vit-base seq_len=64",
    "data=hf",
    "data=hf data.path=conf",
    "data=hf data.path=./nowhere data.processor=conf",
    "data=python_docs",
    "data.lengths=poisson",
    "measure.batch=max",
    "measure.batch=largest",
    "device=tpu",
    "device.allocator=jemalloc",
    "device.blas=openblas",
    "measure=forever",
    "measure.resident=some",
    "measure.resident=all device=cuda device.world_size=1 device.threads=1",
    "device.memory_limit_gib=8 device=cuda device.world_size=1 device.threads=1",
    "device.blas=full device=cuda device.world_size=1 device.threads=1",
    "experiment=none",
    "resume=maybe",
    # keys and overrides
    "mirco_batch=4",
    "measure.round=3",
    "+new.key=1",
    "micro_batch",
    "seed=${nothing}",
    "--multirun micro_batch=1,zero",
    "hydra.job.chdir=true",
    # files and folders
    "results_dir=/proc/nowhere",
    "reports_dir=file",
    f"reports_dir={TOO_LONG}",
    "results_dir=both reports_dir=both",
    f"model.pretrained=./{TOO_LONG}",
    "model.pretrained=./nowhere",
    "hydra.searchpath=[file://nowhere]",
    "hydra.searchpath=[file://conf] backend=[pytorch,escape]",
    "hydra.searchpath=[file://conf] model=broken",
    "resume=true results_dir=damaged",
    "resume=true results_dir=foreign",
)

OTHERS = (
    "compare nowhere.csv good.csv",
    "compare damaged.csv good.csv",
    "compare foreign.csv good.csv",
    "compare",
    "report nowhere --out reports",
    "report damaged --out reports",
    "compare nothing good.csv",
    "compare good.csv HEAD~1000",
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a command printed to stderr, its exit status, and how long it took."""

    text: str
    status: int
    seconds: float


def cases() -> list[str]:
    """Return every case, as the words after `python -m bench`, or after `python -m bench.`."""
    return [*BENCH, *OTHERS]


def prepare(folder: Path) -> None:
    """Make the files that the cases name: good, damaged and foreign results, and a user's own conf/."""
    good = GOOD.read_bytes()
    half = good[: good.index(b'"', good.index(b'"') + 1)]  # inside a quoted cell
    for place, content in {
        "good.csv": good,
        "damaged.csv": half,
        "foreign.csv": b"city,population\nUlm,126000\n",
        f"damaged/{DEFAULT_STEM}.csv": half,
        f"foreign/{DEFAULT_STEM}.csv": b"city,population\nUlm,126000\n",
        "results/good.csv": good,
        "file": b"not a folder",
        "conf/backend/escape.yaml": b"# @package backends.../../escape\nengine: eager\n",
        "conf/model/broken.yaml": b"name: [\n",
    }.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(content)


def words_of(case: str) -> list[str]:
    """Return the words after `python -m`."""
    first, *words = case.split()
    if case in OTHERS:
        return [f"bench.{first}", *words]
    command = ["bench", *case.split()]
    if not any(word.startswith("device=") for word in case.split()):
        command.append("device=cpu")
    if "device.world_size" not in case:
        command.append("device.world_size=2")
    return command


def run(case: str, folder: Path) -> Answer:
    """Run one case in `folder`, in a process of its own from Python's start on."""
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", *words_of(case)],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return answer(done.stderr, done.returncode, time.monotonic() - begun, folder)


def run_all(folder: Path) -> dict[str, Answer]:
    """Run every case in `folder`, several at a time."""
    with subprocess.Popen(
        [sys.executable, "-c", _FORKING, str(len(os.sched_getaffinity(0)))],
        cwd=folder,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        output, _ = process.communicate(json.dumps([words_of(case) for case in cases()]))
    assert process.returncode == 0, "the commands could not be started"
    answers = [answer(text, status, seconds, folder) for text, status, seconds in json.loads(output)]
    return dict(zip(cases(), answers, strict=True))


def environment() -> dict[str, str]:
    """Return the commands' environment variables."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def answer(errors: str, status: int, seconds: float, folder: Path) -> Answer:
    """Return the answer without what belongs to this machine."""
    text = re.sub(r"(?<=shows )\d+|(?<=process has )\d+|(?<=machine has )[\d,]+", "N", errors.strip())
    text = re.sub(r"set device\.\S+?=\d+( device\.threads=1)?\.", "set device.…=N.", text)
    return Answer(text=text.replace(str(folder), "FOLDER"), status=status, seconds=seconds)


_FORKING = """
import json, os, runpy, sys, tempfile, time
import bench.__main__, bench.compare.__main__, bench.report.__main__

def start(words, errors):
    pid = os.fork()
    if pid:
        return pid
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(errors.fileno(), 2)
    for name in ("bench.__main__", "bench.compare.__main__", "bench.report.__main__"):
        del sys.modules[name]  # so that it is executed again, as by -m
    sys.argv = [words[0], *words[1:]]
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    sys.exit(0)

waiting, running, answers = list(enumerate(json.load(sys.stdin))), {}, {}
while waiting or running:
    while waiting and len(running) < int(sys.argv[1]):
        number, words = waiting.pop(0)
        errors = tempfile.TemporaryFile()
        running[start(words, errors)] = number, errors, time.monotonic()
    pid, status = os.wait()
    number, errors, begun = running.pop(pid)
    errors.seek(0)
    text = errors.read().decode(errors="replace")
    answers[number] = text, os.waitstatus_to_exitcode(status), time.monotonic() - begun
json.dump([answers[number] for number in sorted(answers)], sys.stdout)
"""


def markdown(answers: dict[str, Answer]) -> str:
    """Return the table as Markdown."""
    return "\n".join(
        [
            "# Mistakes of users, and what is printed",
            "",
            "`python -m tests.support.bad_inputs`; `make test-all` runs every line. Each ends "
            f"with status 2 within {SECONDS:.0f} s. `compare` and `report` are `python -m bench.compare` and "
            "`python -m bench.report`, everything else follows `python -m bench`.",
            "",
            "| input | what is printed |",
            "| --- | --- |",
            *(line(case, answer) for case, answer in answers.items()),
            "",
        ]
    )


def line(case: str, answer: Answer) -> str:
    """Return a case's line of the table."""
    text = OPEN_LIST.sub(r"\1…", answer.text)
    return f"| `{_cell(case)}` | {_cell(text)} |"


def _cell(text: str) -> str:
    return text.replace(TOO_LONG, "long…").replace("|", "\\|").replace("\n", "<br>")


def main() -> int:
    """Run every case and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--folder", type=Path, required=True, help="an empty folder outside any git checkout")
    options = parser.parse_args()
    prepare(options.folder)
    table = markdown(run_all(options.folder))
    print(table)
    if options.out:
        options.out.write_text(table, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
