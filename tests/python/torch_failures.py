"""torch_failures CASE... - what the ranks of a program of torch.distributed over gpusim are told when something
goes wrong.

In each case three ranks run; each of those in `told` must see this exception, of this class, whose text has the words.
"""
import multiprocessing
import os
import re
import sys
import tempfile
from datetime import timedelta

import torch
import torch.distributed as dist

import gpusim
import gpusim.torch

N = 3
ones = torch.ones


def other_operation(r):
    dist.broadcast(ones(8), 0) if r == 1 else dist.all_reduce(ones(4))


def other_size(r):
    dist.all_reduce(ones(5 if r == 1 else 4))


def other_type(r):
    dist.all_reduce(ones(4, dtype=torch.int32 if r == 1 else torch.float32))


def other_reduction(r):
    dist.all_reduce(ones(4), dist.ReduceOp.MAX if r == 1 else dist.ReduceOp.SUM)


def other_parts(r):
    dist.all_gather([torch.empty(3), torch.empty(2), torch.empty(3 if r == 1 else 2)], ones(3 if r == 0 else 2))


def other_splits(r):
    given = [[1, 2, 3], [2, 2, 2], [1, 1, 4]][r]
    dist.all_to_all([torch.empty(k) for k in ([1, 2, 1], [2, 2, 1], [3, 2, 5])[r]], [ones(k) for k in given])


def other_message(r):
    try:
        if r == 0:
            dist.send(ones(5), 1)
        if r == 1:
            dist.recv(ones(4), 0)
    finally:
        gpusim.torch.monitored_barrier(timeout=20)


def killed(r):
    dist.all_reduce(ones(4))
    if r == 1:
        os.kill(os.getpid(), 9)
    dist.all_reduce(ones(4))


def killed_in_backward(r):
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
    for step in range(3):
        loss = net(ones(4, 3)).sum()
        if r == 1 and step == 1:
            os.kill(os.getpid(), 9)
        loss.backward()


def killed_before_it_sends(r):
    if r == 1:
        os.kill(os.getpid(), 9)
    dist.recv(ones(4), 1 if r == 0 else None)


def killed_in_a_group(r):
    g = dist.new_group([1, 2])
    if r == 2:
        os.kill(os.getpid(), 9)
    if r == 1:
        dist.all_reduce(ones(4), group=g)


def ended(r):
    if r != 1:
        dist.barrier()


def left(r):
    if r == 0:
        dist.send(ones(4), 1)
    elif r == 1:
        work = dist.irecv(torch.empty(1), 0, tag=7)
        dist.recv(torch.empty(4), 0)
        while not work.is_completed():
            pass
        try:
            work.wait()
        except gpusim.Aborted as e:
            failure = gpusim.Aborted(str(e))
        del work  # it keeps the group
        dist.destroy_process_group()
        raise failure
    else:
        dist.recv(torch.empty(1))
    dist.destroy_process_group()


def late(r):
    if r == 1:
        gpusim.torch.monitored_barrier(timeout=20)
    else:
        try:
            dist.barrier(group=late.group)
        finally:
            gpusim.torch.monitored_barrier(timeout=20)


def missing(r):
    if r == 2:
        dist.recv(torch.empty(1), 0)  # until the others have ended
    gpusim.torch.monitored_barrier(timeout=0.2)


def int16(r):
    dist.all_reduce(ones(4, dtype=torch.int16))


def no_device(r):
    dist.all_reduce(torch.empty(4, device="meta"))


