"""A transformer of one block whose matrices are split over the ranks, as courses teach it: column- and row-parallel
linear layers, a vocabulary in parts, autograd functions around all_reduce and all_gather. Plain PyTorch.

    torchrun --nproc-per-node 2 torch_tensor_parallel.py        BACKEND=gloo

Rank 0 prints "step K loss L" for each step. Any number of ranks that divides 4 has the same losses, up to rounding.
"""
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

VOCAB, WIDTH, HEADS, LENGTH, BATCH, STEPS = 32, 32, 4, 16, 8, 12


class Copy(torch.autograd.Function):
    """The same activation on all ranks: forward nothing, backward the sum of their gradients."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad


class Reduce(torch.autograd.Function):
    """The sum of the ranks' partial results; its gradient is the same on all."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        return grad


class Gather(torch.autograd.Function):
    """The ranks' last dimensions one after the other; each takes its part of the gradient."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts, -1)

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        return mine(grad, -1)


def mine(x: Tensor, dim: int) -> Tensor:
    """This rank's part of a dimension; a view that is not contiguous in general."""
    return x.chunk(dist.get_world_size(), dim)[dist.get_rank()]


class ColumnParallel(nn.Module):
    """y = x W^T: a rank has rows of W [out, in], and so columns of y."""

    def __init__(self, whole: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(mine(whole, 0).clone())

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(Copy.apply(x), self.weight)


class RowParallel(nn.Module):
    """y = x W^T: a rank has columns of W [out, in] and of x; y is the sum."""

    def __init__(self, whole: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(mine(whole, 1).clone())

    def forward(self, x: Tensor) -> Tensor:
        return Reduce.apply(F.linear(x, self.weight))


class VocabParallel(nn.Module):
    """A rank looks up the words of its part of the table."""

    def __init__(self, whole: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(mine(whole, 0).clone())
        self.first = dist.get_rank() * len(self.weight)

    def forward(self, words: Tensor) -> Tensor:
        at = words - self.first
        outside = (at < 0) | (at >= len(self.weight))
        x = F.embedding(at.masked_fill(outside, 0), self.weight)
        return Reduce.apply(x.masked_fill(outside.unsqueeze(-1), 0.0))


class Block(nn.Module):
    def __init__(self, whole) -> None:
        super().__init__()
        self.table = VocabParallel(whole(VOCAB, WIDTH))
        self.query, self.key, self.value = (ColumnParallel(whole(WIDTH, WIDTH)) for _ in range(3))
        self.out = RowParallel(whole(WIDTH, WIDTH))
        self.up, self.down = ColumnParallel(whole(4 * WIDTH, WIDTH)), RowParallel(whole(WIDTH, 4 * WIDTH))
        self.head = ColumnParallel(whole(VOCAB, WIDTH))

    def attention(self, x: Tensor) -> Tensor:
        heads = HEADS // dist.get_world_size()
        q, k, v = (f(x).unflatten(-1, (heads, WIDTH // HEADS)).transpose(1, 2)
                   for f in (self.query, self.key, self.value))
        score = q @ k.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5
        score = score.masked_fill(torch.ones(LENGTH, LENGTH).triu(1).bool(), float("-inf"))
        return self.out((score.softmax(-1) @ v).transpose(1, 2).flatten(-2))

    def forward(self, words: Tensor) -> Tensor:
        x = self.table(words)
        x = x + self.attention(F.layer_norm(x, (WIDTH,)))
        x = x + self.down(F.gelu(self.up(F.layer_norm(x, (WIDTH,)))))
        return Gather.apply(self.head(F.layer_norm(x, (WIDTH,))))


def main() -> None:
    dist.init_process_group(os.environ.get("BACKEND", "gloo"))
    random = torch.Generator().manual_seed(7)  # the same on all ranks: each takes its part of the whole
    model = Block(lambda *shape: torch.randn(shape, generator=random) * 0.2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(STEPS):
        start = torch.randint(VOCAB, (BATCH, 1), generator=random)
        words = (start + 3 * torch.arange(LENGTH + 1)) % VOCAB  # to be learnt: the next word is 3 further
        loss = F.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses = [torch.zeros_like(loss) for _ in range(dist.get_world_size())]
        dist.all_gather(losses, loss.detach())
        assert all(torch.allclose(each, losses[0], rtol=1e-4) for each in losses), losses
        if dist.get_rank() == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
