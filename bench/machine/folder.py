"""Names the folder that keeps one machine's results apart from those of others."""

from bench.machine.gpus import short_name, visible_gpus
from bench.machine.hardware import available_cores
from bench.machine.processor import describe_processor


def name_folder(device: str) -> str:
    """Return `2-cores-amd-epyc-family26-model2` for a CPU, `8-h100` for GPUs."""
    if device == "cuda":
        names = [short_name(gpu.name) for gpu in visible_gpus()]
        return "-".join([str(len(names)), *dict.fromkeys(names)])
    cpu = describe_processor()
    known = [
        f"{word}{cpu[entry]}"
        for word, entry in (("family", "family"), ("model", "model_number"))
        if cpu.get(entry) is not None
    ]
    return "-".join([f"{available_cores()}-cores", short_name(str(cpu.get("model") or "cpu")), *known])
