"""Sends and receives of gpusim.torch, with tags and from any source.

Design notes. The data go by gpusim_send and gpusim_recv, which match in order for each ordered pair. Tags and any
source need to know what comes next: a sender then writes an announcement (sequence, tag, type, elements) into its ring
in the receiver's device memory, which every process of the host maps, and rings the receiver's bell, a futex. The
receiver matches announcements in the order of its receives, as MPI does; messages that were sent before a matched one
are taken into blocks of their own and wait there. Receives go on while this process waits for anything of gpusim; a
thread goes on with announcements for which a ring had no room. A send copies its tensor and is then complete; close()
waits until its peers have taken all, and tells them that this rank has left; its block is used again when all others
have said so. Announcements carry a checksum, since they are read while they are written. One lock guards a mailbox.
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
from ._lib import Aborted, Error, Invalid, Mismatch, Timeout
from ._torch_work import Operation

_ENTRY = struct.Struct("<QqQI")  # sequence from 1, tag, elements, type; and then a CRC-32
_BYTES, _SLOTS = 32, 64
_RING = 64 + _BYTES * _SLOTS     # words: how many the receiver has taken; whether the sender has left the group
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
            self._message is not None and self._group._comm.done(self._message.mark, self._box.stream) or \
            bool(self._left())

    def _left(self) -> str:
        return self._box.left(None if self._any else self._source)

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
            bell, left = box.bell.value, self._left()
            for each in [box, *group._world.posting]:
                each.match()
            if self._message is not None:
                return
            e = group._failure or group._comm.error()
            if e is not None:
                raise e
            if left:  # before match() saw no message
                e = Aborted(f"rank {group._rank}: recv: {left} has left the group without a message of tag {self._tag}")
                e.rank = None if self._any else self._source
                raise e
            if time.monotonic() >= end:
                source = "no rank" if self._any else f"not rank {self._source}"
                raise Timeout(f"rank {group._rank}: recv: timeout after {limit:g} s: {source} has sent a message of "
                              f"tag {self._tag}")
            _sleep(box.bell_at, bell, min(0.1, max(end - time.monotonic(), 0.001)))


class Mailbox:
    """Of one group in this process: rings for announcements to this rank, and the way to those of the others."""

    def __init__(self, group: Any) -> None:
        self.group, self._world, self._comm = weakref.proxy(group), group._world, group._comm
        self._size, self._rank, self._lock = group._size, group._rank, threading.RLock()
        for old in [old for old in self._world.left if old.left(None)]:
            self._world.left.remove(old)
            self._world.give([old._block])
        self._block = self._world.take(64 + _RING * self._size)
        C.memset(self._block.ptr, 0, 64 + _RING * self._size)
        self.bell_at, self.bell = self._block.ptr, C.c_uint32.from_address(self._block.ptr)
        self.sequence = C.c_uint64.from_address(self._block.ptr + 8)  # of this rank's latest collective
        self.addr, self._boxes = self._block.addr, []  # type: int, List[int]
        self._stream: Optional[int] = None
        self._streams: Dict[int, int] = {}  # of sends, by peer
        self._sent: List[Tuple[int, int, Any]] = []  # stream, mark, block
        self._untold: List[Tuple[int, int, int, int]] = []  # peer, tag, elements, type: not announced yet
        self._told, self._taken = [0] * self._size, [0] * self._size
        self._arrived: List[List[_Announced]] = [[] for _ in range(self._size)]
        self._posted: List[_Recv] = []

    @property
    def stream(self) -> int:
        """The stream on which this rank receives."""
        if self._stream is None:
            self._stream = self._world.stream()
        return self._stream

    def meet(self, addrs: List[int]) -> None:
        """Addresses of the mailboxes by rank, each on its rank's device."""
        self._boxes = [addr - d.min_addr + d.base for addr, d in zip(addrs, self._comm.devices)]

    def behind(self, number: int) -> List[int]:
        """The ranks that have not yet called the collective with a number."""
        return [r for r, at in enumerate(self._boxes) if C.c_uint64.from_address(at + 8).value < number]

    def left(self, peer: Optional[int]) -> str:
        """Names a peer that has left the group, or (None) all of them if all have; "" else."""
        peers = [r for r in range(self._size) if r != self._rank] if peer is None else [peer]
        words = [C.c_uint64.from_address(self._block.ptr + 72 + _RING * r).value for r in peers]
        return "" if not all(words) else "every other rank" if peer is None else f"rank {peer}"

    # Sending

    def send(self, group: Any, t: torch.Tensor, dst: int, tag: int) -> Operation:
        """Send a tensor; complete, as far as the tensor goes, when it returns."""
        work = _Send(group, "send", [self._checked("send to", t, dst)], [t])
        with self._lock:
            if dst not in self._streams:
                self._streams[dst] = self._world.stream()
            self._let_go(_SENT)
            block, (code, each) = self._world.take(t.numel() * t.element_size()), group._moved(t)
            block.load(t)
            try:
                mark = group._comm.call(_SEND, block.addr, 0, t.numel() * each, code, 0, dst, self._streams[dst])
            except Error as e:
                raise group._fail(e) from None
            self._sent.append((self._streams[dst], mark, block))
            self._untold.append((dst, tag, t.numel(), _NUMBERS[t.dtype]))
            self._tell()
        return work._go()

    def _tell(self) -> None:
        """Announce what was sent, as far as the receivers have room."""
        for each in list(self._untold):
            dst, tag, nelem, number = each
            at, told = self._boxes[dst], self._told[dst]
            ring = at + 64 + _RING * self._rank
            if told - C.c_uint64.from_address(ring).value < _SLOTS:
                entry = _ENTRY.pack(told + 1, tag, nelem, number)
                entry += struct.pack("<I", zlib.crc32(entry))
                C.memmove(ring + 64 + told % _SLOTS * _BYTES, entry, _BYTES)
                self._told[dst] += 1
                self._untold.remove(each)
                bell = (self._rank << 20 | told & 0xfffff) + 1 & 0xffffffff  # never what another has written
                C.c_uint32.from_address(at).value = bell
                _wake(at)
        if self._untold:
            self._world.posting.add(self)
            self._world.push()

    def _checked(self, what: str, t: torch.Tensor, peer: Optional[int]) -> torch.Tensor:
        if peer is not None and (not 0 <= peer < self._size or peer == self._rank):
            raise Invalid(f"rank {self._rank}: {what} rank {peer}: it must be another of {self._size}")
        if t.dtype not in _NUMBERS:
            raise Invalid(f"rank {self._rank}: {what} a rank: {t.dtype} is not supported")
        return t

    def _let_go(self, most: int, seconds: float = 1800.0) -> None:
        """Give back the blocks of sends that were received, until at most so many bytes are left."""
        end = time.monotonic() + seconds
        while self._sent:
            done = [s for s in self._sent if self._comm.done(s[1], s[0])]
            self._world.give([block for _, _, block in done])
            self._sent = [s for s in self._sent if s not in done]
            if sum(block.nbytes for _, _, block in self._sent) <= most:
                return
            if self._comm.error() is not None or time.monotonic() >= end:
                raise self._comm.error() or Timeout(f"rank {self._rank}: what it has sent was not received")
            for box in [self, *self._world.posting]:
                box.match()
            time.sleep(0.0005)

    # Receiving

    def recv(self, group: Any, t: torch.Tensor, src: Optional[int], tag: int) -> Operation:
        """Receive into a tensor, from a rank or (None) from any."""
        work = _Recv(group, self, self._checked("recv from", t, src), src, tag)
        with self._lock:
            self._posted.append(work)
            self._world.posting.add(self)
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
        """Begin every posted receive whose message was announced; announce what could not be."""
        with self._lock:
            self._tell()
            for src in range(self._size):
                self._look(src)
            try:
                for work in list(self._posted):
                    for src in range(self._size) if work._any else (work._source,):
                        v = self._arrived[src]
                        i = next((i for i, m in enumerate(v) if m.tag == work._tag), None)
                        if i is not None:
                            self._begin(work, src, i)
                            break
            except Error as e:
                self.group._fail(e)
            if not self._posted and not self._untold:
                self._world.posting.discard(self)

    def _begin(self, work: _Recv, src: int, i: int) -> None:
        for m in self._arrived[src][:i + 1]:
            if m.mark:
                continue  # it was received before, as one that came before a matched one
            t = torch.empty(0, dtype=_TYPES[m.number])
            code, each = self.group._moved(t)
            m.block = self._world.take(m.nelem * t.element_size())
            m.mark = self._comm.call(_RECV, 0, m.block.addr, m.nelem * each, code, 0, src, self.stream)
        work._source, work._message = src, self._arrived[src].pop(i)
        self._posted.remove(work)

    def push(self) -> bool:
        """Go on with announcements; whether some are left."""
        if self._untold and self._comm.error() is not None:
            self._untold = []
        elif self._untold:
            self.match()
        return bool(self._untold)

    # The end

    def close(self) -> None:
        """Wait until all that was sent is received, then release everything."""
        try:
            self._let_go(0, 60.0)
        except Timeout as e:
            print(f"gpusim: {e}", file=sys.stderr)
        except Error:
            pass  # a rank is lost, or the communicator
        self._world.posting.discard(self)
        self._world.give([block for _, _, block in self._sent])
        with self._lock:
            for r, at in enumerate(self._boxes):
                if r != self._rank and not self.left(r) and self._comm.error() is None:
                    C.c_uint64.from_address(at + 72 + _RING * self._rank).value = 1
                    bell = C.c_uint32.from_address(at)
                    bell.value = bell.value + 1 & 0xffffffff
                    _wake(at)
        if self._boxes and self._comm.error() is None:
            self._world.left.append(self)
        else:
            self._world.give([self._block])
        for stream in [*self._streams.values(), *([] if self._stream is None else [self._stream])]:
            self._world.give_stream(stream)
