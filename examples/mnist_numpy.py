#!/usr/bin/python3
"""mnist_numpy [N [EPOCHS [BATCH]]] - data-parallel training of MNIST in NumPy. Each of N devices has the net, computes
the gradient of its share of a batch; all_reduce adds the gradients up. Any N that divides BATCH learns the same.

    make data; export GPUSIM_DATA=$PWD/data/mnist PYTHONPATH=$PWD/build/python
    python3 examples/mnist_numpy.py 4       or       gpuctl run -n 4 -- python3 examples/mnist_numpy.py
"""
import gzip
import os
import sys

import numpy as np
import gpusim

n, epochs, batch = (int(sys.argv[i]) if len(sys.argv) > i else default for i, default in ((1, 0), (2, 3), (3, 128)))
shapes = [(784, 128), (128,), (128, 10), (10,)]  # w1, b1, w2, b2
parts = np.cumsum([0] + [int(np.prod(s)) for s in shapes])

def read(name: str, head: int) -> np.ndarray:  # an IDX file after its head, as it is or gzipped
    path = os.path.join(os.environ.get("GPUSIM_DATA", "data/mnist"), name)
    with open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz") as f:
        return np.frombuffer(f.read(), np.uint8, offset=head)

def split(flat: np.ndarray) -> list:  # views w1, b1, w2, b2 of a vector
    return [flat[a:b].reshape(s) for a, b, s in zip(parts, parts[1:], shapes)]

def forward(net: np.ndarray, x: np.ndarray) -> tuple:
    w1, b1, w2, b2 = split(net)
    h = np.maximum(x @ w1 + b1, 0)  # [batch, 128]
    z = h @ w2 + b2  # [batch, 10]
    p = np.exp(z - z.max(1, keepdims=True))
    return h, p / p.sum(1, keepdims=True)

def gradient(net: np.ndarray, x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:  # and after it the loss
    h, p = forward(net, x)
    out[-1] = -np.log(p[np.arange(len(y)), y]).sum()
    p[np.arange(len(y)), y] -= 1
    dh = (p @ split(net)[2].T) * (h > 0)
    for part, value in zip(split(out), (x.T @ dh, dh.sum(0), h.T @ p, p.sum(0))):
        part[...] = value

images, tests = (read(f"{k}-images-idx3-ubyte", 16).reshape(-1, 784) / np.float32(255) for k in ("train", "t10k"))
labels, answers = (read(f"{k}-labels-idx1-ubyte", 8) for k in ("train", "t10k"))
with gpusim.connect() if "GPUSIM_COORD" in os.environ else gpusim.cluster(n or 2) as g:
    comm, rng = g.comm(n or len(g.devices)), np.random.default_rng(1)
    start = np.concatenate([rng.normal(0, (2 / s[0]) ** 0.5 * (len(s) > 1), s).ravel() for s in shapes])
    nets = [gpusim.array(start, d, np.float32) for d in comm.devices]
    grads = [gpusim.empty(len(start) + 1, d, np.float32) for d in comm.devices]
    for epoch in range(epochs):
        order, loss = rng.permutation(len(images))[:len(images) // batch * batch], 0.0
        for step in order.reshape(-1, batch):
            for rank, mine in enumerate(np.split(step, comm.size)):
                gradient(nets[rank], images[mine], labels[mine], grads[rank])
            loss += float(comm.all_reduce(grads)[0][-1])  # of all ranks, in place
            for net, grad in zip(nets, grads):
                net -= 0.1 / batch * grad[:-1]
        right = (forward(nets[-1], tests)[1].argmax(1) == answers).mean()
        print(f"epoch {epoch + 1}/{epochs}  loss {loss / len(order):.4f}  test accuracy {100 * right:.2f} %")
