"""A test of a training loop that deadlocks, and of the same loop repaired. Needs python3-pytest (Debian).

    python3 -m pytest examples/test_deadlock.py

The rows do not divide evenly, so rank 1 has one batch fewer than the others. In the broken loop it leaves early, skips
the last all_reduce, and waits for the result of rank 0 - which waits for rank 1's part of the sum. The first test fails
after its timeout, and the report shows the call that waits, the rank that is missing there, and where it is instead.
"""
import numpy as np
import pytest

BATCHES = {0: 5, 1: 4, 2: 5}


def train(comm, rank, repaired):
    """Sum one number a batch over all ranks; rank 0 sends the result to the others."""
    total = np.zeros(1)
    for batch in range(max(BATCHES.values()) if repaired else BATCHES[rank]):
        gradient = np.full(1, float(batch < BATCHES[rank]))  # of a batch that this rank does not have: 0
        total += comm.all_reduce(gradient)
    if rank == 0:
        for peer in range(1, comm.size):
            comm.send(total, peer)
        return total
    return comm.recv(np.zeros(1), 0)


@pytest.mark.gpusim(n=3, timeout=5)
def test_broken(rank, gpusim_comm):
    assert train(gpusim_comm, rank, repaired=False)[0] == 14


@pytest.mark.gpusim(n=3)
def test_repaired(rank, gpusim_comm):
    assert train(gpusim_comm, rank, repaired=True)[0] == 14
