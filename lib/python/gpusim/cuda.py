"""What a program of NCCL needs of the CUDA runtime, by ctypes over gpusim's libcudart.so.12.

Devices are those of gpuctl run, in the order of gpuctl devices; every thread has a current one. Pointers, streams
and events are ints: device addresses, and 0 for the default stream. Sizes are in bytes. A call that fails raises
CUDARuntimeError, and libcudart writes the reason on standard error. See gpusim-cuda(7).

>>> import numpy as np
>>> from gpusim import cuda
>>> x = cuda.array(np.arange(4.0))      # on the current device
>>> cuda.memset(x.ptr, 0, 16)           # of the first two; it does not wait
>>> x.get()
array([0., 0., 2., 3.])
"""
from __future__ import annotations

import ctypes
import operator
import os
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import numpy as np

from . import _lib

(MEMCPY_HOST_TO_HOST, MEMCPY_HOST_TO_DEVICE, MEMCPY_DEVICE_TO_HOST, MEMCPY_DEVICE_TO_DEVICE,
 MEMCPY_DEFAULT) = range(5)
_NON_BLOCKING, _DISABLE_TIMING = 1, 2  # flags of streams, of events
_NO_MEMORY, _NOT_READY = 2, 600  # results

# Kinds of arguments: ints, sizes, pointers. Any other kind is the address of a result.
_KINDS: Dict[str, Tuple[Any, int, int]] = {
    "i": (ctypes.c_int, -(1 << 31), (1 << 31) - 1),
    "u": (ctypes.c_uint, 0, (1 << 32) - 1),
    "n": (ctypes.c_size_t, 0, (1 << 64) - 1),
    "p": (ctypes.c_void_p, 0, (1 << 64) - 1),
    "s": (ctypes.c_void_p, 0, (1 << 64) - 1),  # a stream or an event, which libcudart believes
}
_handles = {0, 1, 2}  # the streams and events that exist, the default streams among them


def fits(kind: str, value: Any, what: str) -> int:
    """value as an int that a C argument of this kind holds: ctypes would cut it off."""
    _, low, high = _KINDS[kind]
    number = operator.index(value)
    if not low <= number <= high:
        raise OverflowError(f"{what} is {number}, and must be {low} to {high}")
    if kind == "s" and number not in _handles:
        raise ValueError(f"{what}: {number:#x} is no stream or event of gpusim.cuda")
    return number


def bind(library: ctypes.CDLL, name: str, kinds: str) -> Callable[..., int]:
    """A C function that returns an int, with its arguments checked: TypeError for what is no int, OverflowError
    for one that does not fit, ValueError for what is no stream."""
    function = getattr(library, name)
    function.argtypes = [_KINDS[kind][0] if kind in _KINDS else ctypes.c_void_p for kind in kinds]
    function.restype = ctypes.c_int

    def call(*args: Any) -> int:
        if _forked:
            raise _lib.Forked(f"{name}: this process was forked from one that uses gpusim.cuda: start it with the "
                              'method "spawn", or make the first call in the children')
        if len(args) != len(kinds):
            raise TypeError(f"{name} takes {len(kinds)} arguments, not {len(args)}")
        return function(*[fits(kind, arg, f"{name}: argument {place}") if kind in _KINDS else arg
                          for place, (kind, arg) in enumerate(zip(kinds, args), 1)])

    return call


_CALLS = {
    "GetDeviceCount": "o", "SetDevice": "i", "GetDevice": "o", "DeviceSynchronize": "", "RuntimeGetVersion": "o",
    "Malloc": "on", "MallocManaged": "onu", "Free": "p", "MemGetInfo": "oo", "MemsetAsync": "pins",
    "Memcpy": "ppni", "MemcpyAsync": "ppnis", "StreamCreateWithFlags": "ou", "StreamDestroy": "s",
    "StreamSynchronize": "s", "StreamQuery": "s", "StreamWaitEvent": "ssu", "EventCreateWithFlags": "ou",
    "EventDestroy": "s", "EventRecord": "ss", "EventQuery": "s", "EventSynchronize": "s", "EventElapsedTime": "oss",
    "GetLastError": "",
}
_bound: Optional[Dict[str, Callable[..., int]]] = None
_library: Any = None
_lock = threading.Lock()
_forked = False  # this process is a child of one that uses libcudart, of which nothing works here


def _in_child() -> None:
    global _forked
    _forked = _bound is not None


def is_forked() -> bool:
    """True in a child of fork: nothing is released there, as it belongs to the parent."""
    return _forked


os.register_at_fork(after_in_child=_in_child)


def load() -> Dict[str, Callable[..., int]]:
    """The calls of libcudart, which is loaded once. libnccl finds it by its soname; its symbols stay its own, as
    libgpusim has the same."""
    global _bound, _library
    with _lock:
        if _bound is None:
            _library = ctypes.CDLL(_lib.load("libcudart.so.12"))
            _library.cudaGetErrorName.restype = _library.cudaGetErrorString.restype = ctypes.c_char_p
            _library.gpusim_cuda_told.restype = _library.gpusim_error.restype = ctypes.c_char_p
            _bound = {name: bind(_library, "cuda" + name, kinds) for name, kinds in _CALLS.items()}
    return _bound


