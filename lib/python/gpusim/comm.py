"""Communicators and their collectives: of one rank, as NCCL's, or with one handle for all ranks."""
from __future__ import annotations

import ctypes as C
import math
import threading
import time
from typing import Any, Dict, List, Optional, Sequence, Union

import numpy as np

from . import _lib
from ._array import Array, array, empty, type_name
from ._lib import COLLS, DTYPE_SIZES, DTYPES, REDOPS, Invalid, Mismatch, check, lib
from .machine import Device, Machine, arguments

_U64 = C.c_uint64
_SIZE = C.sizeof(_lib.Collective)
_SLICE_MS = 100  # of a wait, after which Python looks for signals
_REDUCE = ("allreduce", "reduce", "reduce_scatter")
_OF_BITS = ("min", "max", "band", "bor", "bxor")
_NO_COUNTS = (None, None, None, None)
_QUEUES = {"auto": 0, "off": 1, "on": 2}


def _vector(values: Any, kind: Any = _U64) -> Any:
    return None if values is None else (kind * len(values))(*values)


class Work:
    """An operation that was started with async_=True."""

    def __init__(self, comm: "Comm", mark: Optional[int], stream: int, result: Any, back: Sequence[tuple],
                 keep: Any = None) -> None:
        self.comm, self.mark, self.stream, self.result, self._back, self._keep = comm, mark, stream, result, back, keep

    def done(self) -> bool:
        """It has ended; wait() then returns at once."""
        return self.comm.done(self.mark or 0, self.stream)

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Wait for the end and return the result. Raises its failure; Timeout: after that many seconds it goes on."""
        self.comm.wait(self.mark or 0, self.stream, timeout)
        back, self._back = self._back, ()
        for host, device in back:
            host[...] = device.reshape(host.shape)
        return self.result


class Group:
    """Operations that run together, of the with statement Comm.group()."""

    def __init__(self, comm: "Comm", async_: bool) -> None:
        self.comm, self.async_, self.works = comm, async_, []  # type: Comm, bool, List[Work]

    def __enter__(self) -> "Group":
        check(lib().gpusim_group_start(self.comm._p()))
        self.comm._group = self
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.comm._group = None
        rc = lib().gpusim_group_end(self.comm._p(), 0)
        if kind is not None:
            return
        check(rc)
        for w in self.works:
            w.mark = self.comm._mark(w.stream)
        if not self.async_:
            self.wait()

    def wait(self, timeout: Optional[float] = None) -> None:
        """Wait until all have ended."""
        for w in self.works:
            w.wait(timeout)


class Comm:
    """A communicator. .size; .rank and .device of one rank's handle, None of a handle for all; .devices by rank.

    Operations take arrays of gpusim.array (device memory, no copy) or of NumPy (one copy in and one out): one array of
    one rank's handle, a list of them by rank of a handle for all. They return the received arrays; without recv they
    work in place where input and output are equally large, else they make an array. All take

    stream         0 to 63, of the device: operations of one stream run in order
    async_         return a Work at once instead of waiting
    deterministic  the bits of the result depend only on the inputs and the order of ranks
    algo           an algorithm, gpusim-algorithms(7), of a handle for all ranks

    Errors: Invalid, Mismatch: an array's size, type or device; ranks differ. RankLost: a rank has ended. Timeout: a
    rank has not called. Aborted.
    """

    def __init__(self, machine: Machine, handle: int) -> None:
        self.machine, self._handle = machine, handle
        f = lib()
        rank = f.gpusim_comm_user_rank(handle)
        self.id: int = f.gpusim_comm_id(handle)
        self.size: int = f.gpusim_comm_count(handle)
        self.epoch: int = f.gpusim_comm_epoch(handle)
        self.queued = bool(f.gpusim_comm_is_queued(handle))
        self.rank: Optional[int] = rank if rank >= 0 else None
        self.devices: List[Device] = [machine.device(f.gpusim_comm_device(handle, r)) for r in range(self.size)]
        self.device: Optional[Device] = self.devices[rank] if rank >= 0 else None
        self._group: Optional[Group] = None
        self._failed: Optional[_lib.Error] = None
        self._local = threading.local()
        machine._comms.add(self)

    def __repr__(self) -> str:
        return f"<gpusim.Comm {self.id}: {self.size} ranks" + (">" if self.rank is None else f", rank {self.rank}>")

    def _p(self) -> Any:
        if _lib.is_forked():
            _lib.alive()
        if self._handle is None:
            raise Invalid(f"comm {self.id}: it was destroyed")
        return self._handle

    def _check(self, rc: int) -> None:
        """Raise a call's failure, with the rank of the device that its sentence names."""
        if not rc:
            return
        e = _lib.failure(lib().gpusim_error().decode(errors="replace"), rc)
        if isinstance(e, _lib.Unreachable):
            e = _lib.RankLost(str(e), rc)
        if e.rank is None and e.device:
            e.rank = next((r for r, d in enumerate(self.devices) if str(d) == e.device), None)
        if isinstance(e, (_lib.Aborted, Mismatch)):
            self._failed = e
        raise e

    # The calls of the library, in numbers

    def call(self, coll: int, send: Any, recv: Any, nelem: int, dtype: int, op: int = 0, root: int = 0, stream: int = 0,
             deterministic: int = 0, algo: Optional[str] = None, scalar: Optional[bytes] = None,
             counts: Sequence[Any] = _NO_COUNTS) -> int:
        """Enqueue an operation as struct gpusim_collective has it (nelem is of the whole vector); returns a mark for
        wait(). send, recv: device addresses, 0 for none; of a handle for all ranks lists of them."""
        plain = self.rank is not None and algo is None and scalar is None and counts == _NO_COUNTS
        c = self._filled() if plain else _lib.Collective(_SIZE)
        c.coll, c.dtype, c.redop, c.nelem, c.root, c.stream = coll, dtype, op, nelem, root, stream
        c.deterministic = deterministic
        if plain:
            self._local.send.value, self._local.recv.value = send, recv
        else:
            v = [_vector([x] if isinstance(x, int) else x) for x in (send, recv)] + [_vector(x) for x in counts]
            c.send, c.recv, c.counts, c.recv_counts, c.displs, c.recv_displs = (C.cast(x, C.c_void_p) for x in v)
            c.algo, c.scalar = algo.encode() if algo else None, C.cast(scalar, C.c_void_p)
        if self.queued:
            self._check(lib().gpusim_collective(self._p(), c, 0))
        else:
            _lib.interruptible(lib().gpusim_collective, self._p(), c, 0)
        return self._mark(stream)

    def _filled(self) -> Any:
        """This thread's struct for a rank's calls: to fill one anew takes longer than the call."""
        try:
            return self._local.struct
        except AttributeError:
            t = self._local
            t.send, t.recv = _U64(), _U64()
            t.struct = _lib.Collective(_SIZE, send=C.cast(C.byref(t.send), C.c_void_p),
                                       recv=C.cast(C.byref(t.recv), C.c_void_p))
            return t.struct

    def _mark(self, stream: int) -> int:
        if not self.queued or self.device is None:
            return 0
        return lib().gpusim_stream_mark(self.machine._g(), self.device.id, stream)

    def wait(self, mark: int = 0, stream: int = 0, timeout: Optional[float] = None) -> None:
        """Wait until a stream has passed a mark (0: all work so far). Raises the failure of the work; Timeout: after
        that many seconds (default: the machine's) the work goes on. Ctrl-C ends the wait."""
        handle, g = self._p(), self.machine._g()
        if not self.queued or self.device is None:
            if self.device is not None:
                _lib.interruptible(lib().gpusim_stream_sync, g, self.device.id, stream)
            else:
                _lib.interruptible(lib().gpusim_comm_sync, handle)
            return
        wait, device = lib().gpusim_stream_wait, self.device.id
        rc = wait(g, device, stream, mark, _SLICE_MS)
        if rc == 4:
            until = time.monotonic() + (self.machine.timeout if timeout is None else timeout) - _SLICE_MS / 1000
            while rc == 4 and time.monotonic() < until:
                rc = wait(g, device, stream, mark, _SLICE_MS)
            if rc == 4:
                raise _lib.Timeout(self._stuck())
        self._check(rc)

    def _stuck(self) -> str:
        """The sentence of a wait that takes too long: what holds it up, if that is known."""
        said = lib().gpusim_error().decode(errors="replace")
        try:
            return self.machine.ctl("explain", "--comm", str(self.id)).split("\n")[0] or said
        except (_lib.Error, OSError, ValueError):
            return said

    def done(self, mark: int = 0, stream: int = 0) -> bool:
        """True: the stream has passed the mark, or the work has failed."""
        if not self.queued or self.device is None:
            return self.machine.status_of(self.id)["pending"] == 0
        return lib().gpusim_stream_wait(self.machine._g(), self.device.id, stream, mark, 0) != 4

    def error(self) -> Optional[_lib.Error]:
        """The communicator's failure, or None; as ncclCommGetAsyncError."""
        out = C.c_int()
        if self._failed is None:
            check(lib().gpusim_comm_get_async_error(self._p(), C.byref(out)))
        return _lib.failure(lib().gpusim_error().decode(errors="replace"), out.value) if out.value else self._failed

    # Collectives

    def all_reduce(self, send: Any, recv: Any = None, op: str = "sum", **how: Any) -> Any:
        """The reduction of all ranks' arrays, on all. op: sum, prod, min, max, avg; of integers also band, bor, bxor;
        premulsum with factor: a number, of a handle for all ranks a list.

        >>> with gpusim.cluster(3) as g:
        ...     a = [gpusim.array(np.float32([1, r]), d) for r, d in enumerate(g.devices)]
        ...     print(g.comm(3).all_reduce(a)[2])
        [3. 3.]
        """
        if recv is None and not how and type(send) is Array and self.queued and self._group is None:
            kept = send._kept  # this call is often a small one
            if (kept is None or kept[0] is not self.device or kept[1] != op or kept[2] is not send.dtype or
                    send.memory._free):
                kept = self._keep(send, op)
            if kept:
                rc = lib().gpusim_collective(self._p(), kept[3], 0)
                if rc:
                    self._check(rc)
                self.wait()
                return send
        return self._run("allreduce", send, send if recv is None else recv, 1, 1, op=op, **how)

    def _keep(self, a: Array, op: str) -> Any:
        """The struct for all_reduce of an array in place, with device and op; None: it is not a plain one."""
        plain = a.flags.c_contiguous and a.dtype != bool and op in REDOPS and op != "premulsum"
        if not plain or a.device != self.device:
            return None
        at = _U64(a.addr)
        ptr = C.addressof(at)
        struct = _lib.Collective(_SIZE, 0, DTYPES[a.kind], REDOPS[op], None, a.size, 0, 0, ptr, ptr)
        a._kept = self.device, op, a.dtype, struct, at
        return a._kept

    def broadcast(self, send: Any, recv: Any = None, root: int = 0, **how: Any) -> Any:
        """The root's array, on all; without recv in place."""
        return self._run("broadcast", send, send if recv is None else recv, 1, 1, root=root, **how)

    def reduce(self, send: Any, recv: Any = None, root: int = 0, op: str = "sum", **how: Any) -> Any:
        """As all_reduce, but only the root gets the result."""
        return self._run("reduce", send, send if recv is None else recv, 1, 1, op=op, root=root, **how)

    def all_gather(self, send: Any, recv: Any = None, counts: Any = None, displs: Any = None, **how: Any) -> Any:
        """All ranks' arrays one after the other, on all. counts: elements of each rank, if they differ; displs: where
        each begins in recv.

        >>> with gpusim.cluster(2) as g:
        ...     print(g.comm(2).all_gather([np.ones(2), np.zeros(1)], counts=[2, 1])[0])
        [1. 1. 0.]
        """
        return self._run("allgather", send, recv, 1, self.size, counts=counts, displs=displs, **how)

    def reduce_scatter(self, send: Any, recv: Any = None, op: str = "sum", counts: Any = None, **how: Any) -> Any:
        """Rank r gets part r of the reduction. counts: elements of each part, if they differ.

        >>> with gpusim.cluster(2) as g:
        ...     print(g.comm(2).reduce_scatter([np.arange(4), np.arange(4)], op="max")[1])
        [2 3]
        """
        return self._run("reduce_scatter", send, recv, self.size, 1, op=op, counts=counts, **how)

    def all_to_all(self, send: Any, recv: Any = None, counts: Any = None, recv_counts: Any = None, displs: Any = None,
                   recv_displs: Any = None, **how: Any) -> Any:
        """Part q of rank r goes to part r of rank q. counts, recv_counts: elements to and from each rank, if they
        differ; of a handle for all ranks counts[r * size + q] go from r to q."""
        return self._run("alltoall", send, recv, 1, 1, counts=counts, recv_counts=recv_counts, displs=displs,
                         recv_displs=recv_displs, **how)

    def gather(self, send: Any, recv: Any = None, root: int = 0, counts: Any = None, displs: Any = None,
               **how: Any) -> Any:
        """All ranks' arrays one after the other, on the root."""
        return self._run("gather", send, recv, 1, self.size, root=root, counts=counts, displs=displs, **how)

    def scatter(self, send: Any, recv: Any = None, root: int = 0, counts: Any = None, displs: Any = None,
                **how: Any) -> Any:
        """Part r of the root's array, on rank r. send is None on other ranks."""
        return self._run("scatter", send, recv, self.size, 1, root=root, counts=counts, displs=displs, **how)

    def barrier(self, stream: int = 0, async_: bool = False) -> Any:
        """Wait until all ranks have called."""
        none = 0 if self.rank is not None else None
        return self._end(self.call(COLLS["barrier"], none, none, 0, 0, stream=stream), stream, None, (), async_)

    def send(self, a: Any, peer: int, rank: Optional[int] = None, **how: Any) -> Any:
        """Send an array to a peer; of a handle for all ranks, from rank. It may wait until the peer receives."""
        return self._pair("send", a, peer, rank, **how)

    def recv(self, a: Any, peer: int, rank: Optional[int] = None, **how: Any) -> Any:
        """Receive as many elements from a peer as the array has; of a handle for all ranks, on rank. Returns it."""
        return self._pair("recv", a, peer, rank, **how)

    def _pair(self, name: str, a: Any, peer: int, rank: Optional[int], stream: int = 0, async_: bool = False) -> Any:
        if (self.rank is None) == (rank is None):
            raise Invalid(f"{name}: rank is for handles of all ranks, and needed there")
        device = self.device or self.devices[self._check_rank(rank or 0)]
        b, back = self._place(a, device, name == "recv")
        if self.rank is None:
            addr = [b.addr]
            ops = Graph(self)
            ops._add(name, b.size, b.kind, addr, addr, root=peer, rank=rank, stream=stream)
            check(lib().gpusim_submit(self._p(), ops._list, 0, None))
            return self._end(0, stream, a, back, async_, b)
        mark = self.call(COLLS[name], b.addr if name == "send" else 0, b.addr if name == "recv" else 0, b.size,
                         DTYPES[b.kind], root=peer, stream=stream)
        return self._end(mark, stream, a, back, async_, b)

    def group(self, async_: bool = False) -> Group:
        """The operations of a with statement run together, as between ncclGroupStart and ncclGroupEnd.

        >>> with gpusim.cluster(2) as g:
        ...     comm, x = g.comm(2), np.zeros(2)
        ...     with comm.group():
        ...         _ = comm.send(np.array([1.0, 2.0]), peer=1, rank=0)
        ...         _ = comm.recv(x, peer=0, rank=1)
        ...     print(x)
        [1. 2.]
        """
        return Group(self, async_)

    # How a collective runs

    def _check_rank(self, rank: int) -> int:
        if not 0 <= rank < self.size:
            raise Invalid(f"comm {self.id}: no rank {rank} of {self.size}")
        return rank

    @staticmethod
    def _place(a: Any, device: Device, out: bool) -> tuple:
        """The array in the device's memory, and what is to be copied back."""
        if isinstance(a, Array) and a.memory is not None:
            if a.device != device:
                raise Mismatch(f"the array is on device {a.device}, not on device {device}")
            if not a.flags.c_contiguous:
                raise Invalid("the array is not contiguous: pass a copy")
            return a, ()
        if not isinstance(a, np.ndarray):
            if out:
                raise Invalid(f"{type(a).__name__}: a result needs an array")
            a = np.asarray(a)
        type_name(a.dtype)
        copy = array(a, device)
        return copy, ((a, copy),) if out else ()

    def _run(self, coll: str, send: Any, recv: Any, ins: int, outs: int, *, op: str = "sum", root: int = 0,
             stream: int = 0, async_: bool = False, deterministic: bool = False, algo: Optional[str] = None,
             factor: Any = None, counts: Any = None, recv_counts: Any = None, displs: Any = None,
             recv_displs: Any = None) -> Any:
        """Check, place and start a collective whose rank has ins parts as input, outs parts as output."""
        if op not in REDOPS:
            raise Invalid(f"no reduction {op!r}; there are {', '.join(REDOPS)}")
        self._check_rank(root)
        one = self.rank is not None
        ranks: Sequence[int] = [self.rank or 0] if one else range(self.size)
        sends, recvs = ([send], [recv]) if one else (self._by_rank(send), self._by_rank(recv))
        in_place = recv is send
        s: List[Any] = []
        r: List[Any] = []
        back: List[tuple] = []
        sizes = _Sizes(self, coll, counts, recv_counts, displs, recv_displs, ins, outs)
        for i, rank in enumerate(ranks):
            give = coll not in ("broadcast", "scatter") or rank == root or (in_place and sends[i] is not None)
            take = coll not in ("reduce", "gather") or rank == root or (in_place and coll == "reduce")
            a, copied = self._place(sends[i], self.devices[rank], in_place) if give else (None, ())
            back += copied if take else ()
            b = recvs[i] if take else None
            if in_place:
                b = a
            elif take and b is None:
                b = sizes.new(rank, a)
            elif take:
                b, copied = self._place(b, self.devices[rank], True)
                back += copied
            sizes.see(rank, a if give else None, b if take else None)
            s.append(a)
            r.append(b)
        kind = sizes.kind
        assert kind is not None
        if coll in _REDUCE and op not in _OF_BITS and any(a is not None and a.dtype == bool for a in s):
            raise Invalid(f"{coll}: {op} of booleans; max is their or, min their and")
        scalar = None
        if op == "premulsum":
            factors = np.asarray(factor, dtype=np.float64).reshape(-1)
            if factor is None or len(factors) != len(ranks):
                raise Invalid("premulsum needs a factor for each rank: factor=")
            scalar = _elements(factors, kind)
        out = [a if b is s[i] and in_place else recvs[i] if recvs[i] is not None else b
               for i, (a, b) in enumerate(zip(sends, r))]
        addrs = [[0 if a is None else a.addr for a in v] for v in (s, r)]
        mark = self.call(COLLS[coll], addrs[0][0] if one else addrs[0], addrs[1][0] if one else addrs[1], sizes.nelem,
                         DTYPES[kind], REDOPS[op], root, stream, deterministic, algo, scalar, sizes.lists)
        return self._end(mark, stream, out[0] if one else out, back, async_, (s, r))

    def _by_rank(self, v: Any) -> List[Any]:
        if v is None:
            return [None] * self.size
        if isinstance(v, np.ndarray) or len(v) != self.size:
            raise Invalid(f"comm {self.id}: a list of {self.size} arrays, by rank, not {type(v).__name__} of {len(v)}")
        return list(v)

    def _end(self, mark: int, stream: int, result: Any, back: Sequence[tuple], async_: bool, keep: Any = None) -> Any:
        w = Work(self, mark, stream, result, back, keep)
        if self._group is not None:
            self._group.works.append(w)
            return result
        return w if async_ else w.wait()

    # Other communicators

    def _derive(self, f: Any, *args: Any) -> Optional["Comm"]:
        out = C.c_void_p()
        _lib.interruptible(f, self._p(), *args, C.byref(out))
        return Comm(self.machine, out.value) if out.value else None

    def split(self, color: Any, key: Any = None) -> Any:
        """A communicator of the ranks with the same color, in the order of key, then rank; all ranks call. color below
        0: None. Of a handle for all ranks: lists by rank; returns {color: Comm}.

        >>> with gpusim.cluster(4) as g:
        ...     print(sorted((color, c.size) for color, c in g.comm(4).split([0, 1, 1, 1]).items()))
        [(0, 1), (1, 3)]
        """
        if self.rank is not None:
            return self._derive(lib().gpusim_comm_split, int(color), int(key or 0), None)
        out, n = C.c_void_p(), C.c_size_t()
        check(lib().gpusim_comm_split_all(self._p(), _vector(color, C.c_int), _vector(key, C.c_int), None,
                                          C.byref(out), C.byref(n)))

        class Split(C.Structure):
            _fields_ = [("color", C.c_int), ("comm", C.c_void_p)]
        made: Dict[int, Comm] = {}
        for each in (Split * n.value).from_address(out.value or 0) if n.value else ():
            again = C.c_void_p()
            check(lib().gpusim_comm_open(self.machine._g(), lib().gpusim_comm_id(each.comm), C.byref(again)))
            made[each.color] = Comm(self.machine, again.value or 0)
        lib().gpusim_split_free(out, n)
        return made

    def shrink(self, exclude: Sequence[int] = (), abort: bool = False) -> Optional["Comm"]:
        """A communicator without some ranks. Of one rank's handle: the others call; abort: this one may have failed, or
        fails now. Of a handle for all ranks: no ranks means the lost ones."""
        v = _vector(list(exclude), C.c_uint32)
        if self.rank is not None:
            return self._derive(lib().gpusim_comm_shrink_rank, v, len(exclude), int(abort), None)
        return self._derive(lib().gpusim_comm_shrink, v if exclude else None, len(exclude))

    def grow(self, n: int, unique_id: Optional[str] = None) -> Optional["Comm"]:
        """Of one rank's handle: a communicator of n ranks, with new ones, which call Machine.comm_grow(n, unique_id,
        rank); one rank passes the unique_id. Of a handle for all ranks: n more free devices."""
        if self.rank is not None:
            return self._derive(lib().gpusim_comm_grow_rank, n, unique_id.encode() if unique_id else None, None)
        return self._derive(lib().gpusim_comm_grow, n, None, 0)

    def graph(self) -> "Graph":
        """Records operations of all ranks in a with statement, to run them often.

        >>> with gpusim.cluster(2) as g:
        ...     comm = g.comm(2)
        ...     x = [gpusim.array([1.0, 2.0], d) for d in comm.devices]
        ...     with comm.graph() as ops:
        ...         ops.all_reduce(x)
        ...     ops.launch(3)
        ...     print(x[0])
        [ 8. 16.]
        """
        return Graph(self)

    def abort(self, reason: Optional[str] = None) -> None:
        """End its operations, on all ranks, with a reason."""
        check(lib().gpusim_comm_abort(self._p(), reason.encode() if reason else None))

    def destroy(self) -> None:
        """Leave it; of a handle for all ranks, end it. Waits for what is in progress, at most the machine's timeout."""
        handle, self._handle = self._handle, None
        if handle is not None and not _lib.is_forked() and self.machine._handle and self.machine._handle.value:
            check(lib().gpusim_comm_destroy(handle))

    def close(self) -> None:
        """As destroy, but a failure is ignored: it has ended already."""
        try:
            self.destroy()
        except _lib.Error:
            pass

    __del__ = close