E = gpusim
CASES = {
    other_operation: {r: (E.Mismatch, "rank 1 .*calls broadcast of 8 f32") for r in range(N)},
    other_size: {r: (E.Mismatch, "rank 1 .*calls allreduce of 5 f32 sum.*") for r in range(N)},
    other_type: {r: (E.Mismatch, "rank 1 .*calls allreduce of 4 i32 sum.*") for r in range(N)},
    other_reduction: {r: (E.Mismatch, "rank 1 .*calls allreduce of 4 f32 max.*") for r in range(N)},
    other_parts: {0: (E.Mismatch, r"rank 1 calls all_gather of parts \[3, 2, 3\], rank 0 of \[3, 2, 2\]"),
                  1: (E.Mismatch, r"rank 0 calls all_gather of parts \[3, 2, 2\], rank 1 of \[3, 2, 3\]"),
                  2: (E.Mismatch, "rank 1 calls")},
    other_splits: {r: (E.Mismatch, "rank 2 calls all_to_all with 4 elements for rank 2, which expects 5")
                   for r in range(N)},
    other_message: {1: (E.Mismatch, r"rank 0 sends 5 float32, rank 1 receives 4 float32 \(tag 0\)")},
    killed: {r: (E.RankLost, "rank 1's process [0-9]+ .*has ended") for r in (0, 2)},
    killed_in_backward: {r: (E.RankLost, "rank 1's process [0-9]+ .*has ended") for r in (0, 2)},
    killed_before_it_sends: {r: (E.RankLost, "rank 1's process [0-9]+ .*has ended") for r in (0, 2)},
    killed_in_a_group: {1: (E.RankLost, r"rank 1's process .*has ended.*\(the group's rank 1 is rank 2 of all\)")},
    ended: {r: (E.Aborted, "rank 1('s process [0-9]+ .*has ended| has left, and others wait)") for r in (0, 2)},
    late: {r: (E.Error, "barrier #1: timeout after 0.3 s: not called by rank 1") for r in (0, 2)},
    left: {1: (E.Aborted, "rank 1: recv: rank 0 has left the group without a message of tag 7"),
           2: (E.Aborted, "rank 2: recv: every other rank has left the group without a message of tag 0")},
    missing: {0: (E.Timeout, "Rank 2 failed to pass monitoredBarrier in 200 ms"),
              1: (E.Timeout, "Rank 1 successfully reached monitoredBarrier, but .* from rank 0: Rank 2"),
              2: (E.Aborted, "rank [01]'s process [0-9]+ .*has ended|rank 0 has left the group")},
    int16: {r: (E.Invalid, "all_reduce: sum of torch.int16 is not supported") for r in range(N)},
    no_device: {r: (E.Invalid, "the tensor is meta, torch.strided; it must be") for r in range(N)},
}


def rank(r, case, store, said):
    dist.init_process_group("gpusim", init_method="file://" + store, rank=r, world_size=N)
    if case is late:
        late.group = dist.new_group(timeout=timedelta(seconds=0.3))
    try:
        case(r)
        said.put((r, None, "nothing"))
    except Exception as e:  # pylint: disable=broad-except
        said.put((r, type(e), str(e)))
    if case is killed:
        try:
            dist.all_reduce(ones(1))
            said.put((r, None, "nothing the second time"))
        except gpusim.RankLost as e:
            assert e.rank == 1 and isinstance(e, RuntimeError)


def run(case):
    context = multiprocessing.get_context("fork")
    said = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        ranks = [context.Process(target=rank, args=(r, case, os.path.join(folder, "store"), said)) for r in range(N)]
        for p in ranks:
            p.start()
        for p in ranks:
            p.join()
    heard = {}
    while not said.empty():
        r, kind, text = said.get()
        assert heard.setdefault(r, (kind, text)) == (kind, text), text
    for r, (kind, words) in CASES[case].items():
        was, text = heard[r]
        told = f"{case.__name__}: rank {r}: {was}: {text}"
        assert was is not None and issubclass(was, kind) and re.search(words, text), told
    for r in set(heard) - set(CASES[case]):
        assert heard[r][0] is None, f"{case.__name__}: rank {r}: {heard[r]}"
    print(f"{case.__name__}: as it should be", flush=True)


if __name__ == "__main__":
    for each in CASES:
        if each.__name__ in sys.argv[1:] or len(sys.argv) == 1:
            run(each)
