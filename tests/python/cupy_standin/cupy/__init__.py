"""As much of CuPy as its test of NCCL takes (tests/cupy_tests/cuda_tests/test_nccl.py), over gpusim.cuda and
gpusim.nccl. Our own; tools/try-cupy puts the folder above it on the path."""
import sys
import types

import numpy as np
import pytest
from gpusim import cuda as _cuda
from gpusim import nccl as _nccl
from numpy import int8, int64  # noqa: F401


class ndarray(_cuda.Array):
    """An array of the current device that compares element by element."""

    def __eq__(self, other):
        return self.get() == other.get()


def array(values, dtype=None):
    values = np.asarray(values, dtype)
    out = ndarray(values.shape, values.dtype)
    out.set(values)
    return out


def arange(*args, **kwargs):
    return array(np.arange(*args, **kwargs))


def zeros(shape, dtype=float):
    return array(np.zeros(shape, dtype))


def zeros_like(other):
    return zeros(other.shape, other.dtype)


def empty_like(other):
    return ndarray(other.shape, other.dtype)


def allclose(a, b):
    return np.allclose(a.get(), b.get())


def _multi_gpu(gpu_num):
    return pytest.mark.skipif(_cuda.device_count() < gpu_num, reason=f"{gpu_num} devices required")


def _module(name, **names):
    module = types.ModuleType(f"cupy.{name}")
    module.__dict__.update(names)
    sys.modules[module.__name__] = module
    return module


cuda = _module("cuda", Device=_cuda.Device, Stream=_cuda.Stream, nccl=_nccl)
sys.modules["cupy.cuda.nccl"] = _nccl
testing = _module("testing", multi_gpu=_multi_gpu,
                  assert_array_equal=lambda a, b: np.testing.assert_array_equal(a.get(), b.get()))
