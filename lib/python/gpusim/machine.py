"""A machine full of simulated GPUs: started here, or found; its devices and their memory."""
from __future__ import annotations

import atexit
import ctypes as C
import json
import os
import weakref
from typing import IO, TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Union

from . import _lib
from ._lib import check, lib

if TYPE_CHECKING:
    import subprocess  # which takes 10 ms to import: only functions that need it do

U64 = C.c_uint64


class _Handle:
    """struct gpusim. It is closed when neither the machine nor any memory that NumPy may see needs it."""

    def __init__(self, coordinator: Optional[str], timeout: float) -> None:
        out = C.c_void_p()
        self.value: Any = None
        self.pid = os.getpid()
        lib()
        _lib.interruptible(lib().gpusim_open_within, coordinator.encode() if coordinator else None,
                           int(timeout * 1000), C.byref(out))
        self.value = out.value

    def __del__(self) -> None:
        value, self.value = self.value, None  # the collector may end whoever uses it later
        if value and self.pid == os.getpid():
            lib().gpusim_close(value)


class Memory:
    """Bytes of a device: addr on the device, ptr in this process. Freed with its last view."""
    __slots__ = ("device", "addr", "ptr", "nbytes", "_free", "_keep", "__weakref__")

    def __init__(self, device: "Device", nbytes: int) -> None:
        addr, at = U64(), C.c_void_p()
        self._free = True
        g = device.machine._g()
        self._keep = device.machine._handle  # a view outlives the machine
        check(lib().gpusim_malloc(g, device.id, max(nbytes, 1), 1, C.byref(addr)))
        self.device, self.addr, self.nbytes, self._free = device, addr.value, nbytes, False
        check(lib().gpusim_map(g, device.id, addr, max(nbytes, 1), C.byref(at)))
        self.ptr = at.value

    @property
    def freed(self) -> bool:
        return self._free

    def free(self) -> None:
        """Free it now. Views of it stay readable until the machine is closed, but show what comes there next."""
        free, self._free = self._free, True
        handle = None if free or _lib.is_forked() else self.device.machine._handle
        if handle and handle.value:
            lib().gpusim_free(handle.value, self.device.id, self.addr)

    def __del__(self) -> None:
        try:
            self.free()
        except Exception:  # at the end of the interpreter its modules are gone; the lease frees the memory
            pass

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.ptr, False), "version": 3}


class Device:
    """A device. .id (str(d): 16 hexadecimal digits), .ordinal, .pid, .lost, .min_addr, .nbytes; .base: the host address
    at which its memory is mapped in this process."""

    def __init__(self, machine: "Machine", info: Any) -> None:
        self.machine, self.id = machine, int(info.device)
        self.ordinal, self.pid, self.lost = int(info.ordinal), int(info.pid), bool(info.lost)
        self.min_addr, self.nbytes = int(info.min_addr), int(info.max_addr - info.min_addr)
        self._base: Optional[int] = None

    def __repr__(self) -> str:
        return f"<gpusim.Device {self} (gpu {self.ordinal})>"

    def __str__(self) -> str:
        return f"{self.id:016x}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def base(self) -> int:
        if self._base is None:
            at = C.c_void_p()
            check(lib().gpusim_map(self.machine._g(), self.id, self.min_addr, 0, C.byref(at)))
            self._base = at.value or 0
        return self._base

    def malloc(self, nbytes: int) -> Memory:
        """nbytes of memory, which a view of NumPy keeps alive. NoMemory: there is no free block of this size."""
        return Memory(self, nbytes)

    def launch(self, kernel: str, stream: int = 0, wait: bool = True, **args: Any) -> None:
        """Run a kernel by name, gpusim-kernels(7). An array gives its address, an int or a float itself, a type its
        name.

        >>> with gpusim.cluster(1) as g:
        ...     x = gpusim.array(np.float32([1, 2]), g.devices[0])
        ...     g.devices[0].launch("scale", x=x, n=2, alpha=3.0)
        ...     print(x)
        [3. 6.]
        """
        check(lib().gpusim_launch(self.machine._g(), self.id, stream, kernel.encode(), *arguments(args), int(wait)))

    def memset(self, memory: Any, value: int) -> None:
        """Fill memory or an array with a byte, on stream 0."""
        check(lib().gpusim_memset(self.machine._g(), self.id, memory.addr, value, memory.nbytes))

    def checksum(self, memory: Any) -> int:
        """CRC-64/XZ of memory or an array."""
        out = U64()
        check(lib().gpusim_checksum(self.machine._g(), self.id, memory.addr, memory.nbytes, C.byref(out)))
        return out.value

    def record(self, event: int, stream: int = 0) -> None:
        """Queue an event: it is recorded when the stream reaches it."""
        check(lib().gpusim_event_record(self.machine._g(), self.id, stream, event))

    def wait(self, event: int, stream: int = 0) -> None:
        """Make a stream wait until an event is recorded."""
        check(lib().gpusim_event_wait(self.machine._g(), self.id, stream, event))

    def name_stream(self, stream: int, name: str) -> None:
        """Give this process's work on a stream a name, which timelines show; at most 31 bytes of it."""
        check(lib().gpusim_stream_name(self.machine._g(), self.id, stream, name.encode()))

    def synchronize(self, stream: int = 0) -> None:
        """Wait until a stream has ended its work. Raises the failure of the work."""
        _lib.interruptible(lib().gpusim_stream_sync, self.machine._g(), self.id, stream)


