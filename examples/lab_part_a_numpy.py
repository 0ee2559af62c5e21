#!/usr/bin/python3
"""lab_part_a_numpy [N [COUNT]] - part A of the lab (see gpusim(7)) with NumPy: sum a vector of COUNT doubles on each of
N devices by a ring all-reduce in a group, read it back and compare; then send device 0's sum to device 1.

    python3 examples/lab_part_a_numpy.py 3
    gpuctl run -n 3 -- python3 examples/lab_part_a_numpy.py

Under gpuctl run the devices are those of gpuctl run, otherwise it starts N (3). Device r holds r + i/2 at index i, so
every sum is exact. Exits with 0 when every element is right. In the tree, first: export PYTHONPATH=$PWD/build/python
"""
import os
import sys

import numpy as np

import gpusim


def part_a(g: gpusim.Machine, n: int, count: int) -> int:
    """The number of elements that are wrong."""
    comm = g.comm(n)  # CommInit
    vectors = [gpusim.array(rank + np.arange(count) / 2, device)  # Memcpy, from the host to each device
               for rank, device in enumerate(comm.devices)]
    with comm.group():  # GroupStart ... GroupEnd, which waits
        comm.all_reduce(vectors, op="sum", algo="ring" if n > 1 else None)  # AllReduceRing
    expected = n * (n - 1) / 2 + n * np.arange(count) / 2
    wrong = sum(int((v != expected).sum()) for v in vectors)  # the device's memory, seen by NumPy
    if n > 1:
        vectors[1].fill(0)
        with comm.group():
            comm.send(vectors[0], peer=1, rank=0)  # BeginSend
            comm.recv(vectors[1], peer=0, rank=1)  # BeginReceive
        wrong += int((vectors[1] != expected).sum())
    comm.destroy()  # CommDestroy
    return wrong


def main() -> int:
    if len(sys.argv) > 3 or not all(word.isdecimal() and int(word) > 0 for word in sys.argv[1:]):
        print("usage: lab_part_a_numpy [N [COUNT]]", file=sys.stderr)
        return 2
    inside = "GPUSIM_COORD" in os.environ
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    with gpusim.connect() if inside else gpusim.cluster(int(sys.argv[1]) if len(sys.argv) > 1 else 3) as g:
        n = int(sys.argv[1]) if len(sys.argv) > 1 else len(g.devices)
        wrong = part_a(g, n, count)
    print(f"{n} devices, {count} doubles each: {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except gpusim.Error as error:
        print(f"lab_part_a_numpy: {error}", file=sys.stderr)
        sys.exit(error.code if error.code < 7 else 1)
