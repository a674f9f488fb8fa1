"""A training loop as anybody would write it, for `make overhead`. Imports nothing of the harness.

bare_loop.py FOLDER, with FOLDER/job.json, once for each RANK of WORLD_SIZE. A rank reads numbers of steps,
trains that many on the batches of FOLDER/batches-RANK.npz, in turn, and prints the seconds.
"""

import itertools
import json
import os
import sys
import time

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what libraries print is no answer
folder, rank, ranks = sys.argv[1], int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
job = json.loads(open(f"{folder}/job.json").read())
os.sched_setaffinity(0, job["cores"][rank])

import numpy as np
import torch
import torch.distributed as dist
import transformers

torch.set_num_threads(job["threads"])
torch.manual_seed(job["seed"])
cuda = job["device"] == "cuda"
device = torch.device("cuda", rank) if cuda else torch.device("cpu")
if cuda:
    torch.cuda.set_device(device)
backend = "nccl" if cuda else "gloo"
dist.init_process_group(backend, f"file://{folder}/store", world_size=ranks, rank=rank)
settings = transformers.AutoConfig.for_model(job["architecture"], **job["config"])
settings.use_cache = False
head = getattr(transformers, job["head"])
model = head.from_config(settings, attn_implementation=job["attention"]).to(device).train()
if ranks > 1:
    model = torch.nn.parallel.DistributedDataParallel(
        model, [rank] if cuda else None, broadcast_buffers=False
    )
optimizer = torch.optim.AdamW(model.parameters(), lr=job["lr"], weight_decay=job["weight_decay"])
arrays = np.load(f"{folder}/batches-{rank}.npz")
stacked = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
batches = itertools.cycle([dict(zip(stacked, batch)) for batch in zip(*stacked.values())])

print("built", file=answers, flush=True)
for line in sys.stdin:
    dist.barrier()
    start = time.perf_counter()
    for _ in range(int(line)):
        model(**{name: value.to(device) for name, value in next(batches).items()}).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    if cuda:
        torch.cuda.synchronize()
    print(time.perf_counter() - start, file=answers, flush=True)