class _Sizes:
    """Elements and types of a collective's arrays: what one says must fit what the others say."""

    def __init__(self, comm: Comm, coll: str, counts: Any, recv_counts: Any, displs: Any, recv_displs: Any, ins: int,
                 outs: int) -> None:
        self.comm, self.coll, self.ins, self.outs = comm, coll, ins, outs
        self.kind: Optional[str] = None
        self.nelem = 0
        self.lists = tuple(None if v is None else [int(x) for x in np.asarray(v).reshape(-1)]
                           for v in (counts, recv_counts, displs, recv_displs))
        if counts is None and any(v is not None for v in self.lists):
            raise Invalid(f"{coll}: displs and recv_counts go with counts")
        n = comm.size * comm.size if coll == "alltoall" and comm.rank is None else comm.size
        for v in self.lists:
            if v is not None and len(v) != n:
                raise Invalid(f"{coll}: a list of {len(v)} counts or displs, not {n}")

    def _end(self, counts: List[int], displs: Optional[List[int]]) -> int:
        if displs is None:
            return sum(counts)
        return max((d + c for d, c in zip(displs, counts) if c), default=0)

    def _need(self, rank: int, out: bool) -> int:
        """Elements that a rank's array must have, with counts."""
        counts, recv_counts, displs, recv_displs = self.lists
        assert counts is not None
        if self.coll == "alltoall":
            n = self.comm.size
            if self.comm.rank is None:
                part = slice(rank * n, (rank + 1) * n)
                if not out:
                    return self._end(counts[part], displs and displs[part])
                return self._end(counts[rank::n], recv_displs and recv_displs[part])
            if recv_counts is None:
                raise Invalid("all_to_all: counts of one rank go with recv_counts")
            return self._end(recv_counts, recv_displs) if out else self._end(counts, displs)
        return self._end(counts, displs) if (self.outs if out else self.ins) > 1 else counts[rank]

    def new(self, rank: int, send: Optional[Array]) -> Array:
        """An array for what a rank receives."""
        device = self.comm.devices[rank]
        like = send
        if like is None:
            raise Invalid(f"{self.coll}: recv is needed where nothing is sent")
        n = self._need(rank, True) if self.lists[0] else like.size * self.outs // self.ins
        return empty(n, device, like.dtype, like.type)

    def see(self, rank: int, send: Optional[Array], recv: Optional[Array]) -> None:
        for a, parts, out in ((send, self.ins, False), (recv, self.outs, True)):
            if a is None:
                continue
            if self.kind not in (None, a.kind):
                raise Mismatch(f"{self.coll}: elements of {a.kind} on rank {rank}, but of {self.kind} before")
            self.kind = a.kind
            if self.lists[0] is not None:
                if a.size < self._need(rank, out):
                    raise Mismatch(f"{self.coll}: {a.size} elements on rank {rank}, but its counts need "
                                   f"{self._need(rank, out)}")
                continue
            whole = a.size * self.comm.size if parts == 1 and max(self.ins, self.outs) > 1 else a.size
            if (self.nelem or whole) != whole and a.size or whole % self.comm.size and self.coll in (
                    "reduce_scatter", "scatter", "alltoall"):
                raise Mismatch(f"{self.coll}: {a.size} elements {'received' if out else 'sent'} on rank {rank} do "
                               f"not fit {self.nelem or self.comm.size} of {self.comm.size} ranks")
            self.nelem = whole


