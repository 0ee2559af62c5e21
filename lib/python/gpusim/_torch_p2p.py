"""Sends and receives of gpusim.torch, with tags and from any source.

Design notes. The data go by gpusim_send and gpusim_recv, which match in order for each ordered pair. Tags and any
source need to know what comes next: a sender then writes an announcement (sequence, tag, type, elements) into its ring
in the receiver's device memory, which every process of the host maps, and rings the receiver's bell, a futex. The
receiver matches announcements in the order of its receives, as MPI does; messages that were sent before a matched one
are taken into blocks of their own and wait there. Receives go on while this process waits for anything of gpusim. A
send copies its tensor and is then complete; close() waits until its peers have taken all. Announcements carry a
checksum, since they are read while they are written. One lock guards a mailbox.
"""
from __future__ import annotations

import ctypes as C
import platform
import struct
import sys
import threading
import time
import weakref
import zlib
from typing import Any, Dict, List, Optional, Tuple

import torch

from . import _lib
from ._lib import Error, Invalid, Mismatch, Timeout
from ._torch_work import Operation

_ENTRY = struct.Struct("<QqQI")  # sequence from 1, tag, elements, type; and then a CRC-32
_BYTES, _SLOTS = 32, 64
_RING = 64 + _BYTES * _SLOTS     # the first word: how many the receiver has taken
_SEND, _RECV = _lib.COLLS["send"], _lib.COLLS["recv"]
_SENT = 256 << 20                # bytes of sends that nobody has received, before the next one waits
_TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
          torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128]
_NUMBERS = {t: i for i, t in enumerate(_TYPES)}
_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}.get(platform.machine())
_libc = C.CDLL(None, use_errno=True)


class _Timespec(C.Structure):
    _fields_ = [("sec", C.c_long), ("nsec", C.c_long)]


def _sleep(word: int, value: int, seconds: float) -> None:
    """Until the word at an address is no longer value, at most so long."""
    if _FUTEX is None:
        time.sleep(min(seconds, 0.0005))
        return
    t = _Timespec(int(seconds), int(seconds % 1 * 1e9))
    _libc.syscall(C.c_long(_FUTEX), C.c_void_p(word), C.c_int(0), C.c_uint32(value), C.byref(t), None, C.c_int(0))


def _wake(word: int) -> None:
    if _FUTEX is not None:
        _libc.syscall(C.c_long(_FUTEX), C.c_void_p(word), C.c_int(1), C.c_int(2**31 - 1), None, None, C.c_int(0))


class _Send(Operation):
    """A send; complete, as its tensor was copied."""

    def _complete(self, limit: float) -> None:
        pass

    def _ready(self) -> bool:
        return True


class _Announced:
    """A message that has been announced: where it is, once it is received."""
    __slots__ = ("tag", "nelem", "number", "block", "mark")

    def __init__(self, tag: int, nelem: int, number: int) -> None:
        self.tag, self.nelem, self.number = tag, nelem, number
        self.block: Any = None
        self.mark = 0


class _Recv(Operation):
    """A receive; matched when it has a message."""

    def __init__(self, group: Any, box: "Mailbox", t: torch.Tensor, src: Optional[int], tag: int) -> None:
        super().__init__(group, "recv" if src is not None else "recvAnySource", [t], [t])
        self._box, self._tensor = box, t
        self._source, self._any, self._tag = -1 if src is None else src, src is None, tag
        self._message: Optional[_Announced] = None

    def _ready(self) -> bool:
        self._box.match()
        return self._group._failure is not None or self._group._comm.error() is not None or \
            self._message is not None and self._group._passed(self._message.mark, self._box.stream)

    def _complete(self, limit: float) -> None:
        try:
            self._find(time.monotonic() + limit, limit)
        except Error:
            self._box.forget(self)
            raise
        m, t = self._message, self._tensor
        self._group._await(m.mark, self._box.stream, limit)
        if m.nelem != t.numel() or _TYPES[m.number] is not t.dtype:
            raise Mismatch(f"rank {self._source} sends {m.nelem} {str(_TYPES[m.number])[6:]}, rank {self._group._rank} "
                           f"receives {t.numel()} {str(t.dtype)[6:]} (tag {m.tag})")
        m.block.store(t)
        self._group._world.give([m.block])

    def _find(self, end: float, limit: float) -> None:
        """Wait for the message."""
        box, group = self._box, self._group
        while True:
            bell = box.bell.value
            for each in [box, *group._world.posting]:
                each.match()
            if self._message is not None:
                return
            e = group._failure or group._comm.error()
            if e is not None:
                raise e
            if time.monotonic() >= end:
                source = "no rank" if self._any else f"not rank {self._source}"
                raise Timeout(f"rank {group._rank}: recv: timeout after {limit:g} s: {source} has sent a message of "
                              f"tag {self._tag}")
            _sleep(box.bell_at, bell, min(0.1, max(end - time.monotonic(), 0.001)))


