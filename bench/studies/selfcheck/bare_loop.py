"""A training loop as anybody would write it, for `make overhead`. Imports nothing of the harness.

torchrun --standalone --nproc-per-node=2 bare_loop.py JOB.json FOLDER. Each rank reads numbers of steps from
FOLDER/ask-RANK, trains that many on the batches of FOLDER/batches-RANK.npz, in turn, and writes the seconds
to FOLDER/answer-RANK.
"""

import itertools
import json
import os
import sys
import time

rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
job = json.loads(open(sys.argv[1]).read())
os.sched_setaffinity(0, job["cores"][local_rank])

import numpy as np
import torch
import torch.distributed as dist
import transformers

torch.set_num_threads(job["threads"])
torch.manual_seed(job["seed"])
cuda = job["device"] == "cuda"
device = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
if cuda:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if cuda else "gloo")
settings = transformers.AutoConfig.for_model(job["architecture"], **job["config"])
settings.use_cache = False
head = getattr(transformers, job["head"])
model = head.from_config(settings, attn_implementation=job["attention"]).to(device).train()
if dist.get_world_size() > 1:
    model = torch.nn.parallel.DistributedDataParallel(
        model, [local_rank] if cuda else None, broadcast_buffers=False
    )
optimizer = torch.optim.AdamW(model.parameters(), lr=job["lr"], weight_decay=job["weight_decay"])
arrays = np.load(f"{sys.argv[2]}/batches-{rank}.npz")
stacked = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
batches = itertools.cycle([dict(zip(stacked, batch)) for batch in zip(*stacked.values())])

with open(f"{sys.argv[2]}/ask-{rank}") as asked, open(f"{sys.argv[2]}/answer-{rank}", "w") as answers:
    print(os.getpid(), file=answers, flush=True)
    for line in asked:
        dist.barrier()
        start = time.perf_counter()
        for _ in range(int(line)):
            model(**{name: value.to(device) for name, value in next(batches).items()}).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if cuda:
            torch.cuda.synchronize()
        print(time.perf_counter() - start, file=answers, flush=True)