def _elements(values: Any, kind: str) -> bytes:
    """Numbers as elements of a type."""
    if kind == "bf16":
        bits = np.asarray(values, np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16).tobytes()
    name = {"f": "f", "i": "i", "u": "u"}[kind[0]] + str(DTYPE_SIZES[DTYPES[kind]])
    if kind.startswith("f8"):
        raise Invalid(f"premulsum: no factors of type {kind} here")
    return np.asarray(values).astype(np.dtype(name)).tobytes()


class Graph:
    """Operations of all ranks, recorded once by Comm.graph(), run often."""

    def __init__(self, comm: Comm) -> None:
        if comm.rank is not None:
            raise Invalid("a graph is of a handle for all ranks")
        self.comm, self._keep, self._graph = comm, [], _U64()  # type: Comm, List[Any], Any
        self._list = lib().gpusim_ops_new(comm.size)

    def __enter__(self) -> "Graph":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            check(lib().gpusim_graph_create(self.comm._p(), self._list, C.byref(self._graph)))

    def kernel(self, rank: int, name: str, stream: int = 0, **args: Any) -> None:
        """Launch a kernel on a rank. An argument (value, step) grows by step with each iteration."""
        self._keep.append(args)
        lib().gpusim_ops_launch(self._list, self.comm._check_rank(rank), stream, name.encode(), *arguments(args))

    def copy(self, rank: int, dst: Array, src: Array, stream: int = 0) -> None:
        """Copy an array to another of the same rank's device."""
        self._keep.append((dst, src))
        lib().gpusim_ops_copy(self._list, self.comm._check_rank(rank), stream, dst.addr, src.addr, src.nbytes)

    def record(self, rank: int, event: int, stream: int = 0) -> None:
        """Record an event on a rank's stream."""
        lib().gpusim_ops_record(self._list, self.comm._check_rank(rank), stream, event)

    def wait(self, rank: int, event: int, stream: int = 0) -> None:
        """Make a rank's stream wait for an event."""
        lib().gpusim_ops_wait(self._list, self.comm._check_rank(rank), stream, event)

    def all_reduce(self, arrays: Sequence[Array], op: str = "sum", stream: int = 0) -> None:
        """The reduction of all ranks' arrays, in place."""
        a = self.comm._by_rank(arrays)
        self._add("allreduce", a[0].size, a[0].kind, [x.addr for x in a], [x.addr for x in a], op=op, stream=stream)

    def _add(self, coll: str, nelem: int, kind: str, send: List[int], recv: List[int], op: str = "sum", root: int = 0,
             rank: Optional[int] = 0, stream: int = 0) -> None:
        v = _vector(send), _vector(recv)
        self._keep.append(v)
        c = _lib.Collective(_SIZE, COLLS[coll], DTYPES[kind], REDOPS[op], None, nelem, root, rank or 0,
                            C.cast(v[0], C.c_void_p), C.cast(v[1], C.c_void_p), stream)
        lib().gpusim_ops_collective(self._list, c)

    def launch(self, iterations: int = 1, first: int = 0) -> None:
        """Run it, iterations first to first + iterations - 1, and wait for the end."""
        _lib.interruptible(lib().gpusim_graph_launch, self.comm._p(), self._graph, first, iterations, 1, None)

    def destroy(self) -> None:
        """Forget it at the coordinator."""
        check(lib().gpusim_graph_destroy(self.comm._p(), self._graph))

    def __del__(self) -> None:
        if getattr(self, "_list", None) and not _lib.is_forked():
            lib().gpusim_ops_free(self._list)


