"""The C library by ctypes: where it is, its calls, its failures as exceptions."""
from __future__ import annotations

import ctypes as C
import os
import re
import threading
from typing import Any, Callable, NoReturn, Optional

VERSION = "0.2.0"  # of the library that this package was made for
_SONAME = "libgpusim.so." + VERSION.rpartition(".")[0]

COLLS = {name: number for number, name in enumerate((
    "allreduce", "broadcast", "reduce", "allgather", "reduce_scatter", "alltoall", "gather", "scatter", "barrier",
    "send", "recv"))}
DTYPES = {name: number for number, name in enumerate((
    "f64", "f32", "f16", "bf16", "i8", "u8", "i32", "u32", "i64", "u64", "f8e4m3", "f8e5m2"))}
DTYPE_SIZES = (8, 4, 2, 2, 1, 1, 4, 4, 8, 8, 1, 1)
REDOPS = {name: number for number, name in enumerate((
    "sum", "prod", "min", "max", "avg", "premulsum", "band", "bor", "bxor"))}

U32, U64, PTR, INT, TEXT = C.c_uint32, C.c_uint64, C.c_void_p, C.c_int, C.c_char_p


# ------------------------------------------------------------------ failures

class Error(RuntimeError):
    """A call failed; str(e) is the library's sentence.

    code    enum gpusim_rc of gpusim.h
    rank    that the sentence names, or None
    device  16 hexadecimal digits that the sentence names, or None
    """
    code = 1
    rank: Optional[int] = None
    device: Optional[str] = None

    def __init__(self, sentence: str = "", code: Optional[int] = None) -> None:
        super().__init__(sentence)
        if code is not None:
            self.code = code
        why = sentence.rpartition(" gave up: ")[2]  # a rank that ends because of another
        found = re.search(r"rank (\d+)", why)
        self.rank = int(found.group(1)) if found else None
        found = re.search(r"device ([0-9a-f]{16})", why)
        self.device = found.group(1) if found else None

    def __reduce__(self) -> tuple:
        return type(self), (str(self), self.code), {"rank": self.rank, "device": self.device}


class Invalid(Error, ValueError):
    """An argument is wrong."""
    code = 2


class Mismatch(Invalid):
    """Ranks call different operations, or with different sizes or types."""


class Unreachable(Error, ConnectionError):
    """Nobody answers at the address, or the device has ended."""
    code = 3


class Timeout(Error, TimeoutError):
    """The deadline passed."""
    code = 4


class BadData(Error):
    """Bytes that do not parse, or fail a check."""
    code = 5


class NoMemory(Error, MemoryError):
    """Host or device memory is exhausted."""
    code = 7


class NotFound(Error, LookupError):
    """No such device, communicator, stream, kernel, graph."""
    code = 8


class Busy(Error):
    """In use, or a limit is reached; try again later."""
    code = 9


class Aborted(Error):
    """Ended early: the communicator was aborted, or has failed."""
    code = 10


class RankLost(Aborted):
    """A rank's process or device has ended; .rank and .device name it."""


class Recovered(Error):
    """A rank was lost and the communicator has recovered, but the work was not repeated: begin it again."""
    code = 11


class Forked(Error):
    """This process was forked from one that uses gpusim; it must not."""
    code = 2


_KINDS = {k.code: k for k in (Invalid, Unreachable, Timeout, BadData, NoMemory, NotFound, Busy, Aborted, Recovered)}
_LOST = r"rank \d+.*( lost|has ended|no longer answers|was killed)|device [0-9a-f]{16} has ended"
_MISMATCH = r"the ranks disagree|rank \d+ calls |ranks differ|do not match|differs? (from|in)"


def failure(sentence: str, code: int) -> Error:
    """The exception for a failed call's sentence and code."""
    kind = _KINDS.get(code, Error)
    if code not in (2, 4, 7, 11) and re.search(_LOST, sentence):
        kind = RankLost
    elif code in (1, 2, 5, 10) and re.search(_MISMATCH, sentence):
        kind = Mismatch
    return kind(sentence, code)


# ------------------------------------------------------------------ the library

class Collective(C.Structure):
    """struct gpusim_collective"""
    _fields_ = [("size", C.c_size_t), ("coll", INT), ("dtype", INT), ("redop", INT), ("algo", TEXT), ("nelem", U64),
                ("root", U32), ("rank", U32), ("send", PTR), ("recv", PTR), ("stream", U64), ("chunk_bytes", U64),
                ("scalar", PTR), ("counts", PTR), ("recv_counts", PTR), ("displs", PTR), ("recv_displs", PTR),
                ("deterministic", INT)]


