"""How ranks of torch.distributed meet under gpuctl run, again after a failure too.

env:// is a FileStore in the folder of the run, which needs no process; another for each generation, which is the number
of times that the ranks have met. A rank whose group has formed goes to the next generation when it calls
init_process_group again, and so does the process that is started in the place of one that has ended. A meeting is
complete when each rank has a process there that is alive.
"""
from __future__ import annotations

import fcntl
import functools
import gc
import inspect
import json
import os
import re
import sys
import time
import traceback
from datetime import timedelta
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Tuple

from . import _lib

_POLL = 0.01  # seconds between two looks
_NOBODY, _GAVE_UP = 1 << 30, 1 << 30 | 1  # no process has these numbers
_OURS = re.compile(r"(^|[:,])(gloo|nccl)($|,)")


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"  # else it only waits for its parent
    except (OSError, IndexError):
        return False


class Meeting:
    """Ranks 0 to size - 1 of a run, through a file of the run's folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     m = Meeting(os.path.join(folder, "two"), 1)
    ...     first = m.meet(0, time.monotonic() + 10)
    ...     m.over(0, first)
    ...     print(first, m.meet(0, time.monotonic() + 10))
    0 1
    """

    def __init__(self, path: str, size: int) -> None:
        self.path, self.size = path, size

    def _change(self, f: Callable[[Dict[str, Any]], Any]) -> Any:
        """The result of f, which may change the state; one process at a time."""
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            text = os.pread(fd, 1 << 24, 0)
            state = json.loads(text) if text else {"generation": 0, "here": {}, "over": {}}
            result = f(state)
            changed = json.dumps(state).encode()
            if changed != text:
                # Longer first: whoever is killed between the two leaves a text that is whole.
                os.pwrite(fd, changed.ljust(len(text)), 0)
                os.ftruncate(fd, len(changed))
            return result
        finally:
            os.close(fd)

    def meet(self, rank: int, until: float) -> int:
        """Wait until all ranks are there, at most until this time.monotonic(); returns the generation. Timeout names
        those that have not come."""
        begun = time.monotonic()
        mine = -1

        def look(state: Dict[str, Any]) -> Tuple[int, list]:
            here = state["here"]
            if mine < 0 or state["generation"] > mine:  # enter
                k = max(state["over"].get(str(rank), -1) + 1, state["generation"])
                if k > state["generation"]:
                    here.clear()
                state["generation"], here[str(rank)] = k, os.getpid()
            return state["generation"], [r for r in range(self.size) if not _is_alive(here.get(str(r), _NOBODY))]

        def leave(state: Dict[str, Any]) -> list:
            if state["here"].get(str(rank)) == os.getpid():
                state["here"][str(rank)] = _GAVE_UP
            return [r for r in missing if state["here"].get(str(r)) != _GAVE_UP] or missing

        while True:
            mine, missing = self._change(look)
            if not missing:
                return mine
            for r in missing:
                if os.path.exists(os.path.join(os.path.dirname(self.path), f"ended.{r}")):
                    raise _lib.Aborted(f"rank {rank}: rank {r} has ended successfully, and will not come")
            if time.monotonic() >= until:
                missing = self._change(leave)
                raise _lib.Timeout(f"rank {rank}: rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))} of "
                                   f"{self.size} ha{'ve' if len(missing) > 1 else 's'} not come within "
                                   f"{time.monotonic() - begun:.1f} s")
            time.sleep(_POLL)

    def over(self, rank: int, generation: int) -> None:
        """The rank's group of this generation has formed, or has failed to: it does not come to it again."""
        self._change(lambda state: state["over"].update({str(rank): generation}))


# ------------------------------------------------------------------ torch's calls

class _State:
    """Of this process."""
    take = False                                 # programs that name other backends get gpusim
    installed = False
    call: Optional[inspect.BoundArguments] = None  # the last one's arguments
    until: Optional[float] = None                # of rejoin(); None: torch's own timeout
    met: Optional[Tuple[Meeting, int, int]] = None  # with rank and generation: not over yet
    begin: Callable[..., Any]                    # torch's own init_process_group


def _is_restarted() -> bool:
    return os.environ.get("GPUSIM_RESTART") == "rank" and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"


