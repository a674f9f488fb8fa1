"""The command itself on local data: a folder of texts and a folder of images, two real backends each."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from bench.setup.checkout import ROOT
from tests.support import local_data
from tests.support.commands import Ran, bench
from tests.support.cores import two_cores

# What each stack's libraries make of a dataset: test_datasets.py.
pytestmark = [pytest.mark.exhaustive, pytest.mark.once, two_cores]

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


BACKENDS = ["pytorch", "ortmodule"]


def run(folder: Path, *overrides: str, backends: list[str] = BACKENDS) -> Ran:
    """Run `bench` on a dataset; what it printed, and its rows."""
    short = ("measure=quick", "measure.launches=1", "measure.rounds=2", "measure.block_seconds=0.05")
    words = ("data=hf", f"backend=[{','.join(backends)}]", *short, "measure.parity_steps=3", *overrides)
    cache = {"HF_DATASETS_CACHE": str(folder / "cache")}
    done, rows = bench(folder, "device.world_size=1", *words, variables=cache)
    assert "Traceback" not in done.stderr, done.stderr
    assert (rows["status"] == "ok").all(), done.stderr
    assert rows.groupby("backend")["round"].nunique().to_dict() == dict.fromkeys(backends, 2)
    return done, rows


def test_a_folder_of_texts_with_workers(tmp_path: Path) -> None:
    rated = local_data.rows("sequence-classification", 64)
    given = [{"review": row["text"], "stars": row["label"] + 4} for row in rated]
    path = local_data.lines(tmp_path / "data", given)
    _, rows = run(
        tmp_path,
        *(f"hydra.searchpath=[file://{ROOT}/tests/conf]", "model=bert-for-tests"),
        *("model.task=sequence-classification", "++model.config.num_labels=6", "data.workers=1"),
        "++data.columns={text: review, label: stars}",  # README
        *(f"data.path={path}", f"data.processor={local_data.tokenizer(tmp_path / 'words')}"),
    )
    assert (rows["data"] == f"hf:{path}").all()
    assert rows["lengths"].isna().all()
    assert (rows["loader_s"] >= 0).all()
    assert (rows["loader_s"] < rows["seconds"]).all()
    assert rows["padding_share"].between(0.6, 0.85).all(), "3 to 9 words and two more of 32"
    assert (rows["loss_difference"] < 1e-4).all(), "all backends see the same batches"
    assert len(list((tmp_path / "cache" / "bench").glob("*.arrow"))) == 1, "tokenized once"


def test_a_folder_of_images(tmp_path: Path) -> None:
    conf = tmp_path / "conf" / "model" / "vit-mini.yaml"
    conf.parent.mkdir(parents=True)
    conf.write_text(OmegaConf.to_yaml(VIT))
    _, rows = run(
        tmp_path,
        *(f"hydra.searchpath=[file://{tmp_path}/conf]", "model=vit-mini"),
        f"data.path={local_data.images(tmp_path / 'images', 16)}",
        f"data.processor={local_data.image_processor(tmp_path / 'processor')}",
    )
    assert rows["padding_share"].isna().all()
    assert rows["seq_len"].isna().all()
    shares = rows["loader_s"] / rows["seconds"]
    assert shares.median() > 0.05, "nobody but the rank itself opens the images"
    page = (tmp_path / "reports" / "index.md").read_text(encoding="utf-8")
    assert "raise data.workers" in page, "the terminal shows two kinds of warnings at most"


def test_a_backend_whose_workers_prepare_its_batches(tmp_path: Path) -> None:
    """Images as those of `make claims`: both train the same ones, and each row says who prepared them."""
    made = pytest.importorskip("bench.studies.sweeps.made_images")
    made.make_images(tmp_path / "images", 16)
    done, rows = run(
        tmp_path,
        *("model=vit-base", "model.size=mini", "micro_batch=2"),
        *(f"data.path={tmp_path}/images/train", f"data.processor={tmp_path}/images/processor"),
        backends=["pytorch", "pytorch_workers"],
    )
    assert rows.groupby("backend")["loader"].unique().map(list).to_dict() == {
        "pytorch": ["workers=0"],
        "pytorch_workers": ["workers=2"],
    }
    assert (rows["loss_difference"] == 0).all(), "the same batches"
    assert "loader workers=2 (reference workers=0)" in done.stdout
