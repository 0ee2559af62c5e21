"""The shape of cupy.cuda.nccl, by ctypes over gpusim's libnccl.so.2: programs written for it run over simulated GPUs.

Pointers and streams are ints: addresses of device memory (gpusim.cuda), and 0 for the default stream. count is in
elements of datatype, one of NCCL_INT8 .. NCCL_FLOAT8E5M2. A collective is enqueued on the stream of the
communicator's device and returns; all ranks call with the same arguments in the same order. A call that fails raises
NcclError. See gpusim-nccl(7).

>>> import numpy as np
>>> from gpusim import cuda, nccl
>>> comms = nccl.NcclCommunicator.initAll(2)
>>> arrays = []
>>> nccl.groupStart()
>>> for comm in comms:
...     with cuda.Device(comm.device_id()):
...         arrays.append(cuda.array(np.arange(3, dtype=np.float32) + comm.rank_id()))
...         comm.allReduce(arrays[-1].ptr, arrays[-1].ptr, 3, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, 0)
>>> nccl.groupEnd()
>>> arrays[1].get()
array([1., 3., 5.], dtype=float32)
"""
from __future__ import annotations

import ctypes
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from . import _lib, cuda

available = True

NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN, NCCL_AVG = range(5)
(NCCL_INT8, NCCL_UINT8, NCCL_INT32, NCCL_UINT32, NCCL_INT64, NCCL_UINT64, NCCL_FLOAT16, NCCL_FLOAT32, NCCL_FLOAT64,
 NCCL_BFLOAT16, NCCL_FLOAT8E4M3, NCCL_FLOAT8E5M2) = range(12)
NCCL_CHAR, NCCL_INT, NCCL_HALF = NCCL_INT8, NCCL_INT32, NCCL_FLOAT16
NCCL_FLOAT, NCCL_DOUBLE = NCCL_FLOAT32, NCCL_FLOAT64

UNIQUE_ID_BYTES = 128
BUILD_VERSION = 22707
_UNDEFINED = -(1 << 31)
_ERRORS = ("SUCCESS", "UNHANDLED_CUDA_ERROR", "SYSTEM_ERROR", "INTERNAL_ERROR", "INVALID_ARGUMENT", "INVALID_USAGE",
           "REMOTE_ERROR", "IN_PROGRESS", "TIMEOUT")


class _UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_ubyte * UNIQUE_ID_BYTES)]


class _Config(ctypes.Structure):
    """ncclConfig_t of nccl.h."""

    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint)] + [
        (name, ctypes.c_char_p if name in ("netName", "commName") else ctypes.c_int)
        for name in ("blocking", "cgaClusterSize", "minCTAs", "maxCTAs", "netName", "splitShare", "trafficClass",
                     "commName", "collnetEnable", "CTAPolicy", "shrinkShare", "nvlsCTAs", "deterministic")]


_CALLS = {
    "GetVersion": "o", "GetUniqueId": "o", "GroupStart": "", "GroupEnd": "", "CommInitAll": "oio",
    "CommSplit": "piioo", "CommDestroy": "p", "CommAbort": "p", "CommGetAsyncError": "po", "CommCount": "po",
    "CommCuDevice": "po", "CommUserRank": "po", "AllReduce": "ppniips", "Reduce": "ppniiips", "Broadcast": "ppniips",
    "Bcast": "pniips", "ReduceScatter": "ppniips", "AllGather": "ppnips", "Send": "pniips", "Recv": "pniips",
}
_bound: Optional[Dict[str, Callable[..., int]]] = None
_library: Any = None
_lock = threading.Lock()
_group = threading.local()  # depth: of this thread's open groups


def _load() -> Dict[str, Callable[..., int]]:
    global _bound, _library
    with _lock:
        if _bound is None:
            cuda.load()
            library = ctypes.CDLL(_lib.load("libnccl.so.2"))
            library.ncclGetErrorString.restype = library.ncclGetLastError.restype = ctypes.c_char_p
            library.ncclGetLastError.argtypes = [ctypes.c_void_p]
            library.ncclCommInitRankConfig.argtypes = [ctypes.c_void_p, ctypes.c_int, _UniqueId, ctypes.c_int,
                                                       ctypes.c_void_p]
            _library = library
            _bound = {name: cuda.bind(library, "nccl" + name, kinds) for name, kinds in _CALLS.items()}
    return _bound


