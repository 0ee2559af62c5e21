#!/usr/bin/python3
"""torch_allreduce NRANKS SIZE[:MOST] ... - torch.distributed.all_reduce over gloo on the loopback.

As peers/measure.h measures, with one difference: it works in place only, and is timed without a copy.
Prints BYTES MICROSECONDS WRONG OPERATIONS.
"""
import os
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
import torch
import torch.distributed as dist
import torch.multiprocessing

REWRITE, WARMUP, RUNS, BUDGET, MOST = 1 << 20, 3, 5, 0.08, 1000


def value(count, rank, turn):
    return ((7 * torch.arange(count) + 3 * rank + turn) & 15).float()


def most_of_all(x):
    t = torch.tensor([float(x)], dtype=torch.float64)
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    return t.item()


def one(v, fresh):
    """Seconds of one operation on a fresh input, after a barrier."""
    v.copy_(fresh)
    dist.barrier()
    began = time.perf_counter()
    dist.all_reduce(v)
    return time.perf_counter() - began


def loop(v, iters):
    v.zero_()  # sums of sums must not overflow
    dist.barrier()
    began = time.perf_counter()
    for _ in range(iters):
        dist.all_reduce(v)
    return time.perf_counter() - began


def measure(rank, nranks, nbytes, most):
    v = torch.empty(nbytes // 4)
    fresh = value(len(v), rank, 1)
    want = sum(value(len(v), r, 1) for r in range(nranks))
    for _ in range(WARMUP):
        t = one(v, fresh)
    t = most_of_all(t)
    iters = most if t * most <= BUDGET else max(1, int(BUDGET / t))
    times = []
    for _ in range(RUNS):
        if nbytes < REWRITE:
            t = loop(v, iters)
        else:
            t = sum(one(v, fresh) for _ in range(iters))
        times.append(most_of_all(t / iters))
    one(v, fresh)
    wrong = int(most_of_all((v != want).sum().item()))
    if rank == 0:
        print(f"{nbytes} {sorted(times)[RUNS // 2] * 1e6:.2f} {wrong} {iters * RUNS}", flush=True)
    return wrong


def run(rank, nranks, meet, sizes):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{meet}", rank=rank, world_size=nranks)
    wrong = 0
    for size in sizes:
        nbytes, _, most = size.partition(":")
        wrong += measure(rank, nranks, int(nbytes), int(most or MOST))
    dist.destroy_process_group()
    if wrong:
        sys.exit(1)


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: torch_allreduce NRANKS SIZE[:MOST]...")
    nranks = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        args = (nranks, folder + "/meet", sys.argv[2:])
        torch.multiprocessing.spawn(run, args=args, nprocs=nranks)


if __name__ == "__main__":
    main()
