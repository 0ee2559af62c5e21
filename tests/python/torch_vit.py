"""mnist-train --model vit against a ViT in PyTorch: the same weights, the same batches.

torch_vit.py [SECONDS]: loss and gradients of the first step within 1e-5 of each tensor's largest element; losses of 10
steps of AdamW within 1e-5, and the weights after them as near to those of PyTorch in f64 as PyTorch's own in f32 are:
AdamW makes steps of one size of gradients that are almost 0, so that single weights are further off, in PyTorch, too.
With SECONDS, only images a second, of steps like mnist-train's, on one thread.
"""
import json
import math
import os
import struct
import subprocess
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

BATCH = 32
torch.manual_seed(1)


class Block(torch.nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = torch.nn.LayerNorm(hidden), torch.nn.LayerNorm(hidden)
        self.qkv, self.proj = torch.nn.Linear(hidden, 3 * hidden), torch.nn.Linear(hidden, hidden)
        self.fc1, self.fc2 = torch.nn.Linear(hidden, 4 * hidden), torch.nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        b, t, h = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, h // self.heads).permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-1, -2) / math.sqrt(h // self.heads)).softmax(-1) @ v
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, h))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class ViT(torch.nn.Module):
    """The names of its parameters are those of mnist-train's arrays, but for "blocks.0" in place of "block0"."""

    def __init__(self, blocks=4, hidden=64, heads=4, patch=7, rows=28):
        super().__init__()
        self.size, self.n = patch, rows // patch
        self.patch = torch.nn.Linear(patch * patch, hidden)
        self.tokens = torch.nn.ParameterDict({
            "cls": torch.nn.Parameter(torch.randn(hidden) * 0.02),
            "pos": torch.nn.Parameter(torch.randn(self.n ** 2 + 1, hidden) * 0.02)})
        self.blocks = torch.nn.ModuleList(Block(hidden, heads) for _ in range(blocks))
        self.ln, self.head = torch.nn.LayerNorm(hidden), torch.nn.Linear(hidden, 10)

    def forward(self, x):
        x = x.view(-1, self.n, self.size, self.n, self.size).transpose(2, 3).reshape(len(x), self.n ** 2, -1)
        x = torch.cat([self.tokens["cls"].expand(len(x), 1, -1), self.patch(x)], 1) + self.tokens["pos"]
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x)[:, 0])


def idx(path, array):
    with open(path, "wb") as f:
        f.write(struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes())


def train(name, *options):
    """One training by mnist-train; its weights and its losses."""
    one = [] if "--parallel" in options else ["--devices", "1"]
    subprocess.run(["mnist-train", "--data", "data", "--model", "vit", *one, "--global-batch", str(BATCH),
                    "--quiet", "--save", f"{name}.npz", "--json", f"{name}.json", *options], check=True)
    with open(f"{name}.json") as f:
        return np.load(f"{name}.npz"), [json.loads(line)["loss"] for line in f]


def off(what, got, want):
    """The largest difference, as a part of the largest element; is said above 1e-5."""
    worst = np.abs(got - want).max() / np.abs(want).max()
    if not worst <= 1e-5:
        print(f"{what}: off by {worst:.2g} of its largest element")
    return worst


def arrays(model):
    return {n.replace("blocks.", "block"): p for n, p in model.named_parameters()}


def model_of(begin, dtype, sizes):
    model = ViT(**sizes).to(dtype)
    for name, p in arrays(model).items():
        p.data.copy_(torch.from_numpy(begin[name]))
    return model


def adamw(model, x, y):
    """The losses of 10 steps, and the weights after them."""
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, eps=1e-8), []
    for _ in range(10):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {n: p.detach().numpy() for n, p in arrays(model).items()}


def distance(got, want):
    """Of the tensor that is furthest off, in its norm. The gradient of a key's bias is only rounding: no qkv.bias."""
    return max(np.linalg.norm(got[n] - want[n]) / np.linalg.norm(want[n]) for n in want if "qkv.bias" not in n)


def data():
    """A data set of one batch, also as tensors."""
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 256, (BATCH, 28, 28), dtype=np.uint8), rng.integers(0, 10, BATCH, dtype=np.uint8)
    os.makedirs("data", exist_ok=True)
    for part in "train", "t10k":
        idx(f"data/{part}-images-idx3-ubyte", x)
        idx(f"data/{part}-labels-idx1-ubyte", y)
    return torch.from_numpy(x).float() / 255, torch.from_numpy(y).long()


def prove(options, **sizes):
    x, y = data()
    begin, _ = train("begin", "--epochs", "0", *options)

    # A step of plain SGD at a huge rate is the gradient: what is left of the weights is rounded off.
    rate = 1e5
    end, losses = train("step", "--epochs", "1", "--optimizer", "sgd", "--momentum", "0", "--lr", str(rate), *options)
    model = model_of(begin, torch.float32, sizes)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    first = abs(losses[0] / loss.item() - 1)
    worst = max(off(f"gradient of {n}", (begin[n].astype(float) - end[n]) / rate, p.grad.numpy())
                for n, p in arrays(model).items())

    end, losses = train("adamw", "--epochs", "10", "--optimizer", "adamw", "--lr", "1e-3", *options)
    _, near = adamw(model_of(begin, torch.float32, sizes), x, y)
    want, exact = adamw(model_of(begin, torch.float64, sizes), x.double(), y)
    drift = max(abs(a / b - 1) for a, b in zip(losses, want))
    ours, theirs = distance(end, exact), distance(near, exact)
    print(f"{' '.join(options) or 'default'}: loss off by {first:.1g}, gradients by {worst:.1g}; "
          f"after 10 steps losses by {drift:.1g}, weights by {ours:.1g}, PyTorch's by {theirs:.1g}")
    return len(losses) == 10 and first <= 1e-5 and worst <= 1e-5 and drift <= 1e-5 and ours <= max(2 * theirs, 1e-6)


def speed(seconds):
    torch.set_num_threads(1)
    model, x, y = ViT(), torch.rand(128, 784), torch.arange(128) % 10
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    began, steps = time.monotonic(), -2
    while steps < 1 or time.monotonic() - began < seconds:
        if steps == 0:
            began = time.monotonic()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        steps += 1
    print(round(128 * steps / (time.monotonic() - began)))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(speed(float(sys.argv[1])))
    good = prove([])
    good = prove(["--blocks", "2", "--hidden", "24", "--heads", "3", "--patch", "4"], blocks=2, hidden=24, heads=3,
                 patch=4) and good
    sys.exit(not good)
