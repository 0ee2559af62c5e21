"""python.py call LIBRARY [CALLS] - of a rank, under gpuctl run --each: microseconds of an all_reduce of 8 bytes of an
array in device memory, by gpusim in Python and by rank_call.c on the same communicator. They take turns, CALLS (100) each
time; rank 0 prints the least mean of each.

python.py import [RUNS] - milliseconds of a processor for `import gpusim`, with what arrays need, and for `import numpy`,
by processes that take turns: the least.
"""
import ctypes
import os
import resource
import subprocess
import sys
import time

BLOCKS = 151


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
            print(f"{min(times['python']):.2f} {min(times['c']):.2f}")


def spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e3


def imports(runs: int) -> None:
    times = {"gpusim": [], "numpy": []}
    for turn in range(runs + 1):  # the first compiles
        for name, measured in times.items():
            begin = spent()
            subprocess.run([sys.executable, "-c", f"import {name}; {name}.array"], check=True)  # gpusim's loads NumPy
            measured += [spent() - begin] * (turn > 0)
    print(f"{min(times['gpusim']):.2f} {min(times['numpy']):.2f}")


if sys.argv[1] == "call":
    call(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 100)
else:
    imports(int(sys.argv[2]) if len(sys.argv) > 2 else 20)
