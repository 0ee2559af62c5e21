"""What differs between torch 1.13 and 2.x, and what torch's modules have to be told, in one place."""
from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as _c10d
from torch.distributed import distributed_c10d as c10d

ProcessGroup = _c10d.ProcessGroup  # the class whose methods C++ calls in Python; in 2.x beside Backend, still
Work = _c10d.Work
_SET = timedelta(0)


def register(name: str, create: Callable[..., Any]) -> None:
    """dist.init_process_group(name) makes its groups by create(store, rank, size, timeout)."""
    more = {"devices": ["cpu"]} if "devices" in inspect.signature(dist.Backend.register_backend).parameters else {}
    if not hasattr(dist.Backend, name.upper()):
        dist.Backend.register_backend(name, create, **more)


def redop(opts: Any) -> Tuple[int, Optional[float]]:
    """The number of the reduction of a call's options, as c10d's RedOpType has it, and premul_sum's factor."""
    op = getattr(opts, "reduceOp", dist.ReduceOp.SUM) if opts is not None else dist.ReduceOp.SUM
    factor = getattr(op, "factor", None)
    return (8, factor) if factor is not None else (int(getattr(op, "op", op)), None)


def seconds(timeout: Any, otherwise: float) -> float:
    """A timeout of c10d in seconds; negative or None: it is not set."""
    if timeout is None:
        return otherwise
    if not isinstance(timeout, timedelta):
        return float(timeout)
    return timeout.total_seconds() if timeout >= _SET else otherwise


def global_rank(group: Any, rank: int) -> int:
    """A group's rank in the default group; the same number if torch does not know it."""
    for world, ranks in _ranks_of(group).items():
        if ranks == rank:
            return int(world)
    return rank


def group_name(group: Any) -> str:
    """torch's name of a group, which it gets after it was made."""
    world = getattr(c10d, "_world", None)  # 2.x
    return (world.pg_names if world else c10d._pg_names).get(group, "")


def _ranks_of(group: Any) -> dict:
    world = getattr(c10d, "_world", None)  # 2.x
    return (world.pg_group_ranks if world else c10d._pg_group_ranks).get(group, {})


def profiled(title: str, tensors: Sequence[torch.Tensor]) -> List["torch.futures.Future[None]"]:
    """While a profiler runs: a future at whose end the profiler's event of this title ends, on whatever thread."""
    if not torch.autograd._profiler_enabled():
        return []
    event = torch.autograd._record_function_with_args_enter(title, *tensors)
    ended: "torch.futures.Future[None]" = torch.futures.Future()
    torch.ops.profiler._call_end_callbacks_on_jit_fut._RecordFunction(event, ended)
    return [ended]


def backward_raises(failure_in: Callable[[str], Optional[Exception]]) -> None:
    """Have Tensor.backward() raise our exception where DDP's reducer, which is C++, has kept only its text."""
    backward = torch.autograd.backward
    if hasattr(backward, "gpusim"):
        return

    def raising(*args: Any, **more: Any) -> None:
        try:
            backward(*args, **more)
        except RuntimeError as e:
            ours = failure_in(str(e))
            if ours is None or ours is e:
                raise
            raise ours from None

    raising.__doc__, raising.gpusim = backward.__doc__, True  # type: ignore[attr-defined]
    torch.autograd.backward = raising


def replace(gloo: Any, nccl: Any) -> None:
    """Programs that ask for these backends get these classes; DETAIL's wrapper is left out: all is checked."""
    c10d.ProcessGroupGloo = dist.ProcessGroupGloo = gloo
    c10d.ProcessGroupNCCL = dist.ProcessGroupNCCL = nccl
    c10d._GLOO_AVAILABLE = True
    c10d.is_nccl_available = lambda: True  # for init_process_group; dist.is_nccl_available() stays as it is
    c10d._create_process_group_wrapper = lambda wrapped_pg, *_, **__: wrapped_pg