class CommConfig(C.Structure):
    """struct gpusim_comm_config"""
    _fields_ = [("size", C.c_size_t), ("life", INT), ("on_failure", INT), ("op_timeout_ms", U32), ("wait_ms", U32),
                ("queues", INT), ("grid", TEXT)]


class UniqueId(C.Structure):
    """struct gpusim_unique_id, passed by value"""
    _fields_ = [("text", C.c_char * 33)]


class DeviceInfo(C.Structure):
    """struct gpusim_device_info"""
    _fields_ = [("device", U64), ("min_addr", U64), ("max_addr", U64), ("used_bytes", U64), ("comm", U64),
                ("ordinal", U32), ("pid", U32), ("lost", INT), ("spare", INT), ("join", INT)] + [
                    (name, C.c_char * 256) for name in ("address", "data_address", "mem_path", "host", "mem_private",
                                                        "lost_why", "lost_remedy")] + [
                    ("lost_at_ms", U64), ("lost_ago_ms", U64)]


class Arg(C.Structure):
    """struct gpusim_arg"""
    _fields_ = [("name", TEXT), ("is_real", INT), ("u", U64), ("f", C.c_double), ("step", U64)]


class AlgoConfig(C.Structure):
    """struct gpusim_algo_config"""
    _fields_ = [("size", C.c_size_t), ("name", TEXT), ("path", TEXT), ("life", INT), ("replace", INT)]


_OUT = C.POINTER(PTR)
_RC = {  # calls that return an enum gpusim_rc: a device, stream, event or address is a number
    "open_within": (TEXT, U32, _OUT), "devices": (PTR, _OUT, C.POINTER(C.c_size_t)),
    "malloc": (PTR, U64, U64, INT, C.POINTER(U64)), "free": (PTR, U64, U64), "map": (PTR, U64, U64, U64, _OUT),
    "memset": (PTR, U64, U64, INT, U64), "checksum": (PTR, U64, U64, U64, C.POINTER(U64)),
    "memcpy_h2d": (PTR, U64, U64, PTR, U64), "memcpy_d2h": (PTR, PTR, U64, U64, U64),
    "memcpy_d2d": (PTR, U64, U64, U64, U64, U64),
    "launch": (PTR, U64, U64, TEXT, PTR, C.c_size_t, INT),
    "event_record": (PTR, U64, U64, U64), "event_wait": (PTR, U64, U64, U64),
    "stream_sync": (PTR, U64, U64), "stream_name": (PTR, U64, U64, TEXT), "stream_wait": (PTR, U64, U64, U64, U32),
    "get_unique_id": (TEXT,), "on_failure_parse": (TEXT, C.POINTER(INT)),
    "comm_init_all": (PTR, U32, PTR, C.POINTER(CommConfig), _OUT),
    "comm_init_rank": (PTR, U32, UniqueId, U32, U64, C.POINTER(CommConfig), _OUT),
    "comm_split": (PTR, INT, INT, PTR, _OUT), "comm_shrink_rank": (PTR, PTR, C.c_size_t, INT, PTR, _OUT),
    "comm_grow_rank": (PTR, U32, PTR, PTR, _OUT), "comm_grow_new": (PTR, U32, UniqueId, U32, U64, PTR, _OUT),
    "comm_shrink": (PTR, PTR, C.c_size_t, _OUT), "comm_grow": (PTR, U32, PTR, U32, _OUT),
    "comm_split_all": (PTR, PTR, PTR, PTR, _OUT, C.POINTER(C.c_size_t)), "comm_open": (PTR, U64, _OUT),
    "comm_destroy": (PTR,), "comm_abort": (PTR, TEXT), "comm_sync": (PTR,),
    "comm_get_async_error": (PTR, C.POINTER(INT)), "collective": (PTR, C.POINTER(Collective), INT),
    "group_start": (PTR,), "group_end": (PTR, INT),
    "submit": (PTR, PTR, INT, PTR), "graph_create": (PTR, PTR, C.POINTER(U64)),
    "graph_launch": (PTR, U64, U64, U64, INT, PTR), "graph_destroy": (PTR, U64),
    "algo_add": (PTR, PTR, U64, C.POINTER(AlgoConfig), PTR), "algo_remove": (PTR, TEXT),
}
_OTHER = {
    "error": (TEXT,), "note": (TEXT,), "close": (None, PTR), "set_timeout_ms": (None, PTR, U32),
    "stream_mark": (U64, PTR, U64, U64), "comm_free": (None, PTR), "split_free": (None, PTR, C.c_size_t),
    "comm_id": (U64, PTR), "comm_count": (U32, PTR),
    "comm_epoch": (U32, PTR), "comm_is_queued": (INT, PTR), "comm_device": (U64, PTR, U32),
    "comm_user_rank": (INT, PTR),
    "ops_new": (PTR, U32), "ops_free": (None, PTR), "ops_collective": (None, PTR, C.POINTER(Collective)),
    "ops_launch": (None, PTR, U32, U64, TEXT, PTR, C.c_size_t),
    "ops_memset": (None, PTR, U32, U64, U64, INT, U64), "ops_copy": (None, PTR, U32, U64, U64, U64, U64),
    "ops_record": (None, PTR, U32, U64, U64), "ops_wait": (None, PTR, U32, U64, U64),
}