class NcclError(RuntimeError):
    """A call has failed. status: ncclResult_t; detail: NCCL's last message, which names the rank and the reason."""

    def __init__(self, status: int, detail: str = ""):
        _load()
        self.status, self.detail = status, detail
        name = _ERRORS[status] if 0 <= status < len(_ERRORS) else str(status)
        text = f"NCCL_ERROR_{name}: {_library.ncclGetErrorString(status).decode()}"
        super().__init__(f"{text}: {detail}" if detail else text)

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.status, self.detail)


def _raise(status: int, comm: int = 0) -> None:
    raise NcclError(status, _library.ncclGetLastError(comm or None).decode(errors="replace"))


def _call(name: str, *args: Any, comm: int = 0) -> None:
    status = (_bound or _load())[name](*args)
    if status:
        _raise(status, comm)


def _waiting(call: Callable[..., Any], *args: Any) -> Any:
    """A call that may wait for other ranks: inside a group it does not, and belongs to this thread."""
    return call(*args) if getattr(_group, "depth", 0) else cuda.waiting(call, *args)


def get_build_version() -> int:
    """The version of NCCL whose interface this module has: 22707."""
    return BUILD_VERSION


def get_version() -> int:
    """The version that the library says, such as 22707 for 2.27.7."""
    version = ctypes.c_int()
    _call("GetVersion", ctypes.byref(version))
    return version.value


def get_unique_id() -> bytes:
    """A new id of 128 bytes. One process makes it and distributes it in any way; it has the coordinator's address.

    >>> len(get_unique_id())
    128
    """
    made = _UniqueId()
    _call("GetUniqueId", ctypes.byref(made))
    return bytes(made.internal)


def groupStart() -> None:
    """The calls of this thread up to groupEnd begin together there. Groups nest; the outermost counts."""
    _call("GroupStart")
    _group.depth = getattr(_group, "depth", 0) + 1


def groupEnd() -> None:
    """Begin the group's calls. If one of them has failed, none begins. Ctrl-C does not end a group that creates
    communicators: GPUSIM_TIMEOUT does."""
    _group.depth = max(getattr(_group, "depth", 0) - 1, 0)
    _call("GroupEnd")


class NcclConfig:
    """The configuration of a communicator. split_share: taken, without an effect here; deterministic (gpusim's): the
    bits of a reduction depend on the inputs and the order of ranks alone."""

    def __init__(self, split_share: int = 0, deterministic: Optional[bool] = None):
        undefined = {name: _UNDEFINED for name, kind in _Config._fields_[3:] if kind is ctypes.c_int}
        self._config = _Config(size=ctypes.sizeof(_Config), magic=0xCAFEBEEF, version=BUILD_VERSION, **undefined)
        self._config.splitShare = split_share
        if deterministic is not None:
            self._config.deterministic = int(deterministic)

    @property
    def split_share(self) -> int:
        """What the constructor was given."""
        return self._config.splitShare


def _address(config: Optional[NcclConfig]) -> Any:
    if config is not None and not isinstance(config, NcclConfig):
        raise TypeError(f"config is an NcclConfig, not {type(config).__name__}")
    return None if config is None else ctypes.addressof(config._config)