def _config(machine: Machine, on_failure: Optional[str] = None, op_timeout: Optional[float] = None,
            wait: float = 0.0, queues: Union[bool, str] = "auto", grid: str = "") -> Any:
    policy = C.c_int()
    if on_failure:
        check(lib().gpusim_on_failure_parse(on_failure.encode(), C.byref(policy)))
    limit = 0 if op_timeout is None else 0xFFFFFFFF if math.isinf(op_timeout) else max(1, int(op_timeout * 1000))
    queues = {True: "on", False: "off"}.get(queues, queues)  # type: ignore[call-overload]
    return _lib.CommConfig(C.sizeof(_lib.CommConfig), 1, policy, limit, int(wait * 1000), _QUEUES[str(queues)],
                           grid.encode())


def init_all(machine: Machine, n: Optional[int], devices: Optional[Sequence[Device]], **config: Any) -> Comm:
    """Machine.comm()."""
    if n is None:
        n = len(devices if devices is not None else machine.devices)
    if devices is not None and len(devices) != n:
        raise Invalid(f"{len(devices)} devices for {n} ranks")
    out = C.c_void_p()
    ids = _vector([d.id for d in devices] if devices else None)
    _lib.interruptible(lib().gpusim_comm_init_all, machine._g(), n, ids,
                       C.byref(_config(machine, **config)), C.byref(out))
    return Comm(machine, out.value or 0)


def init_rank(machine: Machine, nranks: int, unique_id: str, rank: int, device: Optional[Device], new: bool = False,
              **config: Any) -> Comm:
    """Machine.comm_init_rank(), comm_grow()."""
    if len(unique_id) != 32:
        raise Invalid(f"unique id {unique_id!r}: not 32 hexadecimal digits")
    out = C.c_void_p()
    f = lib().gpusim_comm_grow_new if new else lib().gpusim_comm_init_rank
    _lib.interruptible(f, machine._g(), nranks, _lib.UniqueId(unique_id.encode()), rank,
                       device.id if device else 0, C.byref(_config(machine, **config)), C.byref(out))
    return Comm(machine, out.value or 0)
