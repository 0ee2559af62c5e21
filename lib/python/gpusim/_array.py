"""Arrays in the memory of a device, as NumPy sees them: gpusim.array, empty, zeros."""
from __future__ import annotations

from typing import Any, Optional, Sequence, Union

import numpy as np

from ._lib import DTYPES, Invalid
from .machine import Device, Memory

# Types that NumPy does not have are unsigned integers of their size, with a name of their own.
_RAW = {"bf16": np.uint16, "f8e4m3": np.uint8, "f8e5m2": np.uint8}
_NAMES = {"f8": "f64", "f4": "f32", "f2": "f16", "i1": "i8", "u1": "u8", "b1": "u8", "i4": "i32", "u4": "u32",
          "i8": "i64", "u8": "u64"}


def type_name(dtype: Any) -> str:
    """The library's name of a NumPy type. Invalid: it has none."""
    d = np.dtype(dtype)
    name = _NAMES.get(d.str[1:])
    if name is None or d.str[0] == ">":
        raise Invalid(f"no device has elements of type {d}: convert them to one of "
                      f"{', '.join(sorted(set(_NAMES.values())))}")
    return name


class Array(np.ndarray):
    """A NumPy array whose bytes are memory of a device. Views share and keep the memory; results of NumPy's functions
    are plain arrays. Made by gpusim.array(), empty(), zeros().

    .device  the device;  .addr  the address there;  .type  the name of the elements' type, such as "bf16"
    """
    memory: Optional[Memory]
    type: Optional[str]

    def __array_finalize__(self, of: Any) -> None:
        self._kept: Optional[tuple] = None  # Comm.all_reduce's
        self.memory = getattr(of, "memory", None)
        self.type = getattr(of, "type", None)
        if self.memory is not None and not self._inside():
            self.memory = None
        if self.type not in _RAW or self.dtype != _RAW[self.type]:
            self.type = None

    def __array_wrap__(self, out: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if isinstance(out, Array) and out.memory is not None:
            return out
        plain = np.asarray(out)
        return plain[()] if return_scalar or plain.ndim == 0 else plain

    def _inside(self) -> bool:
        at = self.ctypes.data - self.memory.ptr  # type: ignore[union-attr]
        return 0 <= at and at <= self.memory.nbytes  # type: ignore[union-attr]

    @property
    def device(self) -> Device:
        if self.memory is None:
            raise Invalid("the array is not in a device's memory: make it with gpusim.array()")
        if self.memory.freed:
            raise Invalid(f"the array was freed on device {self.memory.device}")
        return self.memory.device

    @property
    def addr(self) -> int:
        """The device address of its first element. Invalid: it is not in a device's memory, or was freed."""
        memory = self.memory
        if memory is None or memory.freed:
            return self.device.id  # which says why
        return memory.addr + self.ctypes.data - memory.ptr

    @property
    def kind(self) -> str:
        """The name of its elements' type in the library: "f32", "bf16" ..."""
        return self.type or type_name(self.dtype)

    def free(self) -> None:
        """Free its memory now, for all views: using them in a call is then Invalid. Without it, the last view frees
        it."""
        if self.memory is not None:
            self.memory.free()

    def __reduce__(self) -> Any:  # a pickle is a plain array
        return np.asarray(self).__reduce__()


def empty(shape: Union[int, Sequence[int]], device: Device, dtype: Any = np.float64,
          type: Optional[str] = None) -> Array:
    """A new array in a device's memory, with any content. NoMemory: the device is full.

    type: "bf16", "f8e4m3", "f8e5m2": types that NumPy lacks; its elements are then uint16 or uint8.
    """
    if type is not None:
        if type not in DTYPES:
            raise Invalid(f"no type {type!r}; there are {', '.join(DTYPES)}")
        dtype = _RAW.get(type, next((k for k, v in _NAMES.items() if v == type), None))
    d = np.dtype(dtype)
    if type not in _RAW:
        type_name(d)
    dims = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    n = 1
    for each in dims:
        n *= int(each)
    memory = device.malloc(n * d.itemsize)
    a = np.asarray(memory).view(d)[:n].reshape(dims).view(Array)
    a.memory = memory
    a.type = type if type in _RAW else None
    return a


def zeros(shape: Union[int, Sequence[int]], device: Device, dtype: Any = np.float64,
          type: Optional[str] = None) -> Array:
    """As empty(), filled with 0."""
    a = empty(shape, device, dtype, type)
    a.fill(0)
    return a


def array(values: Any, device: Device, dtype: Any = None, type: Optional[str] = None) -> Array:
    """A copy of an array, of what NumPy makes one of, or of a CPU tensor with __dlpack__, in a device's memory.

    >>> with gpusim.cluster(1) as g:
    ...     a = gpusim.array(np.arange(6.0).reshape(2, 3), g.devices[0])
    ...     a[1, :] += 10
    ...     print(a.sum(axis=0), a[1].addr - a.addr)
    [13. 15. 17.] 24
    """
    if not isinstance(values, np.ndarray) and hasattr(values, "__dlpack__") and hasattr(np, "from_dlpack"):
        values = np.from_dlpack(values)
    source = np.asarray(values, dtype=dtype)
    if type is None and isinstance(values, Array):
        type = values.type
    if type in _RAW and source.dtype != _RAW[type]:
        raise Invalid(f"type {type!r} takes the raw bits, as {np.dtype(_RAW[type])}, not {source.dtype}")
    a = empty(source.shape, device, source.dtype if type is None or type in _RAW else None, type)
    a[...] = source
    return a
