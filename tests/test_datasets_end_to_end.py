"""The command itself on local data: a folder of texts and a folder of images, two real backends each."""

import os
import subprocess
import sys
from pathlib import Path

import local_data
import pandas as pd
import pytest
from omegaconf import OmegaConf
from test_end_to_end import DISTURBED

ROOT = Path(__file__).resolve().parents[1]

pytestmark = [
    pytest.mark.alone,
    pytest.mark.timeout(300),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a rank and its coordinator need two cores"),
]

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


def bench(folder: Path, *overrides: str) -> tuple[subprocess.CompletedProcess[str], pd.DataFrame]:
    """Run `python -m bench` on a dataset; what it printed, and its rows.

    Somebody else on the cores makes blocks invalid, which is not what is tested here.
    """
    done = subprocess.run(
        [
            *(sys.executable, "-m", "bench", "device=cpu", "backend=[pytorch,ortmodule]", "data=hf"),
            *("measure=quick", "measure.launches=1", "measure.rounds=2", "measure.block_seconds=0.1"),
            *("measure.parity_steps=2", "measure.repeats=0"),
            *(f"results_dir={folder}/results", f"reports_dir={folder}/reports"),
            *overrides,
        ],
        cwd=ROOT,
        env={**os.environ, "HF_DATASETS_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    (written,) = (folder / "results").glob("*.csv")
    rows = pd.read_csv(written)
    undisturbed = rows[~rows["message"].fillna("").astype(str).str.contains(DISTURBED)]
    assert (undisturbed["status"] == "ok").all(), done.stderr
    assert rows.groupby("backend")["round"].nunique().to_dict() == {"pytorch": 2, "ortmodule": 2}
    return done, rows


def test_a_folder_of_texts_with_workers(tmp_path: Path) -> None:
    rated = local_data.rows("sequence-classification", 64)
    rows_of_theirs = [{"review": row["text"], "stars": row["label"] + 4} for row in rated]
    path = local_data.lines(tmp_path / "data", rows_of_theirs)
    done, rows = bench(
        tmp_path,
        f"hydra.searchpath=[file://{ROOT}/tests/conf]",
        *("model=bert-mini", "model.task=sequence-classification", "device.world_size=1"),
        *("++model.config.num_labels=6", "++data.columns={text: review, label: stars}"),  # as README has it
        *(f"data.path={path}", f"data.processor={local_data.tokenizer(tmp_path / 'words')}"),
        "data.workers=1",
    )
    assert (rows["data"] == f"hf:{path}").all()
    assert rows["lengths"].isna().all()
    assert (rows["loader_s"] >= 0).all()
    assert (rows["loader_s"] < rows["seconds"]).all()
    assert rows["padding_share"].between(0.6, 0.85).all(), "3 to 9 words and two more of 32"
    assert (rows["loss_difference"] < 1e-4).all(), "all backends see the same batches"
    assert "limited by the" in done.stdout or (rows["status"] != "ok").any()
    assert len(list((tmp_path / "cache" / "bench").glob("*.arrow"))) == 1, "tokenized once"


def test_a_folder_of_images(tmp_path: Path) -> None:
    conf = tmp_path / "conf" / "model" / "vit-mini.yaml"
    conf.parent.mkdir(parents=True)
    conf.write_text(OmegaConf.to_yaml(VIT))
    path = local_data.images(tmp_path / "images", 16)
    done, rows = bench(
        tmp_path,
        f"hydra.searchpath=[file://{tmp_path}/conf]",
        *("model=vit-mini", "device.world_size=1", f"data.path={path}"),
        f"data.processor={local_data.image_processor(tmp_path / 'processor')}",
    )
    assert rows["padding_share"].isna().all()
    assert rows["seq_len"].isna().all()
    shares = rows["loader_s"] / rows["seconds"]
    assert shares.median() > 0.05, "nobody but the rank itself opens the images"
    if (rows["status"] == "ok").all():
        assert "limited by the loader" in done.stdout
        assert "raise data.workers" in done.stdout
