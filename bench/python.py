"""python.py call LIBRARY [CALLS] - of a rank, under gpuctl run --each: microseconds of an all_reduce of 8 bytes of an array
in device memory, by gpusim in Python and by rank_call.c on the same communicator, which take turns. Rank 0 prints the medians.

python.py import [RUNS] - milliseconds of `import gpusim`, with what arrays need, and of `import numpy` in processes that take turns: the medians.
"""
import ctypes
import os
import statistics
import subprocess
import sys
import time

BLOCKS = 31


def call(library: str, calls: int) -> None:
    import numpy as np
    import gpusim
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with gpusim.connect() as g:
        loop = ctypes.CDLL(library).rank_call  # whose libgpusim is the one that gpusim has loaded
        loop.restype = ctypes.c_double
        loop.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int]
        comm = g.comm_init_rank(size, os.environ["BENCH_ID"], rank)
        a = gpusim.array(np.zeros(2, np.float32), comm.device)
        times = {"python": [], "c": []}
        for _ in range(BLOCKS):
            begin = time.perf_counter()
            for _ in range(calls):
                comm.all_reduce(a)
            times["python"].append((time.perf_counter() - begin) / calls * 1e6)
            times["c"].append(loop(g._g(), comm._p(), comm.device.id, a.addr, calls))
        a[...] = 1, rank
        assert min(times["c"]) > 0 and comm.all_reduce(a).tolist() == [size, size * (size - 1) / 2]
        if rank == 0:
            print(f"{statistics.median(times['python']):.2f} {statistics.median(times['c']):.2f}")


def imports(runs: int) -> None:
    times = {"gpusim": [], "numpy": []}
    for _ in range(runs):
        for name, measured in times.items():
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", f"import {name}; {name}.array"], check=True)  # with NumPy
            measured.append((time.perf_counter() - begin) * 1e3)
    print(f"{statistics.median(times['gpusim']):.2f} {statistics.median(times['numpy']):.2f}")


if sys.argv[1] == "call":
    call(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 500)
else:
    imports(int(sys.argv[2]) if len(sys.argv) > 2 else 15)