_here = os.path.dirname(os.path.abspath(__file__))
_lib: Optional[C.CDLL] = None
_lock = threading.Lock()
_forked = False


def _where(name: str) -> Optional[str]:
    try:
        from . import _where as w  # written by make install
    except ImportError:
        return None
    return getattr(w, name, None)


def load(soname: str) -> str:
    """The path of a library of gpusim's; else its bare name, for the loader to find."""
    build = os.path.dirname(os.path.dirname(_here))
    libdir = _where("LIBDIR")
    import shutil
    program = shutil.which("gpuctl")
    beside = os.path.dirname(os.path.dirname(os.path.realpath(program))) if program else None
    for folder in (os.environ.get("GPUSIM_LIBDIR"), build, os.path.join(build, "nccl", "lib"), libdir,
                   libdir and os.path.join(libdir, "gpusim", "nccl", "lib"), beside,
                   beside and os.path.join(beside, "nccl", "lib"), beside and os.path.join(beside, "lib"),
                   beside and os.path.join(beside, "lib", "gpusim", "nccl", "lib")):
        if folder and os.path.exists(os.path.join(folder, soname)):
            return os.path.join(folder, soname)
    return soname


def program(name: str) -> str:
    """The path of a program of gpusim's: of the same build or installation, else from PATH."""
    for folder in (os.path.join(os.path.dirname(os.path.dirname(_here)), "bin"), _where("BINDIR")):
        if folder and os.access(os.path.join(folder, name), os.X_OK):
            return os.path.join(folder, name)
    import shutil
    found = shutil.which(name)
    if not found:
        raise NotFound(f"{name}: not found beside the Python package, nor in PATH")
    return found


def _open() -> C.CDLL:
    path = load(_SONAME)
    try:
        dll = C.CDLL(path)
        for name, args in _RC.items():
            f = getattr(dll, "gpusim_" + name)
            f.argtypes, f.restype = args, INT
        for name, (result, *args) in _OTHER.items():
            f = getattr(dll, "gpusim_" + name)
            f.argtypes, f.restype = args, result
    except (OSError, AttributeError) as e:
        raise NotFound(f"this package is for {_SONAME}: {e}; set GPUSIM_LIBDIR to its folder") from None
    return dll


def lib() -> C.CDLL:
    """The library, loaded once. NotFound: it is not here, or has another version; Forked: see alive()."""
    global _lib
    if _forked:
        alive()
    if _lib is None:
        with _lock:
            _lib = _lib or _open()
    return _lib


def alive() -> None:
    """Raise Forked in a process that was forked after the library was loaded: its threads are not here."""
    if _forked:
        raise Forked("this process was forked from one that uses gpusim: start it with the method 'spawn', or connect "
                     "only in the children")


def is_forked() -> bool:
    """True in such a process: nothing is released there, as it belongs to the parent."""
    return _forked


def _in_child() -> None:
    global _forked
    _forked = _lib is not None


os.register_at_fork(after_in_child=_in_child)


def fail(rc: int) -> NoReturn:
    """Raise the exception of a failed call of this thread."""
    raise failure(lib().gpusim_error().decode(errors="replace"), rc)


def check(rc: int) -> None:
    """Raise the exception of a call's result, unless it is GPUSIM_OK."""
    if rc:
        fail(rc)


def interruptible(f: Callable[..., int], *args: Any) -> None:
    """Make a call that may wait, and raise its failure. Ctrl-C ends the wait; the call then ends by its timeout."""
    if threading.current_thread() is not threading.main_thread():
        check(f(*args))
        return
    ended = threading.Event()
    caught: list = []

    def run() -> None:
        try:
            check(f(*args))
        except BaseException as e:  # pylint: disable=broad-except
            caught.append(e)
        ended.set()

    threading.Thread(target=run, daemon=True).start()
    while not ended.wait(0.2):
        pass
    if caught:
        raise caught[0]
