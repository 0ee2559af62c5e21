#!/usr/bin/python3
"""torch_ddp [--steps 100] [--batch 64] [--every 10] [--checkpoint FILE] - DistributedDataParallel that survives the
loss of a rank: all wait for it in gpusim.torch.rejoin(), load the newest checkpoint and go on.

    gpuctl run --torch -n 4 --inject 'kill rank=2 at=allreduce#50' -- python3 examples/torch_ddp.py

It trains on MNIST of $GPUSIM_DATA, or on made-up digits without it. What it learns is what it learns undisturbed, up to
rounding; with GPUSIM_DETERMINISTIC=1 to the bit. A checkpoint that is there at the start is where it goes on.
"""
import argparse
import gzip
import os
import sys
from typing import Tuple

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import gpusim.torch


def read(name: str, head: int) -> Tensor:
    """An IDX file after its head, as it is or gzipped."""
    path = os.path.join(os.environ.get("GPUSIM_DATA", "data/mnist"), name)
    with open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz") as f:
        return torch.from_numpy(np.frombuffer(f.read(), np.uint8, offset=head).copy())


def dataset(kind: str) -> Tuple[Tensor, Tensor]:
    """Images [n, 784] from 0 to 1, and their digits [n]; kind: "train" or "t10k"."""
    try:
        images = read(f"{kind}-images-idx3-ubyte", 16).reshape(-1, 784).float() / 255
        return images, read(f"{kind}-labels-idx1-ubyte", 8).long()
    except FileNotFoundError:
        random = torch.Generator().manual_seed(5)
        typical = torch.rand(10, 784, generator=random)
        random.manual_seed(len(kind))
        digits = torch.randint(10, (512,), generator=random)
        return (typical[digits] + torch.randn(512, 784, generator=random)) / 2, digits


def share(step: int, batch: int, images: Tensor, digits: Tensor) -> Tuple[Tensor, Tensor]:
    """This rank's part of the batch of a step: it depends on nothing that a failure may change."""
    epoch, at = divmod(step, len(digits) // batch)
    order = torch.randperm(len(digits), generator=torch.Generator().manual_seed(epoch))
    mine = order[at * batch:(at + 1) * batch].chunk(dist.get_world_size())[dist.get_rank()]
    return images[mine], digits[mine]


def save(path: str, **state: object) -> None:
    """Whoever is killed here leaves the former file."""
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)


def train(net: nn.Module, optimizer: torch.optim.Optimizer, args: argparse.Namespace) -> None:
    """From the newest checkpoint to the last step. RankLost: begin again, after rejoin()."""
    start = 0
    if os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint)
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["step"]
    images, digits = dataset("train")
    parallel = DistributedDataParallel(net)
    for step in range(start, args.steps):
        if step % args.every == 0 and dist.get_rank() == 0:
            save(args.checkpoint, step=step, net=net.state_dict(), optimizer=optimizer.state_dict())
        x, y = share(step, args.batch, images, digits)
        optimizer.zero_grad()
        loss = F.cross_entropy(parallel(x), y)
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss.detach_(), dist.ReduceOp.AVG)
        if dist.get_rank() == 0 and (step + 1) % args.every == 0:
            print(f"step {step + 1}/{args.steps}  loss {loss.item():.6f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains MNIST on all ranks, and survives the loss of one.")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64, help="of all ranks together")
    parser.add_argument("--every", type=int, default=10, help="steps from a checkpoint to the next")
    parser.add_argument("--checkpoint", help="the file; default: one that ends with gpuctl run")
    args = parser.parse_args()
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    dist.init_process_group("gpusim")
    args.checkpoint = args.checkpoint or os.path.join(os.environ.get("GPUSIM_DIR", "."), "checkpoint.pt")
    done = False
    while not done:
        try:
            train(net, optimizer, args)
            done = True
        except gpusim.RankLost as e:
            print(f"rank {dist.get_rank()}: {e}; waiting for it", file=sys.stderr)
            gpusim.torch.rejoin()
    if dist.get_rank() == 0:
        images, digits = dataset("t10k")
        with torch.no_grad():
            right = (net(images).argmax(1) == digits).float().mean().item()
            weights = sum(p.double().abs().sum().item() for p in net.parameters())
        print(f"accuracy {100 * right:.2f} %  weights {weights:.12g}")
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