class CUDARuntimeError(RuntimeError):
    """A call of the runtime has failed. status: CUDA's number of the error, such as 1 for cudaErrorInvalidValue;
    detail: libcudart's reason, which names the rank or the device, if it has one."""

    def __init__(self, status: int, detail: str = ""):
        load()
        self.status, self.detail = status, detail
        text = f"{_library.cudaGetErrorName(status).decode()}: {_library.cudaGetErrorString(status).decode()}"
        super().__init__(f"{text}: {detail}" if detail else text)

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.status, self.detail)


def _call(name: str, *args: Any, fine: int = 0) -> int:
    status = (_bound or load())[name](*args)
    if status in (0, fine):
        return status
    load()["GetLastError"]()  # the thread's next call does not report it again
    detail = _library.gpusim_cuda_told() or (_library.gpusim_error() if status == _NO_MEMORY else b"")
    raise CUDARuntimeError(status, detail.decode(errors="replace"))


def _get(ctype: Any, name: str, *args: Any) -> Any:
    """A call whose first argument is the place of its result."""
    value = ctype()
    _call(name, ctypes.byref(value), *args)
    return value.value


def waiting(call: Callable[..., Any], *args: Any) -> Any:
    """Run a call that may wait for other ranks so that Ctrl-C ends the wait. The current device is the caller's,
    although the call may run on another thread."""
    if threading.current_thread() is not threading.main_thread():
        return call(*args)
    device = get_device()
    results: List[Any] = []

    def there() -> int:
        set_device(device)
        results.append(call(*args))
        return 0

    _lib.interruptible(there)
    return results[0]


def device_count() -> int:
    """The number of devices."""
    return _get(ctypes.c_int, "GetDeviceCount")


def get_device() -> int:
    """This thread's current device, 0 at first."""
    return _get(ctypes.c_int, "GetDevice")


def set_device(device: int) -> None:
    """Make a device (0 <= device < device_count()) the current one of this thread."""
    _call("SetDevice", device)


def synchronize() -> None:
    """Wait for all work of the current device; raises its failure."""
    waiting(_call, "DeviceSynchronize")


def runtime_version() -> int:
    """The version of CUDA that libcudart imitates, such as 12040 for 12.4."""
    return _get(ctypes.c_int, "RuntimeGetVersion")


def mem_info() -> Tuple[int, int]:
    """Free and all bytes of the current device's memory."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    _call("MemGetInfo", ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def malloc(size: int, managed: bool = False) -> int:
    """The address of new memory of the current device. The host may read and write it only if it is managed and no work
    that uses it is running; else copy with memcpy. The caller frees it; what is left ends with the process. Raises
    CUDARuntimeError cudaErrorMemoryAllocation."""
    return (_get(ctypes.c_void_p, "MallocManaged", size, 1) if managed else _get(ctypes.c_void_p, "Malloc", size)) or 0


def free(ptr: int) -> None:
    """Free memory when all work of its device has ended. 0 does nothing."""
    waiting(_call, "Free", ptr)


def memcpy(dst: int, src: int, size: int, kind: int = MEMCPY_DEFAULT, stream: Optional[int] = None) -> None:
    """Copy bytes between addresses of devices and of the host (of NumPy: x.ctypes.data), after all earlier work of the
    default stream, or in the order of a stream; then it returns at once if both sides are device memory."""
    if stream is not None:
        _call("MemcpyAsync", dst, src, size, kind, stream)
    elif Stream.null.done:
        _call("Memcpy", dst, src, size, kind)
    else:
        waiting(_call, "Memcpy", dst, src, size, kind)


def memset(ptr: int, value: int, size: int, stream: int = 0) -> None:
    """Set each of size bytes to value, in the order of a stream. Does not wait."""
    _call("MemsetAsync", ptr, value, size, stream)


class Device:
    """A device by its number, None: the current one. `with Device(1):` makes it the current one of this thread and
    afterwards the former one again.

    >>> with Device(1):
    ...     get_device()
    1
    """

    def __init__(self, device: Optional[int] = None):
        self.id = get_device() if device is None else operator.index(device)
        self._before: List[int] = []

    def use(self) -> None:
        """Make it the current one."""
        set_device(self.id)

    def synchronize(self) -> None:
        """Wait for all its work."""
        with self:
            synchronize()

    def __enter__(self) -> "Device":
        before = get_device()
        self.use()
        self._before.append(before)
        return self

    def __exit__(self, *_: Any) -> None:
        set_device(self._before.pop())

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Device) and other.id == self.id

    def __hash__(self) -> int:
        return self.id

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"


class _Owned:
    """A stream or an event: `ptr` is CUDA's handle, which ends with the object."""

    def __init__(self, make: str, flags: int):
        self.ptr = self._own = _get(ctypes.c_void_p, make, flags)
        _handles.add(self.ptr)

    def __del__(self) -> None:
        own = getattr(self, "_own", 0)
        if own and _bound and not _forked:  # at the interpreter's end there may be none
            _bound[f"{type(self).__name__}Destroy"](own)
            _handles.discard(own)


