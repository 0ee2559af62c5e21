"""The backend "gpusim" of torch.distributed: a process a rank, a simulated GPU for each, tensors of the CPU.

    import torch.distributed as dist, gpusim.torch
    dist.init_process_group("gpusim")           # the rest of the program as over gloo

`gpuctl run --torch -n 4 -- python3 train.py` starts it, and programs that say "gloo" or "nccl" use it unchanged; under
torchrun the machine is $GPUSIM_COORD. Rank r has the device whose ordinal is LOCAL_RANK, else r.

Copies: a tensor of the CPU costs one copy in and one out; a contiguous tensor made by empty() or zeros() below lies in
device memory and costs none. Types: float64, 32, 16, bfloat16, int64, 32, 8, uint8, bool (a sum is "or"), and complex
where c10d takes it; other types move, and are not reduced. All reductions, AVG too; premul_sum() below. Parts may be
uneven in all_gather, reduce_scatter and all_to_all. A send is complete when its tensor may be used again.

Errors: gpusim's exceptions, whose .rank is the group's and .device the device's; after one, every call of the group
raises it again. Ranks that call different operations are a Mismatch, a rank that has ended is a RankLost on all others
(an Aborted that names it, if it left the group first), also from backward() of DistributedDataParallel.
FullyShardedDataParallel of torch 1.13 and 2.6 refuses tensors of the CPU; with 2.6 DTensor, functional collectives and
pipeline schedules work.
GPUSIM_DETERMINISTIC=1: the same inputs give the same bits, for the same ranks.

>>> dist.init_process_group("gpusim", store=dist.HashStore(), rank=0, world_size=1)
>>> parts = [torch.empty(2)]
>>> dist.all_gather(parts, torch.tensor([1.0, 2.0]))
>>> parts
[tensor([1., 2.])]
>>> dist.destroy_process_group()
"""
from __future__ import annotations

import atexit
import ctypes as C
import math
import os
import queue
import threading
import time
import weakref
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from . import _lib, _torch_compat as compat
from ._rejoin import install, rejoin  # noqa: F401, the latter for programs
from ._lib import Error, Invalid, Mismatch, NoMemory, Timeout, lib
from ._torch_p2p import Mailbox
from ._torch_work import Block, Operation, Tensors
from .machine import Device, Machine, connect

_TYPES = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
          torch.int32: "i32", torch.int8: "i8", torch.uint8: "u8", torch.bool: "u8"}
_CODES = {dtype: _lib.DTYPES[name] for dtype, name in _TYPES.items()}
_U8 = _lib.DTYPES["u8"]
# By RedOpType: SUM AVG PRODUCT MIN MAX BAND BOR BXOR PREMUL_SUM
_NAMES = ("sum", "avg", "prod", "min", "max", "band", "bor", "bxor", "sum")
_REDOPS = tuple(_lib.REDOPS[name] for name in _NAMES)
_BOOLS = tuple(_lib.REDOPS.get(name) for name in ("max", "", "min", "min", "max", "min", "max", "bxor", ""))
_ALLREDUCE, _BROADCAST, _REDUCE, _ALLGATHER = (_lib.COLLS[c] for c in ("allreduce", "broadcast", "reduce", "allgather"))
_REDUCESCATTER, _ALLTOALL, _GATHER, _SCATTER, _BARRIER = (
    _lib.COLLS[c] for c in ("reduce_scatter", "alltoall", "gather", "scatter", "barrier"))
_PIECE = 1 << 20  # bytes of a large all-reduce that are copied and reduced while they are in the cache
_IN_STEP_MS = 20  # for which it waits for the other ranks
_PENDING = 32     # works that nobody has waited for, before the oldest are looked at


# ------------------------------------------------------------------ this process