def arguments(args: Dict[str, Any]) -> tuple:
    """Arguments of a kernel by name: an array of struct gpusim_arg, and its length. (value, step): in a graph, value
    grows by step with each iteration."""
    out = (_lib.Arg * max(len(args), 1))()
    for a, (name, value) in zip(out, args.items()):
        value, step = value if isinstance(value, tuple) else (value, 0)
        if isinstance(value, str):
            if value not in _lib.DTYPES:
                raise _lib.Invalid(f"argument {name}: no type {value!r}")
            value = _lib.DTYPES[value]
        a.name, a.step = name.encode(), step
        if isinstance(value, float):
            a.is_real, a.f = 1, value
        else:
            a.u = int(getattr(value, "addr", value))
    return out, len(args)


class Machine:
    """A connection to a machine. Close it, or use it as a context manager."""

    def __init__(self, coordinator: Optional[str], timeout: float = 60.0) -> None:
        self._run: "Optional[subprocess.Popen[bytes]]" = None
        self._said: Optional[IO[bytes]] = None
        self._comms: "weakref.WeakSet[Any]" = weakref.WeakSet()
        self._handle: Optional[_Handle] = _Handle(coordinator, timeout)
        self._devices: Dict[int, Device] = {}
        self.coordinator = coordinator or os.environ.get("GPUSIM_COORD")
        self.timeout = timeout
        atexit.register(_close, weakref.ref(self))

    def _g(self) -> Any:
        if self._handle is None:
            raise _lib.Invalid("the machine is closed")
        if _lib.is_forked():
            _lib.alive()
        return self._handle.value

    def close(self) -> None:
        """Disconnect, and end the machine if cluster() has started it. Work in progress gets 2 s. Arrays stay
        readable."""
        handle = self._handle
        if _lib.is_forked() or handle is None:
            self._handle = None
            return
        lib().gpusim_set_timeout_ms(handle.value, 2000)
        for comm in list(self._comms):
            comm.close()
        self._handle = None
        run, self._run = self._run, None
        if run:
            run.communicate()  # closes its standard input, at whose end it ends
        if self._said:
            self._said.close()

    def __enter__(self) -> "Machine":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def devices(self) -> List[Device]:
        """All devices, by ordinal."""
        out, n = C.c_void_p(), C.c_size_t()
        check(lib().gpusim_devices(self._g(), C.byref(out), C.byref(n)))
        for info in (_lib.DeviceInfo * n.value).from_address(out.value) if n.value else ():
            known = self._devices.get(info.device)
            if known is None:
                self._devices[info.device] = Device(self, info)
            else:
                known.pid, known.lost = int(info.pid), bool(info.lost)
        ids = [i.device for i in (_lib.DeviceInfo * n.value).from_address(out.value)] if n.value else []
        C.CDLL(None).free(out)
        return [self._devices[i] for i in ids]

    def device(self, id: int) -> Device:
        """The device with an id, as .id. NotFound."""
        if id not in self._devices and all(d.id != id for d in self.devices):
            raise _lib.NotFound(f"device {id:016x}: no such device")
        return self._devices[id]

    @property
    def log(self) -> str:
        """What the programs of cluster() have said so far."""
        if self._said is None or self._said.closed:
            return ""
        self._said.seek(0)
        return self._said.read().decode(errors="replace")

    # Communicators

    def comm(self, n: Optional[int] = None, devices: Optional[Sequence[Device]] = None, **config: Any) -> Any:
        """A communicator of n free devices, or of these; one handle for all ranks. config: on_failure ("abort",
        "shrink", "respawn", "spare"), op_timeout and wait in seconds, grid ("dp=2,tp=2", for gpuctl topo). Busy: fewer
        than n are free."""
        from .comm import init_all
        return init_all(self, n, devices, **config)

    def comm_init_rank(self, nranks: int, unique_id: str, rank: int, device: Optional[Device] = None,
                       **config: Any) -> Any:
        """One rank's handle of a communicator, when all have called, as ncclCommInitRank. device None: the one whose
        ordinal is the rank, else the next free one. config: op_timeout in seconds (float("inf"): no limit), queues.
        Timeout names the missing ranks."""
        from .comm import init_rank
        return init_rank(self, nranks, unique_id, rank, device, **config)

    def comm_grow(self, nranks: int, unique_id: str, rank: int, device: Optional[Device] = None, **config: Any) -> Any:
        """A new rank's handle of a communicator that Comm.grow() makes; as comm_init_rank()."""
        from .comm import init_rank
        return init_rank(self, nranks, unique_id, rank, device, new=True, **config)

    @staticmethod
    def unique_id() -> str:
        """A random id with which ranks form a communicator: 32 hexadecimal digits."""
        return unique_id()

    # What happens there, by gpuctl

    def ctl(self, *args: str, stdin: Optional[bytes] = None) -> str:
        """The output of `gpuctl ARGS...` on this machine. Error: its message."""
        import subprocess
        self._g()
        env = dict(os.environ, GPUSIM_COORD=self.coordinator) if self.coordinator else None
        done = subprocess.run([_lib.program("gpuctl"), *args], env=env, input=stdin, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False, timeout=self.timeout + 60)
        if done.returncode and not (args[0] == "explain" and done.stdout):  # 1 there: something is stuck
            text = done.stderr.decode(errors="replace").strip()
            raise _lib.failure(text.replace("gpuctl: ", "", 1), done.returncode)
        return done.stdout.decode(errors="replace")

    def status(self) -> Dict[str, Any]:
        """The coordinator's state, its devices and communicators: gpuctl status --json."""
        return json.loads(self.ctl("status", "--json"))

    def status_of(self, comm: int) -> Dict[str, Any]:
        """A communicator's entry of status(). NotFound."""
        for each in self.status()["comms"]:
            if each["id"] == comm:
                return each
        raise _lib.NotFound(f"comm {comm}: no such communicator")

    def events(self) -> List[Dict[str, Any]]:
        """What has happened, newest last: gpuctl events --json."""
        return json.loads(self.ctl("events", "--json"))

    def explain(self) -> str:
        """What each communicator is doing, which rank holds it up, and how to continue."""
        return json.loads(self.ctl("explain", "--json"))["text"]

    def trace(self, path: Optional[Union[str, os.PathLike]] = None) -> List[Dict[str, Any]]:
        """The timeline of operations, as the list of Chrome's trace format; also written to a file, for
        ui.perfetto.dev."""
        text = self.ctl("trace")
        if path is not None:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        return json.loads(text)

    def inject(self, *faults: str, comm: Optional[int] = None) -> str:
        """Arm faults, as gpuctl inject: g.inject("kill rank=2 at=allreduce#50"). The machine needs
        allow_inject=True."""
        words = [w for f in faults for w in f.split()]
        return self.ctl("inject", *(["--comm", str(comm)] if comm else []), *words)

    def algo_add(self, path: Union[str, os.PathLike], name: Optional[str] = None) -> str:
        """Add an algorithm from a file, gpusim-algo(5), while this program runs; returns its name for algo=. BadData:
        it is wrong, with its first error."""
        with open(path, "rb") as f:
            text = f.read()
        config = _lib.AlgoConfig(C.sizeof(_lib.AlgoConfig), name.encode() if name else None, os.fsencode(path), 1, 0)
        out = C.create_string_buffer(256)  # struct gpusim_algo begins with its name
        check(lib().gpusim_algo_add(self._g(), text, len(text), C.byref(config), out))
        return out.value.decode()


