"""torch_ops RANKS - every operation of torch.distributed over gpusim, its result compared with what it should be."""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed import ReduceOp as R

import gpusim
import gpusim.torch


def same(a, b):
    b = torch.as_tensor(b)
    assert torch.equal(a.to(b.dtype), b), (a, b)


def full(n, value):
    return torch.full((n,), float(value))


def reductions(r, n):
    total, v = n * (n - 1) // 2, torch.arange(5)
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8,
                  torch.uint8):
        t = (v + r).to(dtype)
        dist.all_reduce(t)
        same(t, (v * n + total).to(dtype))
    for op, first in ((R.SUM, True), (R.MAX, True), (R.MIN, False), (R.PRODUCT, False)):
        t = torch.tensor([r == 0, False, True])
        dist.all_reduce(t, op)
        assert t.tolist() == [first, False, True], (op, t)
    for op, want in ((R.MIN, 0), (R.MAX, n - 1), (R.AVG, (n - 1) / 2), (R.PRODUCT, 0)):
        t = full(3, r)
        dist.all_reduce(t, op)
        same(t, full(3, want))
    for op, want in ((R.BAND, 0), (R.BOR, (1 << n) - 1), (R.BXOR, (1 << n) - 1)):
        t = torch.tensor([1 << r])
        dist.all_reduce(t, op)
        same(t, [want])
    t = torch.arange(24.0).view(4, 6)[:, ::2] + r  # not contiguous
    dist.all_reduce(t)
    same(t, torch.arange(24.0).view(4, 6)[:, ::2] * n + total)
    t = torch.tensor([1 + 1j * r])
    dist.all_reduce(t)
    same(t, [n + 1j * total])
    t = full(3, r + 1)
    gpusim.torch.all_reduce(t, gpusim.torch.premul_sum(r + 0.5))
    same(t, full(3, sum((k + 1) * (k + 0.5) for k in range(n))))
    v = [full(2, r), full(3, 1)]
    dist.all_reduce_coalesced(v)
    same(torch.cat(v), [total, total, n, n, n])
    t = torch.sparse_coo_tensor([[r, n]], [1.0, 2.0], (n + 1,))
    dist.all_reduce(t)
    same(t.to_dense(), [1.0] * n + [2.0 * n])
    t = full(3, r)
    dist.reduce(t, n - 1)
    same(t, full(3, total if r == n - 1 else r))
    t = full((9 << 20) // 2, 1)  # in pieces
    dist.all_reduce(t)
    assert t.eq(n).all()
    dist.all_reduce(torch.empty(0))
    if os.environ.get("GPUSIM_DETERMINISTIC") and n == 4:  # the order of a sum: gpusim-algorithms(7)
        v = [torch.rand(100003, generator=torch.Generator().manual_seed(k)) for k in range(n)]
        t = v[r].clone()
        dist.all_reduce(t)
        same(t, (v[0] + v[1]) + (v[2] + v[3]))


def parts(r, n):
    each = torch.arange(n).repeat_interleave(2)
    for dtype in (torch.float32, torch.int16, torch.bool, torch.complex64):  # two of them move as bytes
        o = [torch.empty(2, dtype=dtype) for _ in range(n)]
        dist.all_gather(o, torch.full((2,), r).to(dtype))
        same(torch.cat(o), each.to(dtype))
        t = torch.full((3,), r == 1).to(dtype)
        dist.broadcast(t, 1)
        same(t, torch.ones(3).to(dtype))
    o = [torch.empty(k + 1) for k in range(n)]
    dist.all_gather(o, full(r + 1, r))
    same(torch.cat(o), [k for k in range(n) for _ in range(k + 1)])
    o = torch.empty(2 * n)
    dist.all_gather_into_tensor(o, full(2, r))
    same(o, each)
    o = [[torch.empty(2), torch.empty(1)] for _ in range(n)]
    dist.all_gather_coalesced(o, [full(2, r), full(1, -r)])
    same(torch.cat([torch.cat(p) for p in o]), [s * k for k in range(n) for s in (1, 1, -1)])
    o = [torch.empty(2) for _ in range(n)] if r == 1 else None
    dist.gather(full(2, r), o, 1)
    if o:
        same(torch.cat(o), each)
    o = torch.empty(2)
    dist.scatter(o, [full(2, k) for k in range(n)] if r == 1 else None, 1)
    same(o, full(2, r))
    dist.reduce_scatter(o, [full(2, k) for k in range(n)])
    same(o, full(2, r * n))
    dist.reduce_scatter_tensor(o, each.float(), R.MAX)
    same(o, full(2, r))
    group = dist.distributed_c10d._get_default_group()  # what torch 2's functional collectives call
    o, p = torch.empty(2 * n), torch.empty(n, dtype=torch.int64)
    group.allgather_into_tensor_coalesced([o, p], [full(2, r), torch.tensor([r])]).wait()
    same(o.view(n, 2)[:, 1], p)
    o, q = torch.empty(2), torch.empty(1, dtype=torch.int64)
    group.reduce_scatter_tensor_coalesced([o, q], [each.float(), p]).wait()
    same(o, full(2, r * n))
    same(q, torch.tensor([r * n]))
    o = torch.empty(r + 1)
    dist.reduce_scatter(o, [full(k + 1, k) for k in range(n)])
    same(o, full(r + 1, r * n))
    o = torch.empty(n)
    dist.all_to_all_single(o, torch.arange(n) + 10.0 * r)
    same(o, torch.arange(n) * 10 + r)
    ragged = torch.arange(n).repeat_interleave(r + 1)
    o = torch.empty(n * (r + 1))
    dist.all_to_all_single(o, full(n * (n + 1) // 2, r), [r + 1] * n, [k + 1 for k in range(n)])
    same(o, ragged)
    o = [torch.empty(r + 1) for _ in range(n)]
    dist.all_to_all(o, [full(k + 1, r) for k in range(n)])
    same(torch.cat(o), ragged)
    x = [None] * n
    dist.all_gather_object(x, {"rank": r})
    assert x == [{"rank": k} for k in range(n)]


def messages(r, n):
    if r == 0:
        works = [dist.isend(torch.tensor([10 * tag + k]), k, tag=tag) for tag in (1, 2, 3) for k in range(1, n)]
        got = set()
        for _ in range(n - 1):
            t = torch.empty(70)
            source = dist.recv(t, tag=4)
            same(t, full(70, source))
            got.add(source)
        assert got == set(range(1, n)), got
        for w in works:
            w.wait()
    else:
        for tag in (3, 1, 2):  # those of other tags wait
            t = torch.tensor([0])
            dist.recv(t, 0, tag=tag)
            same(t, [10 * tag + r])
        dist.send(full(70, r), 0, tag=4)
    # More messages than can be announced at once, and a receive that nobody waits for: they go on in the barrier.
    if r == 0:
        for k in range(200):
            dist.isend(full(3, k), 1, tag=6)
        dist.isend(full(1 << 20, 7), 1, tag=5)
    if r == 1:
        work = dist.irecv(big := torch.empty(1 << 20), 0, tag=5)
    dist.barrier()
    if r == 1:
        for k in range(200):
            t = torch.empty(3)
            dist.recv(t, 0, tag=6)
            same(t, full(3, k))
        work.wait()
        assert big.eq(7).all() and work.is_completed()
    # The same with a sender that calls nothing of gpusim afterwards.
    store = dist.distributed_c10d._get_default_store()
    if r == 0:
        for k in range(200):
            dist.isend(full(3, k), 1, tag=7)
        store.wait(["messages/received"])
    if r == 1:
        for k in range(200):
            t = torch.empty(3)
            dist.recv(t, 0, tag=7)
            same(t, full(3, k))
        store.set("messages/received", "all")


def groups(r, n):
    world = gpusim.torch._world
    kept = []
    for _ in range(100):
        g = dist.new_group([0, 1])
        if r < 2:
            t = torch.ones(2)
            dist.all_reduce(t, group=g)
            same(t, [2, 2])
            dist.destroy_process_group(g)
        del g
        kept.append((len(world.groups), len(world._streams), sum(map(len, world.blocks.values()))))
    assert kept[1:] == kept[:-1], kept  # nothing is left of them
    works = [dist.all_reduce(full(3, k), async_op=True) for k in range(100)]
    for k, w in enumerate(works):
        same(w.get_future().wait()[0] if k % 2 else w.result()[0] if w.wait() else None, full(3, k * n))
    t = gpusim.torch.zeros(4, 2)
    t += r
    dist.all_reduce(t)
    same(t, torch.full((4, 2), n * (n - 1) / 2))
    assert dist.distributed_c10d._get_default_group()._get_sequence_number_for_group() > 100


def learns(r, n):
    """DistributedDataParallel against one process with all samples."""
    torch.manual_seed(1)
    x, y = torch.randn(6 * n, 5), torch.randn(6 * n, 2)
    net = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 2))
    alone = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 2))
    alone.load_state_dict(net.state_dict())
    from torch.distributed.optim import ZeroRedundancyOptimizer
    ddp = torch.nn.parallel.DistributedDataParallel(net)
    optimizers = (ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.SGD, lr=0.1), torch.optim.SGD(
        alone.parameters(), lr=0.1))
    for _ in range(5):
        mine = slice(6 * r, 6 * r + 6)
        for model, part, optimizer in ((ddp, mine, optimizers[0]), (alone, slice(None), optimizers[1])):
            optimizer.zero_grad()
            (model(x[part]) - y[part]).square().mean().backward()
            optimizer.step()
    for a, b in zip(ddp.parameters(), alone.parameters()):
        assert torch.allclose(a, b, atol=1e-6), (a, b)


def main(r, n, store):
    dist.init_process_group("gpusim", init_method="file://" + store, rank=r, world_size=n)
    for test in (reductions, parts, messages, groups, learns):
        test(r, n)
        gpusim.torch.monitored_barrier(timeout=30)
    dist.destroy_process_group()
    if r == 0:
        print("all as it should be")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        size = int(sys.argv[1])
        mp.start_processes(main, (size, os.path.join(folder, "store")), size, start_method="fork")