class _World:
    """What the groups of this process share: machine, device, staging blocks, streams."""

    def __init__(self, rank: int) -> None:
        self.machine: Machine = connect()
        local = os.environ.get("LOCAL_RANK", "")
        if not local.isdigit() or os.environ.get("RANK") != str(rank):
            local = str(rank)  # a program that starts its ranks itself
        devices = self.machine.devices
        mine = [d for d in devices if d.ordinal == int(local)]
        if not mine:
            raise Invalid(f"rank {rank}: there is no device {local}: the machine has {len(devices)}; start it with -n "
                          f"{int(local) + 1}")
        self.device: Device = mine[0]
        self.pid = self.device.pid
        self.base, self.offset = self.device.base, self.device.min_addr - self.device.base
        self.limit = self.base + self.device.nbytes
        if not self.base:
            raise Invalid(f"rank {rank}: device {self.device} is not of this host: torch's tensors need its memory")
        self.blocks: Dict[int, List[Block]] = {}
        self.groups: "weakref.WeakSet[ProcessGroupGpusim]" = weakref.WeakSet()
        self.posting: set = set()  # mailboxes whose receives wait for their senders
        self.left: List[Mailbox] = []  # of former groups, into which peers may still write
        self._streams = list(range(63, 0, -1))
        self._pushing = False
        self._lock = threading.Lock()

    def take(self, nbytes: int) -> Block:
        """A block of at least nbytes."""
        size = max(4096, 1 << (nbytes - 1).bit_length()) if nbytes <= 1 << 24 else -(-nbytes >> 22) << 22
        try:
            return self.blocks[size].pop() if self.blocks.get(size) else Block(self.device.malloc(size))
        except NoMemory:
            self.blocks = {}
            for group in list(self.groups):
                group._reap(wait=True)
            self.blocks = {}
            return Block(self.device.malloc(size))

    def give(self, blocks: Sequence[Block]) -> None:
        """Blocks that no operation uses any more."""
        for b in blocks:
            self.blocks.setdefault(b.nbytes, []).append(b)

    def push(self) -> None:
        """Have a thread go on with what mailboxes have to announce: this one may never wait for anything again."""
        with self._lock:
            if not self._pushing:
                self._pushing = True
                threading.Thread(target=self._push, daemon=True).start()

    def _push(self) -> None:
        while True:
            with self._lock:
                boxes = [box for box in list(self.posting) if box._untold]
                self._pushing = bool(boxes)
            if not boxes:
                return
            for box in boxes:
                try:
                    box.push()
                except (Error, ReferenceError):  # its group has ended
                    self.posting.discard(box)
            time.sleep(0.001)

    def stream(self) -> int:
        """A stream of the device, its own while there are some."""
        with self._lock:
            return self._streams.pop() if len(self._streams) > 1 else self._streams[0]

    def give_stream(self, stream: int) -> None:
        with self._lock:
            if stream not in self._streams:
                self._streams.append(stream)

    def failure_in(self, text: str) -> Optional[Exception]:
        """The failure of a group that a text contains."""
        for group in list(self.groups):
            if group._failure is not None and str(group._failure) in text:
                return group._failure
        return None


_world: Optional[_World] = None
_world_lock = threading.Lock()


def _this(rank: int = 0) -> _World:
    global _world
    _lib.alive()
    with _world_lock:
        if _world is None:
            _world = _World(rank)
            atexit.unregister(_leave_groups)
            atexit.register(_leave_groups)  # before the machine's, which are registered earlier
            compat.backward_raises(lambda text: _world.failure_in(text) if _world else None)
        return _world


def _leave_groups() -> None:
    """At the end of the program: the other ranks get what was sent to them, and are told."""
    for group in list(_world.groups) if _world else ():
        try:
            group.close()
        except Error:
            pass  # it has failed


def named_groups() -> "List[ProcessGroupGpusim]":
    """The groups that torch has a name for: they were not destroyed."""
    return [g for g in list(_world.groups) if compat.group_name(g)] if _world else []