def _path(size: int) -> Optional[str]:
    """Where the ranks of this program meet; None: not under gpuctl run, or whoever has started them has a store."""
    folder, who = os.environ.get("GPUSIM_DIR"), os.environ.get("GPUSIM_RESTART")
    if not folder or not who or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return None
    # After a start of all, nothing of the former ranks counts; a program that starts its ranks itself may do so again.
    who += {"all": "." + os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), "none": f".{os.getppid()}"}.get(who, "")
    return os.path.join(folder, f"torch.{who}.{os.environ.get('MASTER_PORT', '0')}.{size}")


def _env(otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """The handler of env://, in place of torch's."""

    def handler(url: str, timeout: timedelta = timedelta(minutes=30), **more: Any) -> Iterator[tuple]:
        from torch.distributed import FileStore
        query = dict(re.findall(r"[?&](rank|world_size)=(-?\d+)", url))
        rank, size = query.get("rank", os.environ.get("RANK")), query.get("world_size", os.environ.get("WORLD_SIZE"))
        path = _path(int(size)) if rank and size else None
        if path is None:
            yield from otherwise(url, timeout=timeout, **more)
            return
        meeting = Meeting(path, int(size))
        if _State.until is not None or _is_restarted():
            await_device(int(rank), _State.until or time.monotonic() + timeout.total_seconds())
        k = meeting.meet(int(rank), _State.until or time.monotonic() + timeout.total_seconds())
        _State.met = meeting, int(rank), k
        yield FileStore(f"{path}.{k}", -1), int(rank), int(size)
        raise RuntimeError("env:// meets once")

    return handler


def _settle() -> None:
    met, _State.met = _State.met, None
    if met:
        met[0].over(met[1], met[2])


def _substitute(given: Dict[str, Any], name: str) -> None:
    """Ranks that say gloo, nccl or nothing get gpusim, under the name of gloo, whose tensors are the CPU's."""
    backend = given.get("backend")
    if str(backend).lower() == "gpusim":
        from . import torch  # noqa: F401  registers it
    elif _OURS.search(str(backend).lower()) or (backend is None and name == "init_process_group"):
        from . import torch as ours
        ours.take_over()
        given["backend"] = "gloo"


def _barrier(dist: Any) -> Callable[..., None]:
    """The barrier of torch 1.13 by the store, after a group was made; one that fails when a rank is lost."""
    c10d = dist.distributed_c10d

    def barrier(rank: int, store: Any, timeout: timedelta) -> None:
        key, end = f"{c10d.STORE_BASED_BARRIER_PREFIX}:{c10d._group_count}", time.monotonic() + timeout.total_seconds()
        store.add(key, 1)
        while store.add(key, 0) < dist.get_world_size():
            comm = getattr(c10d._get_default_group(), "_comm", None)
            failure = comm.error() if comm else None
            if failure is not None and store.add(key, 0) < dist.get_world_size():
                raise failure  # else it came after all were here
            if time.monotonic() >= end:
                raise RuntimeError(f"Timed out initializing process group in store based barrier on rank: {rank}, for "
                                   f"key: {key} (world_size={dist.get_world_size()}, worker_count={store.add(key, 0)}, "
                                   f"timeout={timeout})")
            time.sleep(_POLL)

    return barrier


def install(dist: Any, take: bool = False) -> None:
    """Have torch.distributed's calls remember what rejoin() needs; take: and use gpusim whatever backend they name."""
    _State.take |= take
    if _State.installed:
        return
    _State.installed = True
    c10d = dist.distributed_c10d
    _State.begin, new, end = c10d.init_process_group, c10d.new_group, c10d.destroy_process_group
    handlers = sys.modules[dist.__name__ + ".rendezvous"]._rendezvous_handlers
    handlers["env"] = _env(handlers["env"])
    if len(inspect.signature(c10d._store_based_barrier).parameters) == 3:
        c10d._store_based_barrier = _barrier(dist)
    signatures = {f.__name__: inspect.signature(f) for f in (_State.begin, new)}

    @functools.wraps(_State.begin)
    def init_process_group(*args: Any, **kw: Any) -> Any:
        call = signatures["init_process_group"].bind(*args, **kw)
        if _State.take:
            _substitute(call.arguments, "init_process_group")
        _State.call = call
        try:
            return _State.begin(*call.args, **call.kwargs)
        except Exception:
            met = _State.met
            if not met or not _is_restarted() or _State.until is not None:
                raise
        finally:
            _settle()
        # The process before this one has ended when its group had just formed: the others go on to the next generation.
        _leave(dist)
        try:
            return _State.begin(*call.args, **call.kwargs)
        finally:
            _settle()

    @functools.wraps(new)
    def new_group(*args: Any, **kw: Any) -> Any:
        call = signatures["new_group"].bind(*args, **kw)
        if _State.take:
            _substitute(call.arguments, "new_group")
        return new(*call.args, **call.kwargs)

    @functools.wraps(end)
    def destroy_process_group(group: Any = None) -> None:
        backend = sys.modules.get("gpusim.torch")  # which need not have been asked for
        ours = backend.named_groups() if backend else []
        end(group)
        for each in set(ours) - set(backend.named_groups() if backend else []):
            each.close()  # a failure's traceback may keep it

    for module in (c10d, dist):
        module.init_process_group, module.new_group = init_process_group, new_group
        module.destroy_process_group = destroy_process_group


# ------------------------------------------------------------------ a device, and all of it again

def await_device(rank: int, until: float) -> None:
    """Wait until this rank's device is not lost: its process may be started again. Unreachable: it was not in time."""
    from .machine import connect
    local = os.environ.get("LOCAL_RANK", "")
    ordinal = int(local) if local.isdigit() and os.environ.get("RANK") == str(rank) else rank
    with connect() as machine:
        while True:
            mine = [d for d in machine.devices if d.ordinal == ordinal]
            if not mine or (not mine[0].lost and _is_alive(mine[0].pid)):
                return
            if time.monotonic() >= until:
                raise _lib.Unreachable(f"rank {rank}: its device {mine[0]} was lost, and was not started again in time")
            time.sleep(_POLL)


def rejoin(timeout: float = 60.0) -> None:
    """Leave the process group, which has failed, and form it again, with the arguments of init_process_group: all ranks
    call this, and a process that was started in a rank's place calls init_process_group. It waits for a rank's new
    process, and for a device's. Groups of new_group have to be made again, and DistributedDataParallel around the
    module. What the failure's frames kept is freed.

    timeout: in seconds. Timeout: names the ranks that have not come.

        while step < steps:
            try:
                step = train(model, step)
            except gpusim.RankLost as e:
                gpusim.torch.rejoin()
                step = load(model)            # the checkpoint that all have
    """
    import torch.distributed as dist
    call = _State.call
    if call is None:
        raise _lib.Invalid("rejoin: there was no init_process_group after import gpusim.torch")
    until, failure = time.monotonic() + timeout, None
    while True:
        _leave(dist)
        _State.until = until
        try:
            _State.begin(*call.args, **call.kwargs)
            return
        except _lib.Timeout as e:
            raise e from failure
        except RuntimeError as e:  # another rank was lost meanwhile
            failure = e
            if time.monotonic() >= until:
                raise
        finally:
            _State.until = None
            _settle()


def _let_go(failures: Iterable[Optional[BaseException]]) -> None:
    """Free what the frames of failures keep. The hooks of a DistributedDataParallel, which would run again for its
    parameters, go with it."""
    seen = set()
    left = [sys.exc_info()[1], *failures]
    while left:
        e = left.pop()
        if e is not None and id(e) not in seen:
            seen.add(id(e))
            traceback.clear_frames(e.__traceback__)
            left += [e.__cause__, e.__context__]
    gc.collect()


def _leave(dist: Any) -> None:
    """Leave all groups, also those that an exception's frames keep; whoever waits for this rank there is told. If the
    device has another process now, this one begins anew with it."""
    from . import torch as backend
    c10d, world = dist.distributed_c10d, backend._world
    groups = list(world.groups) if world else []
    for group in groups:
        try:
            if group._failure is None and group._comm:
                group._comm.abort(f"rank {group._comm.rank} has ended its group: it calls rejoin()")
            group.close()
        except _lib.Error:
            pass
    _let_go(group._failure for group in groups)
    if dist.is_initialized():
        dist.destroy_process_group()
    elif hasattr(c10d, "_group_count"):  # by which a group is named: a new process counts from 0
        c10d._group_count = 0
    else:  # torch 2
        c10d._world.group_count = 0
    if world is None:
        return
    now = [d for d in world.machine.devices if d == world.device]
    if not now or now[0].lost or now[0].pid != world.pid or not _is_alive(world.pid):
        backend._world = None
        world.machine.close()  # tensors of empty() keep its connection