class NcclCommunicator:
    """One rank of a communicator: rank `rank` of `ndev`, on the current device. All ranks call, in processes or
    threads, or one after another inside a group; the constructor waits for them, and Ctrl-C ends that. commId: of
    get_unique_id(), the same for all. Raises NcclError, TypeError, ValueError.

    >>> comm = NcclCommunicator(1, get_unique_id(), 0)
    >>> comm.size(), comm.rank_id(), comm.device_id()
    (1, 0, 0)
    >>> comm.destroy()
    """

    def __init__(self, ndev: int, commId: bytes, rank: int, config: Optional[NcclConfig] = None):
        self._place = ctypes.c_void_p()
        if not isinstance(commId, bytes):
            raise TypeError(f"commId is bytes, not {type(commId).__name__}")
        if len(commId) != UNIQUE_ID_BYTES:
            raise ValueError(f"commId length {len(commId)} != {UNIQUE_ID_BYTES}.")
        _load()
        place, made = self._place, _UniqueId.from_buffer_copy(commId)
        ndev, rank = cuda.fits("i", ndev, "ndev"), cuda.fits("i", rank, "rank")

        def init() -> None:
            status = _library.ncclCommInitRankConfig(ctypes.byref(place), ndev, made, rank, _address(config))
            if status:
                _raise(status)

        _waiting(init)

    @classmethod
    def _of(cls, place: ctypes.c_void_p) -> "NcclCommunicator":
        self = cls.__new__(cls)
        self._place = place
        return self

    @staticmethod
    def initAll(devices: Union[int, List[int]]) -> List["NcclCommunicator"]:
        """All ranks in this process: on the first `devices` devices, or on those of a list, rank by rank."""
        if not isinstance(devices, (int, list)):
            raise ValueError('"devices" should be an int or a list of int.')
        ids = list(range(devices)) if isinstance(devices, int) else [cuda.fits("i", d, "a device") for d in devices]
        comms = (ctypes.c_void_p * max(len(ids), 1))()
        _waiting(_call, "CommInitAll", comms, len(ids), (ctypes.c_int * max(len(ids), 1))(*ids))
        return [NcclCommunicator._of(ctypes.c_void_p(comm)) for comm in comms[:len(ids)]]

    @property
    def comm(self) -> int:
        """ncclComm_t, 0 when it is destroyed."""
        return self._place.value or 0

    def _release(self, name: str, run: Callable[..., Any]) -> None:
        comm = self.comm
        if comm:
            self._place = ctypes.c_void_p()
            run(_load()[name], comm)

    def destroy(self) -> None:
        """Wait until this rank's operations have ended, and leave. Again: nothing."""
        self._release("CommDestroy", _waiting)

    def abort(self) -> None:
        """End the communicator's operations on all ranks, and leave; the others see NCCL_ERROR_REMOTE_ERROR."""
        self._release("CommAbort", _waiting)

    def __del__(self) -> None:
        # A forked child, and a constructor that failed, have nothing to release. At the interpreter's end no thread
        # may start any more.
        if getattr(self, "_place", None) and _bound and not cuda.is_forked():
            self._release("CommDestroy", lambda call, comm: call(comm))

    def _int(self, name: str) -> int:
        value = ctypes.c_int()
        _call(name, self.comm, ctypes.byref(value))
        return value.value

    def device_id(self) -> int:
        """The number of its device."""
        return self._int("CommCuDevice")

    def rank_id(self) -> int:
        """Its rank."""
        return self._int("CommUserRank")

    def size(self) -> int:
        """The number of ranks."""
        return self._int("CommCount")

    def allReduce(self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, stream: int) -> None:
        """Reduce count elements of all ranks to all ranks. Equal buffers: in place."""
        _call("AllReduce", sendbuf, recvbuf, count, datatype, op, self.comm, stream)

    def reduce(self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, root: int, stream: int) -> None:
        """Reduce count elements of all ranks to the root; the others' recvbuf is not used."""
        _call("Reduce", sendbuf, recvbuf, count, datatype, op, root, self.comm, stream)

    def broadcast(self, sendbuff: int, recvbuff: int, count: int, datatype: int, root: int, stream: int) -> None:
        """Copy count elements of the root's sendbuff to every rank's recvbuff."""
        _call("Broadcast", sendbuff, recvbuff, count, datatype, root, self.comm, stream)

    def bcast(self, buff: int, count: int, datatype: int, root: int, stream: int) -> None:
        """As broadcast, in place."""
        _call("Bcast", buff, count, datatype, root, self.comm, stream)

    def reduceScatter(self, sendbuf: int, recvbuf: int, recvcount: int, datatype: int, op: int, stream: int) -> None:
        """Reduce size() * recvcount elements; rank r gets part r."""
        _call("ReduceScatter", sendbuf, recvbuf, recvcount, datatype, op, self.comm, stream)

    def allGather(self, sendbuf: int, recvbuf: int, count: int, datatype: int, stream: int) -> None:
        """Collect count elements of each rank, in the order of ranks: size() * count on every rank."""
        _call("AllGather", sendbuf, recvbuf, count, datatype, self.comm, stream)

    def send(self, sendbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        """Send to a rank, which receives as much."""
        _call("Send", sendbuf, count, datatype, peer, self.comm, stream)

    def recv(self, recvbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        """Receive from a rank, which sends as much."""
        _call("Recv", recvbuf, count, datatype, peer, self.comm, stream)

    def check_async_error(self) -> None:
        """Raise the failure of work in the background; does not wait."""
        status = self._int("CommGetAsyncError")
        if status:
            _raise(status, self.comm)

    def commSplit(self, color: int, key: int, config: Optional[NcclConfig] = None) -> Optional["NcclCommunicator"]:
        """A communicator of the ranks of one color, ordered by key, then rank. All ranks call; color -1 gets None."""
        place = ctypes.c_void_p()
        _waiting(_call, "CommSplit", self.comm, color, key, ctypes.byref(place), _address(config))
        return None if color == -1 else NcclCommunicator._of(place)
