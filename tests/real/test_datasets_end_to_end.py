"""The command itself on local data: a folder of texts and a folder of images, two real backends each."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from bench.setup import stacks
from bench.setup.checkout import ROOT
from tests.support import local_data
from tests.support.commands import Ran, bench, side_by_side
from tests.support.cores import two_cores

pytestmark = [pytest.mark.exhaustive, two_cores]

VIT = {
    "name": "vit-mini",
    "task": "image-classification",
    "architecture": "vit",
    "config": {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "image_size": 16,
        "patch_size": 8,
    },
    "parameters": 1,
    "source": "made for the tests",
    "micro_batch": 4,
    "seq_len": None,
}


BACKENDS = ["pytorch", "ortmodule" if stacks.own() == "ort" else "pytorch_fused"]


def run(folder: Path, *overrides: str, cores: set[int], backends: list[str] = BACKENDS) -> Ran:
    """Run `bench` on a dataset; what it printed, and its rows."""
    short = ("measure=quick", "measure.launches=1", "measure.rounds=2", "measure.block_seconds=0.1")
    words = ("data=hf", f"backend=[{','.join(backends)}]", *short, "measure.parity_steps=3", *overrides)
    cache = {"HF_DATASETS_CACHE": str(folder / "cache")}
    done, rows = bench(folder, *words, cores=cores, variables=cache)
    assert "Traceback" not in done.stderr, done.stderr
    assert (rows["status"] == "ok").all(), done.stderr
    assert rows.groupby("backend")["round"].nunique().to_dict() == dict.fromkeys(backends, 2)
    return done, rows


@dataclass(frozen=True)
class Found:
    """What both commands left."""

    ran: dict[str, Ran]
    texts: str
    cache: Path
    images: Path


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    texts, images, workers = (tmp_path_factory.mktemp(name) for name in ("texts", "images", "workers"))
    rated = local_data.rows("sequence-classification", 64)
    path = local_data.lines(
        texts / "data", [{"review": row["text"], "stars": row["label"] + 4} for row in rated]
    )
    conf = images / "conf" / "model" / "vit-mini.yaml"
    conf.parent.mkdir(parents=True)
    conf.write_text(OmegaConf.to_yaml(VIT))

    def of_texts(cores: set[int]) -> Ran:
        return run(
            texts,
            f"hydra.searchpath=[file://{ROOT}/tests/conf]",
            *("model=bert-for-tests", "model.task=sequence-classification", "device.world_size=1"),
            *("++model.config.num_labels=6", "++data.columns={text: review, label: stars}"),  # README
            *(f"data.path={path}", f"data.processor={local_data.tokenizer(texts / 'words')}"),
            "data.workers=1",
            cores=cores,
        )

    def of_images(cores: set[int]) -> Ran:
        return run(
            images,
            f"hydra.searchpath=[file://{images}/conf]",
            *("model=vit-mini", "device.world_size=1"),
            f"data.path={local_data.images(images / 'images', 16)}",
            f"data.processor={local_data.image_processor(images / 'processor')}",
            cores=cores,
        )

    def of_workers(cores: set[int]) -> Ran:
        made = pytest.importorskip("bench.studies.sweeps.made_images")
        made.make_images(workers / "images", 16)
        return run(
            workers,
            *("model=vit-base", "model.size=mini", "micro_batch=2", "device.world_size=1"),
            *(f"data.path={workers}/images/train", f"data.processor={workers}/images/processor"),
            cores=cores,
            backends=["pytorch", "pytorch_workers"],
        )

    jobs = {"texts": of_texts, "images": of_images, "workers": of_workers}
    return Found(side_by_side(jobs), path, texts / "cache", images)


def test_a_folder_of_texts_with_workers(found: Found) -> None:
    _, rows = found.ran["texts"]
    assert (rows["data"] == f"hf:{found.texts}").all()
    assert rows["lengths"].isna().all()
    assert (rows["loader_s"] >= 0).all()
    assert (rows["loader_s"] < rows["seconds"]).all()
    assert rows["padding_share"].between(0.6, 0.85).all(), "3 to 9 words and two more of 32"
    assert (rows["loss_difference"] < 1e-4).all(), "all backends see the same batches"
    assert len(list((found.cache / "bench").glob("*.arrow"))) == 1, "tokenized once"


def test_a_folder_of_images(found: Found) -> None:
    _, rows = found.ran["images"]
    assert rows["padding_share"].isna().all()
    assert rows["seq_len"].isna().all()
    shares = rows["loader_s"] / rows["seconds"]
    assert shares.median() > 0.05, "nobody but the rank itself opens the images"
    page = (found.images / "reports" / "index.md").read_text(encoding="utf-8")
    assert "raise data.workers" in page, "the terminal shows two kinds of warnings at most"


def test_a_backend_whose_workers_prepare_its_batches(found: Found) -> None:
    """Images as those of `make claims`: both train the same ones, and each row says who prepared them."""
    done, rows = found.ran["workers"]
    assert rows.groupby("backend")["loader"].unique().map(list).to_dict() == {
        "pytorch": ["workers=0"],
        "pytorch_workers": ["workers=2"],
    }
    assert (rows["loss_difference"] == 0).all(), "the same batches"
    assert "loader workers=2 (reference workers=0)" in done.stdout