class Event(_Owned):
    """A point in the work of a stream of the current device."""

    def __init__(self, disable_timing: bool = False):
        super().__init__("EventCreateWithFlags", _DISABLE_TIMING if disable_timing else 0)

    def record(self, stream: Optional["Stream"] = None) -> None:
        """It happens when the stream's work up to here has ended; None: the default stream."""
        _call("EventRecord", self.ptr, stream.ptr if stream else 0)

    def synchronize(self) -> None:
        """Wait for it."""
        waiting(_call, "EventSynchronize", self.ptr)

    @property
    def done(self) -> bool:
        """It has happened, or was never recorded."""
        return _call("EventQuery", self.ptr, fine=_NOT_READY) == 0


def get_elapsed_time(start: Event, end: Event) -> float:
    """Milliseconds between two events that have happened."""
    return _get(ctypes.c_float, "EventElapsedTime", start.ptr, end.ptr)


class Stream(_Owned):
    """A queue of work of the current device, in order with the default stream unless it is non_blocking. `ptr` is what
    calls of NCCL take. Stream.null is every device's default stream."""

    null: "Stream"

    def __init__(self, null: bool = False, non_blocking: bool = False):
        if null:
            self.ptr = 0
        else:
            super().__init__("StreamCreateWithFlags", _NON_BLOCKING if non_blocking else 0)

    def synchronize(self) -> None:
        """Wait for all its work, and raise its failure."""
        if not self.done:
            waiting(_call, "StreamSynchronize", self.ptr)

    def record(self, event: Optional[Event] = None) -> Event:
        """Record an event, a new one by default, and return it."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """What is enqueued from now on waits for the event, also of another device."""
        _call("StreamWaitEvent", self.ptr, event.ptr, 0)

    @property
    def done(self) -> bool:
        """All its work has ended."""
        return _call("StreamQuery", self.ptr, fine=_NOT_READY) == 0


Stream.null = Stream(null=True)


class ExternalStream(Stream):
    """A stream that other code of this process has made with the same libcudart. It stays theirs."""

    def __init__(self, ptr: int):
        self.ptr = fits("p", ptr, "ptr")
        _handles.add(self.ptr)


class Array:
    """Managed memory of the current device, C-contiguous: np.asarray(a) is the same bytes, without a copy, and keeps
    them alive. `ptr` is what calls of NCCL take. NumPy does not wait for streams: synchronize first, or use get().

    >>> a = Array((2, 3), np.float32)
    >>> np.asarray(a)[:] = 1
    >>> float(a.get().sum()), a.nbytes, a.device
    (6.0, 24, 0)
    """

    def __init__(self, shape: Union[int, Tuple[int, ...]], dtype: Any = np.float64):
        self.dtype = np.dtype(dtype)
        if self.dtype.hasobject:
            raise TypeError(f"a device has no room for Python objects: {self.dtype}")
        self.shape = tuple(int(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,)))
        if any(n < 0 for n in self.shape):
            raise ValueError(f"a shape with a negative number: {self.shape}")
        self.size = int(np.prod(self.shape, dtype=object))
        self.nbytes, self.device = self.size * self.dtype.itemsize, get_device()
        self.ptr = malloc(max(self.nbytes, 1), managed=True)

    @property
    def data(self) -> "Array":
        """Itself, as in CuPy's a.data.ptr."""
        return self

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        if _forked:
            raise _lib.Forked(f"an array of device {self.device} in a forked child: copy it before the fork")
        return {"shape": self.shape, "typestr": self.dtype.str, "descr": self.dtype.descr, "version": 3,
                "data": (self.ptr, False)}

    def get(self) -> np.ndarray:
        """A copy of its own, after all work of the array's device."""
        Device(self.device).synchronize()
        return np.array(self)

    def set(self, values: Any) -> None:
        """Write values of its shape, or that NumPy repeats to it, after all work of the array's device."""
        Device(self.device).synchronize()
        np.asarray(self)[...] = values

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<gpusim.cuda.Array {self.shape} {self.dtype} of device {self.device}>"

    def __del__(self) -> None:
        ptr, self.ptr = getattr(self, "ptr", 0), 0
        if ptr and _bound and not _forked:
            _bound["Free"](ptr)


def array(values: Any, dtype: Any = None) -> Array:
    """A device array with a copy of what NumPy makes of values."""
    values = np.asarray(values, dtype)
    out = Array(values.shape, values.dtype)
    np.asarray(out)[...] = values
    return out


def zeros(shape: Union[int, Tuple[int, ...]], dtype: Any = np.float64) -> Array:
    """A device array of zeros."""
    out = Array(shape, dtype)
    np.asarray(out)[...] = 0
    return out
