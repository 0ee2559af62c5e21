#!/usr/bin/python3
"""needle_style - data-parallel SGD as students write it for the Needle project: a process a rank, mpi4py broadcasts
NCCL's id, and an NcclCommunicator averages the gradients. Only the first import differs from a program for CuPy.

    gpuctl run --nccl -n 4 -- mpirun -n 4 python3 examples/needle_style.py
    gpuctl run --nccl -n 1 -- python3 examples/needle_style.py          # the same losses, to rounding

Rank r trains on every size-th row of the data, on device r. Rank 0 prints the loss over all data. Needs python3-numpy
and python3-mpi4py (Debian).
"""
import numpy as np
from gpusim import cuda, nccl
from mpi4py import MPI

SHAPES = ((16, 32), (32,), (32, 4), (4,))  # the weights and biases of two layers
ROWS, STEPS, RATE = 960, 20, 0.5


def views(flat):
    """The model's parts, as views of one vector."""
    parts, at = [], 0
    for shape in SHAPES:
        size = int(np.prod(shape))
        parts.append(flat[at:at + size].reshape(shape))
        at += size
    return parts


def make_data(rng):
    """Rows of 16 numbers, and the one of 4 classes that a random linear model gives each."""
    x = rng.normal(size=(ROWS, SHAPES[0][0]))
    return x, np.argmax(x @ rng.normal(size=(SHAPES[0][0], 4)), axis=1)


def loss_and_gradients(weights, gradients, x, y):
    """The mean cross-entropy of the rows; writes its gradients into their views."""
    w1, b1, w2, b2 = weights
    hidden = np.tanh(x @ w1 + b1)
    logits = hidden @ w2 + b2
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    loss = -np.log(p[np.arange(len(y)), y]).mean()
    p[np.arange(len(y)), y] -= 1
    p /= len(y)
    back = (p @ w2.T) * (1 - hidden**2)
    for out, value in zip(gradients, (x.T @ back, back.sum(axis=0), hidden.T @ p, p.sum(axis=0))):
        out[...] = value
    return loss


def main():
    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    cuda.Device(rank).use()
    comm = nccl.NcclCommunicator(size, world.bcast(nccl.get_unique_id() if rank == 0 else None), rank)

    rng = np.random.default_rng(1)  # the same data and weights on all ranks
    x, y = make_data(rng)
    x, y = x[rank::size], y[rank::size]
    weights = views(0.3 * rng.normal(size=sum(int(np.prod(s)) for s in SHAPES)))
    device = cuda.zeros(sum(w.size for w in weights) + 1)  # gradients and the loss, in the device's memory
    host = np.asarray(device)  # its bytes, not a copy
    gradients = views(host)

    for step in range(STEPS):
        host[-1] = loss_and_gradients(weights, gradients, x, y)
        comm.allReduce(device.data.ptr, device.data.ptr, device.size, nccl.NCCL_FLOAT64, nccl.NCCL_SUM,
                       cuda.Stream.null.ptr)
        cuda.Stream.null.synchronize()
        host /= size
        if rank == 0:
            print(f"step {step:2} loss {host[-1]:.9f}")
        for w, g in zip(weights, gradients):
            w -= RATE * g
    comm.destroy()


if __name__ == "__main__":
    main()