def empty(*size: Any, dtype: Optional[torch.dtype] = None) -> torch.Tensor:
    """A tensor in device memory, which collectives use without a copy; its memory lives as long as its storage. After
    init_process_group. NoMemory: the device has none."""
    shape = torch.Size(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
    dtype = dtype or torch.get_default_dtype()
    n = math.prod(shape)
    if _world is None:
        raise Invalid("gpusim.torch.empty: call init_process_group first: it chooses the device")
    if not n:
        return torch.empty(shape, dtype=dtype)
    memory = _this().device.malloc(n * torch.empty(0, dtype=dtype).element_size())
    held = (C.c_char * memory.nbytes).from_address(memory.ptr)
    weakref.finalize(held, memory.free)
    return torch.frombuffer(held, dtype=dtype, count=n).view(shape)


def zeros(*size: Any, dtype: Optional[torch.dtype] = None) -> torch.Tensor:
    """As empty(), of zeros."""
    return empty(*size, dtype=dtype).zero_()


# ------------------------------------------------------------------ works

class _Work(Operation):
    """A collective, or several in a row. The group keeps it until its end."""

    def __init__(self, group: "ProcessGroupGpusim", title: str, result: List[Any], inputs: Tensors = ()) -> None:
        super().__init__(group, title, result, inputs)
        self._mark, self._number = 0, group._sequence
        self._outs: List[Tuple[torch.Tensor, Block, int]] = []
        self._pieces: List[Tuple[int, int, int, int]] = []  # mark, to, from, bytes
        self._blocks: List[Block] = []
        self._check: Optional[Callable[[], None]] = None

    def stage(self, t: torch.Tensor, load: bool = True, out: bool = True) -> int:
        """The device address for a tensor: its own, or that of a copy, which is copied back at the end."""
        nbytes, world = t.numel() * t.element_size(), self._group._world
        if t.is_contiguous() and world.base <= t.data_ptr() <= world.limit - nbytes:
            return t.data_ptr() + world.offset
        block = self.block(nbytes)
        if load:
            block.load(t)
        if out:
            self.out(t, block)
        return block.addr

    def block(self, nbytes: int) -> Block:
        """A block that is the work's until its end."""
        block = self._group._world.take(nbytes)
        self._blocks.append(block)
        return block

    def out(self, t: torch.Tensor, block: Block, at: int = 0) -> None:
        """Copy a tensor out of a block at the end."""
        self._outs.append((t, block, at))

    def parts(self, each: int, ins: Tensors = (), outs: Tensors = ()) -> Block:
        """A block of a part of so many bytes for each rank, loaded with tensors; or copied out to some at the end."""
        block = self.block(each * self._group._size)
        for r, t in enumerate(ins):
            block.load(t, each * r)
        for r, t in enumerate(outs):
            self.out(t, block, each * r)
        return block

    def call(self, coll: int, send: int, recv: int, nelem: int, dtype: int, op: int = 0, root: int = 0) -> "_Work":
        """Enqueue a collective; it may be one of several."""
        try:
            self._mark = self._group._comm.call(coll, send, recv, nelem, dtype, op, root, self._group._stream)
        except Error as e:
            raise self._group._fail(e) from None
        return self

    def go(self) -> "_Work":
        """Hand it over to whoever waits."""
        self._group._pending[id(self)] = self
        self._go()
        return self

    def _complete(self, limit: float) -> None:
        stream = self._group._stream
        for mark, to, source, nbytes in self._pieces:
            self._group._await(mark, stream, limit)
            C.memmove(to, source, nbytes)
        self._group._await(self._mark, stream, limit)
        for t, block, at in self._outs:
            block.store(t, at)
        if self._check:
            self._check()

    def _release(self, failed: bool) -> None:
        if failed:
            self._group._lost_blocks += self._blocks  # a device may still write there
        else:
            self._group._world.give(self._blocks)
        self._blocks, self._outs = [], []
        self._group._pending.pop(id(self), None)

    def _late(self, limit: float, e: Timeout) -> Error:
        return self._group._late(f"{self._title} #{self._number}: timeout after {limit:g} s", self._number)

    def _ready(self) -> bool:
        return self._group._comm is None or self._group._comm.done(self._mark, self._group._stream)

    def _soon(self) -> bool:
        world = self._group._world
        return lib().gpusim_stream_wait(world.machine._g(), world.device.id, self._group._stream, self._mark, 1) == 0

    def _serve(self) -> None:
        self._group._served.put(self)


# ------------------------------------------------------------------ the group

def _complete_all(works: "queue.SimpleQueue[Optional[_Work]]") -> None:
    for work in iter(works.get, None):
        work._run()
        del work


def _same(tensors: Tensors) -> bool:
    return all(t.numel() == tensors[0].numel() for t in tensors)


class ProcessGroupGpusim(compat.ProcessGroup):
    """A group of torch.distributed, over a communicator of its own."""

    def __init__(self, store: Any, rank: int, size: int, timeout: Any = None, name: str = "gpusim") -> None:
        super().__init__(rank, size)
        self._rank, self._size, self._store, self._name = rank, size, store, name
        self._timeout = compat.seconds(timeout, 1800.0)
        self._failure: Optional[Error] = None
        self._comm: Any = None
        self._pending: Dict[int, _Work] = {}
        self._lost_blocks: List[Block] = []
        self._sequence = self._barriers = 0
        self._box: Any = None
        self._thread: Optional[threading.Thread] = None
        self._queue: "queue.SimpleQueue[Optional[_Work]]" = queue.SimpleQueue()
        self._world = _this(rank)
        self._stream = self._world.stream()
        if rank == 0:
            uid = Machine.unique_id()
            try:  # a process in the place of one that has ended here takes its id
                uid = store.compare_set("gpusim/id", "", uid)
            except (RuntimeError, NotImplementedError):
                pass
            store.set("gpusim/id", uid)  # TCPStore's compare_set wakes nobody who waits
        self._world.groups.add(self)
        self._comm = self._world.machine.comm_init_rank(size, store.get("gpusim/id").decode(), rank, self._world.device,
                                                        op_timeout=math.inf)
        self._box = Mailbox(self)
        self._box.meet([n for [n] in self._exchange([self._box.addr])])

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # pylint: disable=broad-except
            pass  # at the end of the interpreter

    def close(self) -> None:
        """Leave the group, when the peers have taken what was sent to them; as destroy_process_group does."""
        comm, self._comm = self._comm, None
        if comm is None or _lib.is_forked():
            return
        if self._thread:
            self._queue.put(None)
        if self._box:
            self._box.close()
        comm.destroy()
        for work in list(self._pending.values()):
            self._lost_blocks += work._blocks
        self._world.give(self._lost_blocks)
        self._world.give_stream(self._stream)
        self._world.groups.discard(self)
        if not len(self._world.groups):
            self._world.blocks = {}

    def getBackendName(self) -> str:
        """Never "gloo": DDP's logger, which is C++, then takes the group for one of gloo's own class."""
        return "gpusim"

    def name(self) -> str:
        return self._name

    @property
    def group_name(self) -> str:
        """For torch 2, whose own one asks a group's parts, of which this has none."""
        return compat.group_name(self)

    # Helpers

    def _fail(self, e: Error) -> Error:
        """The group's failure, with the rank's number in the program."""
        if self._failure is None:
            if e.rank is not None and e.rank < self._size and compat.global_rank(self, e.rank) != e.rank:
                told = type(e)(f"{e} (the group's rank {e.rank} is rank {compat.global_rank(self, e.rank)} of all)",
                               e.code)
                told.rank, told.device = e.rank, e.device
                e = told
            self._failure = e
        return self._failure

    def _late(self, what: str, number: int) -> Error:
        """The failure of an operation that has not ended in time, for all ranks."""
        missing = [compat.global_rank(self, r) for r in self._box.behind(number)]
        names = ", ".join(f"rank {r}" for r in missing)
        why = f"not called by {names}" if missing else "all ranks have called it"
        e = Timeout(f"rank {self._rank}: {what}: {why}")
        e.rank = missing[0] if missing else None
        e = self._fail(e)
        try:
            self._comm.abort(str(e))
        except Error:
            pass  # it has failed already
        return e

    def _bad(self, text: str) -> Invalid:
        return Invalid(f"rank {self._rank}: {text}")

    def _usable(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._comm is None:
            raise self._bad("the group was destroyed")
        if _lib.is_forked():
            _lib.alive()

    def _start(self, title: str, result: List[Any], inputs: Tensors = ()) -> _Work:
        self._usable()
        if not self._sequence:  # timelines have torch's name for what follows
            self._world.device.name_stream(self._stream, f"torch group {compat.group_name(self)}")
        self._sequence += 1
        self._box.sequence.value = self._sequence
        if len(self._pending) > _PENDING:
            self._reap()
        return _Work(self, title, result, inputs)

    def _reap(self, wait: bool = False) -> None:
        """Complete works that have ended and that nobody has waited for."""
        for work in list(self._pending.values()):
            if not wait and not work._ready():
                return
            work._finish(self._timeout)

    def _await(self, mark: int, stream: int, limit: float) -> None:
        """Until a mark has passed; receives that were posted go on meanwhile."""
        if self._comm is None:
            raise self._bad("the group was destroyed")
        posting = self._world.posting
        end = time.monotonic() + limit if posting else 0.0
        while posting and not self._comm.done(mark, stream) and time.monotonic() < end:
            for box in list(posting):
                box.match()
            lib().gpusim_stream_wait(self._world.machine._g(), self._world.device.id, stream, mark, 5)
        self._comm.wait(mark, stream, limit)

    @property
    def _served(self) -> "queue.SimpleQueue[Optional[_Work]]":
        """Works for the thread that completes them in their order."""
        if self._thread is None:
            self._thread = threading.Thread(target=_complete_all, args=(self._queue,), daemon=True)
            self._thread.start()
        return self._queue

    def _one(self, tensors: Tensors, title: str) -> torch.Tensor:
        if len(tensors) != 1:
            raise self._bad(f"{title}: a rank has one tensor, not {len(tensors)}")
        return self._cpu(tensors[0], title)

    def _cpu(self, t: torch.Tensor, title: str) -> torch.Tensor:
        if t.device.type != "cpu" or t.layout != torch.strided:
            raise self._bad(f"{title}: the tensor is {t.device.type}, {t.layout}; it must be a dense one of the CPU")
        return t

    def _list(self, tensors: Tensors, like: torch.Tensor, title: str) -> Tensors:
        if len(tensors) != self._size:
            raise self._bad(f"{title}: {len(tensors)} tensors for {self._size} ranks")
        for t in tensors:
            if self._cpu(t, title).dtype != like.dtype:
                raise self._bad(f"{title}: a tensor is {t.dtype}, another {like.dtype}")
        return tensors

    def _root(self, opts: Any, title: str) -> int:
        root = int(getattr(opts, "rootRank", 0))
        if not 0 <= root < self._size:
            raise self._bad(f"{title}: no rank {root} among {self._size}")
        return root

    def _reduction(self, t: torch.Tensor, opts: Any, title: str) -> Tuple[int, int, Optional[float]]:
        op, factor = compat.redop(opts)
        code = _CODES.get(t.dtype)
        number = _BOOLS[op] if t.dtype is torch.bool else _REDOPS[op]
        if code is None or number is None or (t.dtype.is_floating_point and 5 <= op <= 7):
            raise self._bad(f"{title}: {_NAMES[op]} of {t.dtype} is not supported")
        if op == 8 and factor is None:
            raise self._bad(f"{title}: torch does not tell the factor of this premul_sum: use "
                          "gpusim.torch.premul_sum with gpusim.torch.all_reduce")
        return code, number, factor

    @staticmethod
    def _moved(t: torch.Tensor) -> Tuple[int, int]:
        """The type of gpusim that carries a tensor's elements, and how many make one."""
        code = _CODES.get(t.dtype)
        return (code, 1) if code is not None else (_U8, t.element_size())

    # Collectives

    def broadcast(self, tensors: Tensors, opts: Any = None) -> _Work:
        t = self._one(tensors, "broadcast")
        root = self._root(opts, "broadcast")
        w = self._start("broadcast", list(tensors), tensors)
        code, each = self._moved(t)
        addr = w.stage(t, load=self._rank == root, out=self._rank != root)
        return w.call(_BROADCAST, addr if self._rank == root else 0, addr, t.numel() * each, code, 0, root).go()

    def allreduce(self, tensors: Tensors, opts: Any = None) -> _Work:
        if len(tensors) == 1 and tensors[0].is_sparse:
            return self._allreduce_sparse(tensors[0], opts)
        t = self._one(tensors, "all_reduce")
        code, op, factor = self._reduction(t, opts, "all_reduce")
        w = self._start("all_reduce", list(tensors), tensors)
        if t.numel() * t.element_size() > _PIECE and t.is_contiguous() and factor is None:
            return self._allreduce_pieces(w, t, code, op)
        addr = self._stage_factor(w, t, factor)
        return w.call(_ALLREDUCE, addr, addr, t.numel(), code, op).go()

    @staticmethod
    def _stage_factor(w: _Work, t: torch.Tensor, factor: Optional[float], out: bool = True) -> int:
        if factor is None:
            return w.stage(t, out=out)
        block = w.block(t.numel() * t.element_size())
        block.view(t.dtype, t.numel()).copy_(t.detach().reshape(-1)).mul_(factor)
        if out:
            w.out(t, block)
        return block.addr

    def _allreduce_pieces(self, w: _Work, t: torch.Tensor, code: int, op: int) -> _Work:
        """In pieces, each copied in, reduced and copied back while it is in the processor's cache, which takes half the
        time. When the other ranks are late the pieces wait for them in places of their own."""
        nbytes, wait = t.numel() * t.element_size(), lib().gpusim_stream_wait
        addr = w.stage(t, load=False)
        if not w._outs:  # it lies in device memory
            return w.call(_ALLREDUCE, addr, addr, t.numel(), code, op).go()
        w._outs, place, late = [], 0, False
        for at in range(0, nbytes, _PIECE):
            n, here = min(_PIECE, nbytes - at), t.data_ptr() + at
            C.memmove(w._blocks[0].ptr + place, here, n)
            w.call(_ALLREDUCE, addr + place, addr + place, n // t.element_size(), code, op)
            late = late or wait(self._world.machine._g(), self._world.device.id, self._stream, w._mark,
                                _IN_STEP_MS) != 0
            if late:
                w._pieces.append((w._mark, here, w._blocks[0].ptr + place, n))
                place += _PIECE
            else:
                C.memmove(here, w._blocks[0].ptr + place, n)
        return w.go()

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> _Work:
        """The tensors of one type as one vector."""
        first = self._cpu(tensors[0], "all_reduce_coalesced")
        code, op, factor = self._reduction(first, opts, "all_reduce_coalesced")
        if any(self._cpu(t, "all_reduce_coalesced").dtype != first.dtype for t in tensors):
            raise self._bad("all_reduce_coalesced: the tensors differ in type")
        w = self._start("all_reduce", list(tensors), tensors)
        total = sum(t.numel() for t in tensors)
        block, at = w.block(total * first.element_size()), 0
        for t in tensors:
            block.load(t, at)
            w.out(t, block, at)
            at += t.numel() * t.element_size()
        if factor is not None:
            block.view(first.dtype, total).mul_(factor)
        return w.call(_ALLREDUCE, block.addr, block.addr, total, code, op).go()

    def _allreduce_sparse(self, t: torch.Tensor, opts: Any) -> _Work:
        """The sum of sparse tensors: the union of their entries. Complete when the call returns."""
        if compat.redop(opts)[0] != 0:
            raise self._bad("all_reduce of a sparse tensor: only the sum is supported")
        mine = t.coalesce()
        indices, values = mine.indices(), mine.values()
        told = self._exchange([values.shape[0], *t.shape])
        for r, shape in enumerate(told):
            if shape[1:] != list(t.shape):
                raise Mismatch(f"rank {r} calls all_reduce of a sparse tensor of {shape[1:]}, rank {self._rank} of "
                               f"{list(t.shape)}")
        parts = []
        for x in (indices.t().contiguous(), values.contiguous()):
            outs = [x.new_empty((n[0], *x.shape[1:])) for n in told]
            self.allgather([outs], [x]).wait()
            parts.append(torch.cat(outs))
        total = torch.sparse_coo_tensor(parts[0].t(), parts[1], t.shape).coalesce()
        t.copy_(total)
        return self.barrier(result=[t])

    def reduce(self, tensors: Tensors, opts: Any = None) -> _Work:
        t = self._one(tensors, "reduce")
        root = self._root(opts, "reduce")
        code, op, factor = self._reduction(t, opts, "reduce")
        w = self._start("reduce", list(tensors), tensors)
        mine = self._rank == root
        addr = self._stage_factor(w, t, factor, out=mine)
        return w.call(_REDUCE, addr, addr if mine else 0, t.numel(), code, op, root).go()

    # Parts of ranks

    def _gathered(self, w: _Work, outs: Tensors, t: torch.Tensor) -> None:
        """An all-gather; unequal parts are padded to the longest, when all ranks have told their lists."""
        if not _same(outs):
            self._agree(w, [o.numel() for o in outs])
        code, each = self._moved(t)
        longest = max(o.numel() for o in outs)
        n = longest * t.element_size()
        block = w.parts(n, outs=outs)
        block.load(t, n * self._rank)
        w.call(_ALLGATHER, block.addr + n * self._rank, block.addr, longest * each * self._size, code)

    def _agree(self, w: _Work, sizes: List[int]) -> None:
        """Have the work fail if ranks have different lists of sizes."""
        told = torch.empty(self._size, len(sizes), dtype=torch.int64)
        self._gathered(w, told, torch.tensor(sizes))

        def check() -> None:
            for r, theirs in enumerate(told.tolist()):
                if theirs != sizes:
                    raise Mismatch(f"rank {r} calls {w._title} of parts {theirs}, rank {self._rank} of {sizes}")
        w._check = check

    def _exchange(self, numbers: List[int]) -> List[List[int]]:
        """Every rank's numbers, now; as many on all ranks."""
        told, w = torch.empty(self._size, len(numbers), dtype=torch.int64), _Work(self, "exchange", [])
        self._gathered(w, told, torch.tensor(numbers))
        w.go().wait()
        return told.tolist()

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> _Work:
        t = self._one(inputs, "all_gather")
        if len(outputs) != 1:
            raise self._bad(f"all_gather: a rank has one list of tensors, not {len(outputs)}")
        outs = self._list(outputs[0], t, "all_gather")
        if outs[self._rank].numel() != t.numel():
            raise self._bad(f"all_gather of {t.numel()} elements into a part of {outs[self._rank].numel()}")
        w = self._start("all_gather", list(outs), inputs)
        self._gathered(w, outs, t)
        return w.go()

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> _Work:
        """outputs[rank][i] is rank's inputs[i]."""
        if len(outputs) != self._size or any(len(o) != len(inputs) for o in outputs):
            raise self._bad(f"all_gather_coalesced: the lists do not match {len(inputs)} tensors of {self._size} ranks")
        w = self._start("all_gather", [list(o) for o in outputs], inputs)
        for i, t in enumerate(inputs):
            outs = self._list([o[i] for o in outputs], self._cpu(t, "all_gather_coalesced"), "all_gather_coalesced")
            if not _same([t, *outs]):
                raise self._bad(f"all_gather_coalesced: tensor {i} differs in size between ranks")
            self._gathered(w, outs, t)
        return w.go()

    def _allgather_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> _Work:
        return self.allgather_into_tensor_coalesced([output], [input])

    def allgather_into_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> _Work:
        """outputs[i] is all ranks' inputs[i], one after another. C++ of torch 2 calls it also for one tensor."""
        for t, o in zip(inputs, outputs):
            alike = self._cpu(o, "all_gather").dtype == self._cpu(t, "all_gather").dtype
            if not alike or o.numel() != t.numel() * self._size:
                raise self._bad(f"all_gather of {t.numel()} {t.dtype} of {self._size} ranks into {o.numel()} {o.dtype}")
        w = self._start("_all_gather_base", list(outputs), inputs)
        for t, o in zip(inputs, outputs):
            code, each = self._moved(t)
            into = w.stage(o, load=False)
            w.call(_ALLGATHER, w.stage(t, out=False), into, o.numel() * each, code)
        return w.go()

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> _Work:
        t, root = self._one(inputs, "gather"), self._root(opts, "gather")
        mine = self._rank == root
        outs = self._list(outputs[0], t, "gather") if mine and outputs else []
        if mine != bool(outs) or not _same([t, *outs]):
            raise self._bad(f"gather: the root, rank {root}, needs {self._size} tensors of {t.numel()} "
                          "elements, the others none")
        w = self._start("gather", list(outs), inputs)
        code, each = self._moved(t)
        into = w.parts(t.numel() * t.element_size(), outs=outs).addr if mine else 0
        return w.call(_GATHER, w.stage(t, out=False), into, t.numel() * each * self._size, code, 0, root).go()

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> _Work:
        o, root = self._one(outputs, "scatter"), self._root(opts, "scatter")
        mine = self._rank == root
        ins = self._list(inputs[0], o, "scatter") if mine and inputs else []
        if mine != bool(ins) or not _same([o, *ins]):
            raise self._bad(f"scatter: the root, rank {root}, needs {self._size} tensors of {o.numel()} "
                          "elements, the others none")
        w = self._start("scatter", list(outputs), ins)
        code, each = self._moved(o)
        source = w.parts(o.numel() * o.element_size(), ins).addr if mine else 0
        return w.call(_SCATTER, source, w.stage(o, load=False), o.numel() * each * self._size, code, 0, root).go()

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> _Work:
        o = self._one(outputs, "reduce_scatter")
        ins = self._list(inputs[0] if inputs else [], o, "reduce_scatter")
        code, op, factor = self._reduction(o, opts, "reduce_scatter")
        if ins[self._rank].numel() != o.numel():
            raise self._bad(f"reduce_scatter of a part of {ins[self._rank].numel()} elements into {o.numel()}")
        w = self._start("reduce_scatter", list(outputs), ins)
        if not _same(ins):
            self._agree(w, [t.numel() for t in ins])
        longest = max(t.numel() for t in ins)
        n = longest * o.element_size()
        block = w.parts(n, ins)
        if factor is not None:
            block.view(o.dtype, longest * self._size).mul_(factor)
        w.out(o, block, n * self._rank)
        return w.call(_REDUCESCATTER, block.addr, block.addr + n * self._rank, longest * self._size, code, op).go()

    def _reduce_scatter_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> _Work:
        return self.reduce_scatter_tensor_coalesced([output], [input], opts)

    def reduce_scatter_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> _Work:
        """outputs[i] is this rank's part of inputs[i], reduced. C++ of torch 2 calls it also for one tensor."""
        for t, o in zip(inputs, outputs):
            self._reduction(self._cpu(t, "reduce_scatter"), opts, "reduce_scatter")
            if self._cpu(o, "reduce_scatter").dtype != t.dtype or t.numel() != o.numel() * self._size:
                raise self._bad(f"reduce_scatter of {t.numel()} {t.dtype} to {self._size} ranks into {o.numel()} "
                                f"{o.dtype}")
        w = self._start("_reduce_scatter_base", list(outputs), inputs)
        for t, o in zip(inputs, outputs):
            code, op, factor = self._reduction(t, opts, "reduce_scatter")
            addr = self._stage_factor(w, t, factor, out=False)
            w.call(_REDUCESCATTER, addr, w.stage(o, load=False), t.numel(), code, op)
        return w.go()

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> _Work:
        ins = self._list(inputs, inputs[0], "all_to_all")
        outs = self._list(outputs, inputs[0], "all_to_all")
        w = self._start("all_to_all", list(outs), inputs)
        self._to_all_uneven(w, ins, outs)
        return w.go()

    def _to_all_uneven(self, w: _Work, ins: Tensors, outs: Tensors) -> None:
        """Parts of any sizes, which ranks tell each other first; padded to the longest."""
        sizes = self._exchange([t.numel() for t in (*ins, *outs)])
        for a, b in ((a, b) for a in range(self._size) for b in range(self._size)):
            if sizes[a][b] != sizes[b][self._size + a]:
                raise Mismatch(f"rank {a} calls all_to_all with {sizes[a][b]} elements for rank {b}, which expects "
                               f"{sizes[b][self._size + a]} from it")
        code, each = self._moved(ins[0])
        longest = max(max(row) for row in sizes)
        n = longest * ins[0].element_size()
        w.call(_ALLTOALL, w.parts(n, ins).addr, w.parts(n, outs=outs).addr, longest * each * self._size, code)

    def alltoall_base(self, output: torch.Tensor, input: torch.Tensor, output_splits: List[int],
                      input_splits: List[int], opts: Any = None) -> _Work:
        t, o = self._cpu(input, "all_to_all"), self._cpu(output, "all_to_all")
        if o.dtype != t.dtype:
            raise self._bad(f"all_to_all from {t.dtype} into {o.dtype}")
        for x, splits in ((t, input_splits), (o, output_splits)):
            rows = x.shape[0] if x.dim() else 0
            if splits and (len(splits) != self._size or sum(splits) != rows):
                raise self._bad(f"all_to_all: the splits {list(splits)} do not divide {rows} rows among "
                              f"{self._size} ranks")
            if not splits and rows % self._size:
                raise self._bad(f"all_to_all: {rows} rows do not divide among {self._size} ranks")
        w = self._start("all_to_all", [o], [t])
        if input_splits or output_splits:
            self._to_all_uneven(w, *(x.split(list(s) or x.shape[0] // self._size) if x.shape[0] else [x] * self._size
                                     for x, s in ((t, input_splits), (o, output_splits))))
            return w.go()
        code, each = self._moved(t)
        into = w.stage(o, load=False)
        return w.call(_ALLTOALL, w.stage(t, out=False), into, t.numel() * each, code).go()

    def barrier(self, opts: Any = None, result: Tensors = ()) -> _Work:
        return self._start("barrier", list(result)).call(_BARRIER, 0, 0, 0, _U8).go()

    # Sends and receives: _torch_p2p.py

    def send(self, tensors: Tensors, dst: int, tag: int = 0) -> Any:
        self._usable()
        return self._box.send(self, self._one(tensors, "send"), dst, tag)

    def recv(self, tensors: Tensors, src: int, tag: int = 0) -> Any:
        self._usable()
        return self._box.recv(self, self._one(tensors, "recv"), src, tag)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Any:
        self._usable()
        return self._box.recv(self, self._one(tensors, "recv"), None, tag)

    def _start_coalescing(self) -> None:
        """Nothing: each of a batch is queued at once."""

    def _end_coalescing(self, works: List[Any]) -> None:
        """Nothing."""

    # Others

    def _set_sequence_number_for_group(self) -> None:
        """Nothing: it counts from 1 on all ranks."""

    def _get_sequence_number_for_group(self) -> int:
        """Collectives so far; alike on all ranks, else they have gone apart."""
        return self._sequence

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """A barrier that names the ranks that do not come, by the store: it works when no other call does."""
        limit = compat.seconds(timeout, self._timeout)
        self._barriers += 1
        key, end = f"gpusim/barrier/{self._barriers}", time.monotonic() + limit
        if self._rank:
            self._store.set(f"{key}/{self._rank}", "here")
            said = self._said(f"{key}/go", end + 5.0)
            if said != "go":
                raise Timeout(f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while "
                              f"waiting for send/recv from rank 0: {said or 'it has not answered'}")
            return
        missing, late = [], False
        for r in range(1, self._size):
            late = time.monotonic() >= end and not wait_all_ranks
            if late or self._said(f"{key}/{r}", end) is None:
                missing.append(compat.global_rank(self, r))
                if not wait_all_ranks:
                    break
        names, ms = ", ".join(map(str, missing)), f"{limit * 1000:.0f} ms"
        text = f"Rank 0 timed out in monitoredBarrier after {ms}" if late else \
            f"Rank{'s' * wait_all_ranks} {names} failed to pass monitoredBarrier in {ms}"
        self._store.set(f"{key}/go", text if missing else "go")
        if missing:
            raise Timeout(text)

    def _said(self, key: str, end: float) -> Optional[str]:
        try:
            self._store.wait([key], timedelta(seconds=max(end - time.monotonic(), 0.001)))
        except RuntimeError:
            return None
        return self._store.get(key).decode()


# ------------------------------------------------------------------ what programs call

def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """dist.monitored_barrier, which torch 1.13 keeps for a backend of the name gloo: a barrier that raises a Timeout
    with the ranks that have not come within the timeout (a timedelta, or seconds; None: the group's)."""
    (group or dist.group.WORLD).monitored_barrier(timeout, wait_all_ranks)


class premul_sum:  # pylint: disable=invalid-name,too-few-public-methods
    """The reduction that multiplies a rank's tensor by factor before the sum; for all_reduce below."""

    def __init__(self, factor: float) -> None:
        self.factor = factor


def all_reduce(tensor: torch.Tensor, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """dist.all_reduce, whose op may be premul_sum(factor), too: torch 1.13 does not tell a backend its own's factor."""
    if not isinstance(op, premul_sum):
        return dist.all_reduce(tensor, op, group, async_op)
    t = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    work = (group or dist.group.WORLD).allreduce([t], SimpleNamespace(reduceOp=op))
    return work if async_op else work.wait() and None


def take_over() -> None:
    """Have programs that ask for "gloo" or "nccl" get this backend; what `gpuctl run --torch` does."""
    class ProcessGroupGloo(ProcessGroupGpusim):
        """This backend under gloo's name."""
        def __init__(self, store: Any, rank: int, size: int, timeout: Any = None) -> None:
            super().__init__(store, rank, size, timeout, "gloo")

    class ProcessGroupNCCL(ProcessGroupGpusim):
        """This backend under NCCL's name."""
        class Options:  # pylint: disable=too-few-public-methods
            """Its options, of which the timeout counts."""
            is_high_priority_stream, _timeout = False, dist.default_pg_timeout

        def __init__(self, store: Any, rank: int, size: int, options: Any = None) -> None:
            super().__init__(store, rank, size, getattr(options, "_timeout", options), "nccl")

    compat.replace(ProcessGroupGloo, ProcessGroupNCCL)


install(dist)
compat.register("gpusim", lambda store, rank, size, timeout: ProcessGroupGpusim(store, rank, size, timeout))
