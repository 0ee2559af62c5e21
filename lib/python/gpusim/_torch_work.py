"""What torch.py and _torch_p2p.py share: staging blocks, and operations that somebody may wait for."""
from __future__ import annotations

import ctypes as C
import threading
from datetime import timedelta
from typing import Any, List, Optional, Sequence

import torch

from . import _torch_compat as compat
from ._lib import Error, Mismatch, Timeout
from .machine import Memory

Tensors = Sequence[torch.Tensor]


class Block:
    """Device memory for staging."""
    __slots__ = ("memory", "addr", "ptr", "nbytes", "_bytes")

    def __init__(self, memory: Memory) -> None:
        self.memory, self.addr, self.ptr, self.nbytes = memory, memory.addr, memory.ptr, memory.nbytes
        self._bytes: Any = None

    def view(self, dtype: torch.dtype, nelem: int, at: int = 0) -> torch.Tensor:
        """Its bytes from `at` as a tensor."""
        if not nelem:
            return torch.empty(0, dtype=dtype)
        if self._bytes is None:
            self._bytes = (C.c_char * self.nbytes).from_address(self.ptr)
        return torch.frombuffer(self._bytes, dtype=dtype, count=nelem, offset=at)

    def load(self, t: torch.Tensor, at: int = 0) -> None:
        """Copy a tensor in."""
        if t.is_contiguous():
            C.memmove(self.ptr + at, t.data_ptr(), t.numel() * t.element_size())
        else:
            self.view(t.dtype, t.numel(), at).view(t.shape).copy_(t.detach())

    def store(self, t: torch.Tensor, at: int = 0) -> None:
        """Copy a tensor out."""
        if t.is_contiguous():
            C.memmove(t.data_ptr(), self.ptr + at, t.numel() * t.element_size())
        else:
            t.detach().copy_(self.view(t.dtype, t.numel(), at).view(t.shape))


class Operation(compat.Work):
    """An operation of a group. The thread that waits completes it; for futures and profilers another thread does. Its
    lock guards the completion."""

    def __init__(self, group: Any, title: str, result: List[Any], inputs: Tensors) -> None:
        super().__init__()
        self._group, self._title, self._result = group, title, result
        self._over = False
        self._failure: Optional[BaseException] = None
        self._lock = threading.Lock()
        self._future: Any = None  # of get_future()
        self._ends = compat.profiled(f"{group._name}:{title}", inputs)  # futures that the serving thread sets
        self._served: Optional[threading.Event] = None

    # Of each kind

    def _complete(self, limit: float) -> None:
        """Wait for its end, at most so many seconds, and bring the results where they belong."""
        raise NotImplementedError

    def _ready(self) -> bool:
        """Whether _complete() will not wait."""
        raise NotImplementedError

    def _soon(self) -> bool:
        """The same, in a moment: another thread takes longer."""
        return self._ready()

    def _release(self, failed: bool) -> None:
        """Give back what it has used."""

    def _late(self, limit: float, e: Timeout) -> Error:
        """The failure when it has not ended within the limit."""
        return e

    def _serve(self) -> None:
        """Have a thread call _run()."""
        threading.Thread(target=self._run, daemon=True).start()

    # Of all

    def _go(self) -> "Operation":
        if self._ends:
            self._begin_serving()
        return self

    def _begin_serving(self) -> None:
        if self._served is None:
            self._served = threading.Event()
            self._serve()

    def _finish(self, limit: float) -> None:
        if not self._lock.acquire(timeout=min(limit, threading.TIMEOUT_MAX)):
            raise Timeout(f"rank {self._group._rank}: {self._title}: timeout after {limit:g} s")
        try:
            if self._over:
                return
            try:
                self._complete(limit)
            except Timeout as e:
                self._failure = self._late(limit, e)
            except Mismatch as e:
                self._failure = e if self._group._failure is None else self._group._failure
            except Error as e:
                self._failure = self._group._fail(e)
            self._over = True
            self._release(self._failure is not None)
        finally:
            self._lock.release()

    def _run(self) -> None:
        try:
            self._finish(self._group._timeout)
        except Exception as e:  # pylint: disable=broad-except
            self._failure = self._failure or e
        for future in self._ends:
            future.set_result(None)
        self._served.set()

    # torch's calls

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Until it has ended; raises its failure. timeout: at most so long."""
        limit = compat.seconds(timeout, 0.0) or self._group._timeout
        if self._ends and self._served.wait(limit):
            pass  # a profiler's event ends on the other thread
        elif not self._over:
            self._finish(limit)
        if self._failure is not None:
            raise self._failure
        return True

    def is_completed(self) -> bool:
        """Without waiting."""
        if not self._over and self._served is None and self._ready():
            self._finish(self._group._timeout)
        return self._over

    def is_success(self) -> bool:
        return self._over and self._failure is None

    def exception(self) -> Optional[BaseException]:
        return self._failure

    def result(self) -> List[Any]:
        return self._result

    def synchronize(self) -> None:
        self.wait()

    def source_rank(self) -> int:
        return getattr(self, "_source", -1)

    _source_rank = source_rank

    def get_future(self) -> "torch.futures.Future[List[Any]]":
        """Its results, or its failure."""
        if self._future is None:
            base: "torch.futures.Future[None]" = torch.futures.Future()
            self._future = base.then(self._value)
            if self._served is None and self._soon():
                self._finish(self._group._timeout)
            if self._served is None and not self._over:
                self._ends.append(base)
                self._begin_serving()
            else:
                self._served and self._served.wait()
                base.set_result(None)
        return self._future

    def _value(self, _: Any) -> List[Any]:
        if self._failure is not None:
            raise self._failure
        return self._result
