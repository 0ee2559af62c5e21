"""gpusim: NCCL you can run from Python. Simulated GPUs with memory, streams, kernels, collectives.

>>> import numpy as np, gpusim
>>> with gpusim.cluster(2) as g:
...     comm = g.comm(2)
...     a = [gpusim.array(np.array([1.0, 2.0]), d) for d in comm.devices]
...     print(comm.all_reduce(a)[0])
[2. 4.]

gpusim-python(7) describes it. gpusim.torch is a backend of torch.distributed, gpusim.nccl has the calls of
cupy.cuda.nccl, gpusim.pytest is a plugin for pytest.
"""
from typing import Any

from ._lib import VERSION as __version__

_NAMES = {
    "_lib": ("Error", "Invalid", "Mismatch", "Unreachable", "Timeout", "BadData", "NoMemory", "NotFound", "Busy",
             "Aborted", "RankLost", "Recovered", "Forked"),
    "machine": ("cluster", "connect", "unique_id", "Machine", "Device", "Memory"),
    "_array": ("array", "empty", "zeros", "Array"),
    "comm": ("Comm", "Work", "Graph"),
}
_OF = {name: module for module, names in _NAMES.items() for name in names}
_MODULES = ("machine", "comm", "torch", "nccl", "cuda", "pytest")
__all__ = sorted(_OF)


def __getattr__(name: str) -> Any:  # what a program does not use is not loaded
    from importlib import import_module
    if name in _OF:
        module = import_module("." + _OF[name], __name__)
        for each in _NAMES[_OF[name]]:
            globals()[each] = getattr(module, each)
        return globals()[name]
    if name in _MODULES:
        return import_module("." + name, __name__)
    raise AttributeError(f"module 'gpusim' has no attribute {name!r}")


def __dir__() -> list:
    return sorted(__all__ + list(_MODULES) + ["__version__"])
