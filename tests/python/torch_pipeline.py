"""A net whose layers lie on the ranks as stages of a pipeline: activations go forward and gradients back by send and
recv, micro-batches by the schedule 1F1B (or SCHEDULE=gpipe). Plain PyTorch.

    torchrun --nproc-per-node 4 torch_pipeline.py        BACKEND=gloo

Rank 0 prints "step K loss L" for each step. Any number of ranks up to 8 has the same losses, up to rounding.
"""
import os
from typing import List, Optional, Tuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

LAYERS, WIDTH, CLASSES, MICRO, STEPS = 8, 24, 5, 6, 12  # MICRO micro-batches of SIZE samples a step
SIZE = 4


class Stage:
    """A rank's layers, and the messages with its neighbours."""

    def __init__(self, layers: List[nn.Module]) -> None:
        self.rank, self.n = dist.get_rank(), dist.get_world_size()
        at = [i * len(layers) // self.n for i in (self.rank, self.rank + 1)]
        self.net = nn.Sequential(*layers[at[0]:at[1]])
        self.first, self.last = self.rank == 0, self.rank == self.n - 1
        self.waiting: List[Tuple[Optional[Tensor], Tensor]] = []  # inputs and outputs whose backward is to come
        self.loss = torch.zeros(())

    def forward(self, x: Optional[Tensor], y: Tensor) -> Tensor:
        if not self.first:
            assert x is not None
            x.requires_grad_()
        out = self.net(x)
        if self.last:
            out = F.cross_entropy(out, y) / MICRO
            self.loss += out.detach()
        self.waiting.append((x, out))
        return out

    def backward(self, grad: Optional[Tensor]) -> Optional[Tensor]:
        x, out = self.waiting.pop(0)
        out.backward(grad)
        return None if self.first or x is None else x.grad

    def exchange(self, peer: int, give: Optional[Tensor], take: bool) -> Optional[Tensor]:
        """Send to a neighbour and receive from it, each if wanted; both at once, or the two wait for each other."""
        if not 0 <= peer < self.n:
            return None
        ops, got = [], torch.empty(SIZE, WIDTH) if take else None
        if give is not None:
            ops.append(dist.P2POp(dist.isend, give.detach().contiguous(), peer))
        if got is not None:
            ops.append(dist.P2POp(dist.irecv, got, peer))
        for work in dist.batch_isend_irecv(ops) if ops else ():
            work.wait()
        return got

    def one_step(self, inputs: List[Tensor], answers: List[Tensor]) -> None:
        warm = MICRO if os.environ.get("SCHEDULE") == "gpipe" else min(MICRO, self.n - self.rank - 1)
        before, after = self.rank - 1, self.rank + 1
        for i in range(warm):  # forward alone
            x = inputs[i] if self.first else self.exchange(before, None, True)
            self.exchange(after, self.forward(x, answers[i]), False)
        x = None
        if warm < MICRO:
            x = inputs[warm] if self.first else self.exchange(before, None, True)
        for i in range(warm, MICRO):  # one forward, one backward
            grad = self.exchange(after, self.forward(x, answers[i]), True)
            back = self.backward(grad)
            more = i + 1 < MICRO
            x = self.exchange(before, back, more)
            if self.first and more:
                x = inputs[i + 1]
        for i in range(warm):  # backward alone
            self.exchange(before, self.backward(self.exchange(after, None, True)), False)


def main() -> None:
    dist.init_process_group(os.environ.get("BACKEND", "gloo"))
    torch.manual_seed(11)  # all ranks make all layers, and each keeps its own
    layers: List[nn.Module] = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(LAYERS - 1)]
    stage = Stage(layers + [nn.Linear(WIDTH, CLASSES)])
    optimizer = torch.optim.SGD(stage.net.parameters(), lr=0.5, momentum=0.9)
    inputs = list(torch.randn(MICRO, SIZE, WIDTH))
    answers = list(torch.randint(CLASSES, (MICRO, SIZE)))
    for step in range(STEPS):
        optimizer.zero_grad()
        stage.loss = torch.zeros(())
        stage.one_step(inputs, answers)
        assert not stage.waiting
        optimizer.step()
        dist.broadcast(stage.loss, stage.n - 1)
        if stage.first:
            print(f"step {step} loss {stage.loss.item():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