def _close(machine: "weakref.ref[Machine]") -> None:
    m = machine()
    if m is not None:
        m.close()


def unique_id() -> str:
    """A random id with which ranks form a communicator: 32 hexadecimal digits."""
    out = C.create_string_buffer(33)
    check(lib().gpusim_get_unique_id(out))
    return out.value.decode()


def connect(coordinator: Optional[str] = None, timeout: float = 60.0) -> Machine:
    """Find a machine: at an address, $GPUSIM_COORD, or the usual place. timeout: the longest time of a call, in
    seconds. Unreachable: there is none."""
    return Machine(coordinator, timeout)


def option_words(options: Dict[str, Any]) -> List[str]:
    """Options of `gpuctl run` as words: a list repeats one, True has no value, None and False leave it out."""
    words: List[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        for each in value if isinstance(value, (list, tuple)) else [value]:
            words += [option] if each is True else [] if each in (None, False) else [option, str(each)]
    return words


def cluster(n: int, *, timeout: float = 60.0, **options: Any) -> Machine:
    """Start a machine of n devices; it ends with the with statement, at close(), or with this process.

    options: those of `gpuctl run`, with _ for -: mem="1G", latency="1ms", bandwidth="10Gb", on_failure="respawn",
    spares=1, allow_inject=True, threads=2, kernels=["my.so"], record="tape", trace="trace.json", http="127.0.0.1:8080".
    """
    import subprocess
    import tempfile
    words = [_lib.program("gpuctl"), "run", "-n", str(n), *option_words(options)]
    words += ["--", "sh", "-c", 'echo "$GPUSIM_COORD"; cat >/dev/null']
    said = tempfile.TemporaryFile()
    # A session of its own: Ctrl-C is for this program, whose end ends the machine.
    run = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, start_new_session=True)
    try:
        line = run.stdout.readline().decode().strip() if run.stdout else ""
        if line:
            machine = Machine(line, timeout)
            machine._run, machine._said = run, said
            return machine
        run.communicate()
        said.seek(0)
        text = said.read().decode(errors="replace").strip()
        raise _lib.failure(text.replace("gpuctl: ", "", 1) or "gpuctl run has ended", run.returncode or 1)
    except BaseException:
        run.kill()
        run.communicate()
        said.close()
        raise
