"""torch_rejoin STEPS FOLDER [RANK.START.STEP...] - sums over all ranks, with a checkpoint every 5 steps in FOLDER.

The RANK kills itself in its START-th process before the STEP; d instead of START: it kills its device. Each rank prints
its sum. What a failed training had, such as the hooks of a DistributedDataParallel, is gone after rejoin()."""
import os
import signal
import sys
import weakref
from typing import Any, Dict

import torch
import torch.distributed as dist

import gpusim.torch

torch.set_num_threads(1)
STEPS, FOLDER, KILLS = int(sys.argv[1]), sys.argv[2], set(sys.argv[3:])
FILE = os.path.join(FOLDER, "checkpoint")
OF_LAST: "list[weakref.ref[torch.nn.Linear]]" = []
RANK, START = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]


def die(step: int) -> None:
    """Kill what is to be killed before this step."""
    if f"{RANK}.{START}.{step}" in KILLS:
        os.kill(os.getpid(), signal.SIGKILL)
    if f"{RANK}.d.{step}" in KILLS:
        KILLS.discard(f"{RANK}.d.{step}")
        machine = gpusim.connect()
        os.kill(next(d.pid for d in machine.devices if d.ordinal == int(RANK)), signal.SIGKILL)


def train() -> Dict[str, Any]:
    """From the checkpoint to the last step."""
    net = torch.nn.Linear(1, 1)
    OF_LAST.append(weakref.ref(net))
    dist.barrier()
    state = torch.load(FILE) if os.path.exists(FILE) else {"step": 0, "sum": torch.zeros(1000, dtype=torch.float64)}
    dist.barrier()
    while state["step"] < STEPS:
        die(state["step"])
        x = torch.full((1000,), float(int(RANK) + 1) * (state["step"] + 1), dtype=torch.float64)
        dist.all_reduce(x)
        state["sum"] += x
        state["step"] += 1
        if RANK == "0" and state["step"] % 5 == 0:
            torch.save(state, FILE + ".new")
            os.replace(FILE + ".new", FILE)
    dist.barrier()
    return state


dist.init_process_group("gloo")
while True:
    try:
        os.write(1, f"rank {RANK}: {train()['sum'].unique().tolist()}\n".encode())  # in one piece
        break
    except gpusim.Aborted as e:
        os.write(2, f"rank {RANK}: {type(e).__name__} of rank {e.rank}\n".encode())
        gpusim.torch.rejoin()
        assert OF_LAST[-1]() is None
dist.destroy_process_group()