class Mailbox:
    """Of one group in this process: rings for announcements to this rank, and the way to those of the others."""

    def __init__(self, group: Any) -> None:
        world = group._world
        self.group, self._size, self._rank = weakref.proxy(group), group._size, group._rank
        self._lock = threading.RLock()
        self._block = world.take(64 + _RING * self._size)
        C.memset(self._block.ptr, 0, 64 + _RING * self._size)
        self.bell_at, self.bell = self._block.ptr, C.c_uint32.from_address(self._block.ptr)
        self._taken = [0] * self._size
        self._arrived: List[List[_Announced]] = [[] for _ in range(self._size)]
        self._posted: List[_Recv] = []
        self._to: Dict[int, Tuple[int, int, Any]] = {}  # by peer: its ring for us, its bell, our stream to it
        self._told = [0] * self._size
        self._sent: List[Tuple[int, int, Any]] = []  # stream, mark, block
        self._stream: Optional[int] = None
        self.addr, self._boxes = self._block.addr, []  # type: int, List[int]
        self.sequence = C.c_uint64.from_address(self._block.ptr + 8)  # of this rank's latest collective

    @property
    def stream(self) -> int:
        """The stream on which this rank receives."""
        if self._stream is None:
            self._stream = self.group._world.stream()
        return self._stream

    def meet(self, addrs: List[int]) -> None:
        """Addresses of the mailboxes by rank, each on its rank's device."""
        self._boxes = [addr - d.min_addr + d.base for addr, d in zip(addrs, self.group._comm.devices)]

    def behind(self, number: int) -> List[int]:
        """The ranks that have not yet called the collective with a number."""
        return [r for r, at in enumerate(self._boxes) if C.c_uint64.from_address(at + 8).value < number]

    # Sending

    def _peer(self, dst: int) -> Tuple[int, int, int]:
        if dst not in self._to:
            at = self._boxes[dst]
            self._to[dst] = at + 64 + _RING * self._rank, at, self.group._world.stream()
        return self._to[dst]

    def send(self, group: Any, t: torch.Tensor, dst: int, tag: int) -> Operation:
        """Send a tensor; complete, as far as the tensor goes, when it returns."""
        if not 0 <= dst < self._size or dst == self._rank:
            raise Invalid(f"rank {self._rank}: send to rank {dst}: it must be another of {self._size}")
        if t.dtype not in _NUMBERS:
            raise Invalid(f"rank {self._rank}: send of {t.dtype} is not supported")
        work = _Send(group, "send", [t], [t])
        with self._lock:
            ring, bell, stream = self._peer(dst)
            self._let_go(_SENT)
            block = group._world.take(t.numel() * t.element_size())
            block.load(t)
            self._room(ring, dst)
            code, each = group._moved(t)
            try:
                mark = group._comm.call(_SEND, block.addr, 0, t.numel() * each, code, 0, dst, stream=stream)
            except Error as e:
                raise group._fail(e) from None
            self._sent.append((stream, mark, block))
            self._told[dst] += 1
            entry = _ENTRY.pack(self._told[dst], tag, t.numel(), _NUMBERS[t.dtype])
            C.memmove(ring + 64 + (self._told[dst] - 1) % _SLOTS * _BYTES, entry + struct.pack("<I", zlib.crc32(entry)),
                      _BYTES)
            C.c_uint32.from_address(bell).value = (self._rank << 20 | self._told[dst] & 0xfffff) + 1 & 0xffffffff
            _wake(bell)
        return work._go()

    def _room(self, ring: int, dst: int) -> None:
        """Wait until the receiver has taken enough announcements."""
        end = time.monotonic() + self.group._timeout
        while self._told[dst] - C.c_uint64.from_address(ring).value >= _SLOTS:
            self._wait_a_little(end, f"rank {dst} takes no message")

    def _wait_a_little(self, end: float, why: str) -> None:
        e = self.group._failure or self.group._comm.error()
        if e is not None:
            raise self.group._fail(e)
        if time.monotonic() >= end:
            raise Timeout(f"rank {self._rank}: send: timeout after {self.group._timeout:g} s: {why}")
        for box in [self, *self.group._world.posting]:
            box.match()
        time.sleep(0.0005)

    def _let_go(self, most: int) -> None:
        """Give back the blocks of sends that were received; at most so many bytes stay."""
        end = time.monotonic() + self.group._timeout
        while True:
            left = []
            for stream, mark, block in self._sent:
                if self.group._comm.done(mark, stream):
                    self.group._world.give([block])
                else:
                    left.append((stream, mark, block))
            self._sent = left
            if sum(b.nbytes for _, _, b in left) <= most:
                return
            self._wait_a_little(end, "what was sent is not received")

    # Receiving

    def recv(self, group: Any, t: torch.Tensor, src: Optional[int], tag: int) -> Operation:
        """Receive into a tensor, from a rank or (None) from any."""
        if src is not None and (not 0 <= src < self._size or src == self._rank):
            raise Invalid(f"rank {self._rank}: recv from rank {src}: it must be another of {self._size}")
        if t.dtype not in _NUMBERS:
            raise Invalid(f"rank {self._rank}: recv of {t.dtype} is not supported")
        work = _Recv(group, self, t, src, tag)
        with self._lock:
            self._posted.append(work)
            group._world.posting.add(self)
            self.match()
        return work._go()

    def forget(self, work: _Recv) -> None:
        """A receive that has failed before a message came."""
        with self._lock:
            if work in self._posted:
                self._posted.remove(work)

    def _look(self, src: int) -> None:
        """Take the announcements of a rank."""
        ring = self._block.ptr + 64 + _RING * src
        while True:
            entry = C.string_at(ring + 64 + self._taken[src] % _SLOTS * _BYTES, _BYTES)
            sequence, tag, nelem, number = _ENTRY.unpack_from(entry)
            if sequence != self._taken[src] + 1 or zlib.crc32(entry[:28]) != int.from_bytes(entry[28:], "little"):
                return
            self._arrived[src].append(_Announced(tag, nelem, number))
            self._taken[src] += 1
            C.c_uint64.from_address(ring).value = self._taken[src]

    def match(self) -> None:
        """Begin every posted receive whose message was announced."""
        with self._lock:
            if not self._posted:
                self.group._world.posting.discard(self)
                return
            for src in range(self._size):
                if src != self._rank:
                    self._look(src)
            for work in list(self._posted):
                for src in range(self._size) if work._any else (work._source,):
                    v = self._arrived[src]
                    i = next((i for i, m in enumerate(v) if m.tag == work._tag), None)
                    if i is not None:
                        self._begin(work, src, i)
                        break
            if not self._posted:
                self.group._world.posting.discard(self)

    def _begin(self, work: _Recv, src: int, i: int) -> None:
        for m in self._arrived[src][:i + 1]:
            if m.mark:
                continue  # it was received before, as one that came before a matched one
            t = torch.empty(0, dtype=_TYPES[m.number])
            code, each = self.group._moved(t)
            m.block = self.group._world.take(m.nelem * t.element_size())
            m.mark = self.group._comm.call(_RECV, 0, m.block.addr, m.nelem * each, code, 0, src, stream=self.stream)
        work._source, work._message = src, self._arrived[src].pop(i)
        self._posted.remove(work)

    # The end

    def close(self, comm: Any) -> None:
        """Wait until all that was sent is received, then release everything."""
        world, end = self.group._world, time.monotonic() + min(self.group._timeout, 60.0)
        world.posting.discard(self)
        try:
            for stream, mark, _ in self._sent:
                while not comm.done(mark, stream) and comm.error() is None and time.monotonic() < end:
                    for box in list(world.posting):
                        box.match()
                    time.sleep(0.0005)
                if time.monotonic() >= end:
                    print(f"gpusim: rank {self._rank}: what it has sent was not received", file=sys.stderr)
        except Error:
            pass
        world.give([b for _, _, b in self._sent])
        world.give([self._block])
        for _, _, stream in self._to.values():
            world.give_stream(stream)
        if self._stream is not None:
            world.give_stream(self._stream)
