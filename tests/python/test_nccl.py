"""gpusim.nccl and gpusim.cuda against NumPy: one process that has four devices (gpuctl run --nccl -n 4)."""
import gc
import os
import pickle
import signal
import threading
import weakref

import gpusim
import numpy as np
import pytest
from gpusim import cuda, nccl

TYPES = {np.dtype(name): number for number, name in enumerate(
    ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"))}
FOLDS = {nccl.NCCL_SUM: np.add, nccl.NCCL_PROD: np.multiply, nccl.NCCL_MAX: np.maximum, nccl.NCCL_MIN: np.minimum}


@pytest.fixture(params=(1, 2, 4))
def comms(request):
    made = nccl.NcclCommunicator.initAll(request.param)
    yield made
    for comm in made:
        comm.destroy()


def inputs(comms, count, dtype):
    """Small whole numbers that differ by rank and place, so that every result is exact in every type."""
    return [(np.arange(count) % 3 + comm.rank_id() % 2).astype(dtype) for comm in comms]


def everywhere(comms, call, arrays):
    """call(comm, array, its address) for each rank in one group; then each device has done its work."""
    nccl.groupStart()
    for comm, array in zip(comms, arrays):
        call(comm, array, array.data.ptr)
    nccl.groupEnd()
    return [array.get() for array in arrays]


def on_devices(comms, values):
    out = []
    for comm, value in zip(comms, values):
        with cuda.Device(comm.device_id()):
            out.append(cuda.array(value))
    return out


def test_versions():
    assert nccl.get_version() == nccl.get_build_version() == 22707
    assert cuda.runtime_version() == 12040 and cuda.device_count() == 4
    assert (nccl.NCCL_INT8, nccl.NCCL_UINT64, nccl.NCCL_FLOAT16, nccl.NCCL_FLOAT, nccl.NCCL_BFLOAT16) == (0, 5, 6, 7, 9)
    assert (nccl.NCCL_SUM, nccl.NCCL_PROD, nccl.NCCL_MAX, nccl.NCCL_MIN, nccl.NCCL_AVG) == (0, 1, 2, 3, 4)


@pytest.mark.parametrize("op", FOLDS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_all_reduce_and_reduce(comms, dtype, op):
    for count in (0, 1, 7, 1000):
        values = inputs(comms, count, dtype)
        expected = FOLDS[op].reduce(values).astype(dtype)
        for got in everywhere(comms, lambda c, a, p: c.allReduce(p, p, count, TYPES[dtype], op, 0),
                              on_devices(comms, values)):
            assert got.dtype == dtype and (got == expected).all()
        root = len(comms) - 1
        out = everywhere(comms, lambda c, a, p: c.reduce(p, p, count, TYPES[dtype], op, root, 0),
                         on_devices(comms, values))
        assert (out[root] == expected).all()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_broadcast_gather_scatter(comms, dtype):
    n, count, kind = len(comms), 5, TYPES[dtype]
    values = inputs(comms, n * count, dtype)
    for call in (lambda c, a, p: c.bcast(p, n * count, kind, n - 1, 0),
                 lambda c, a, p: c.broadcast(p, p, n * count, kind, n - 1, 0)):
        for got in everywhere(comms, call, on_devices(comms, values)):
            assert (got == values[n - 1]).all()
    mine = [c.rank_id() * count * dtype.itemsize for c in comms]
    parts = on_devices(comms, values)
    out = everywhere(comms, lambda c, a, p: c.reduceScatter(p, p + mine[c.rank_id()], count, kind, nccl.NCCL_SUM, 0),
                     parts)
    total = np.add.reduce(values).astype(dtype)
    for rank, got in enumerate(out):
        assert (got[rank * count:][:count] == total[rank * count:][:count]).all()
    out = everywhere(comms, lambda c, a, p: c.allGather(p + mine[c.rank_id()], p, count, kind, 0), parts)
    assert all((got == total).all() for got in out)


def test_ring_of_sends_on_streams():
    comms = nccl.NcclCommunicator.initAll([3, 1, 0, 2])
    assert [c.device_id() for c in comms] == [3, 1, 0, 2] and [c.rank_id() for c in comms] == [0, 1, 2, 3]
    streams, out = [], on_devices(comms, [np.full(10, -1, np.int64)] * 4)
    ins = on_devices(comms, [np.arange(10) + 10 * r for r in range(4)])
    for comm in comms:
        with cuda.Device(comm.device_id()):
            streams.append(cuda.Stream(non_blocking=True))
    nccl.groupStart()
    for rank, comm in enumerate(comms):
        comm.send(ins[rank].ptr, 10, nccl.NCCL_INT64, (rank + 1) % 4, streams[rank].ptr)
        comm.recv(out[rank].ptr, 10, nccl.NCCL_INT64, (rank - 1) % 4, streams[rank].ptr)
    nccl.groupEnd()
    for rank, stream in enumerate(streams):
        with cuda.Device(comms[rank].device_id()):
            event = stream.record()
        event.synchronize()
        assert event.done and stream.done
        assert (np.asarray(out[rank]) == np.arange(10) + 10 * ((rank - 1) % 4)).all()


def ranks_in_threads(n, body):
    """body(rank, id) on a thread for each rank; raises what one of them raised."""
    made, failures = nccl.get_unique_id(), []

    def run(rank):
        try:
            cuda.set_device(rank)
            body(rank, made)
        except BaseException as e:  # noqa: B902
            failures.append(e)

    threads = [threading.Thread(target=run, args=(r,)) for r in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


def test_ranks_in_threads_split():
    def body(rank, made):
        comm = nccl.NcclCommunicator(4, made, rank, nccl.NcclConfig(deterministic=True))
        assert (comm.size(), comm.rank_id(), comm.device_id()) == (4, rank, rank)
        half = comm.commSplit(rank % 2, -rank)  # the higher rank comes first
        assert (half.size(), half.rank_id()) == (2, 1 - rank // 2)
        array = cuda.array([float(rank)])
        half.allReduce(array.ptr, array.ptr, 1, nccl.NCCL_DOUBLE, nccl.NCCL_SUM, 0)
        cuda.Stream.null.synchronize()
        assert np.asarray(array)[0] == (2 if rank % 2 == 0 else 4)
        none = comm.commSplit(-1 if rank else 0, 0)
        assert (none is None) == (rank != 0)
        half.destroy()
        comm.destroy()
        assert comm.comm == 0
        comm.destroy()

    ranks_in_threads(4, body)


def test_abort_is_told_to_the_others():
    seen, called = [], threading.Event()

    def body(rank, made):
        comm = nccl.NcclCommunicator(2, made, rank)
        array = cuda.zeros(4)
        if rank == 0:
            called.wait(60)
            comm.abort()
            return
        comm.allReduce(array.ptr, array.ptr, 4, nccl.NCCL_DOUBLE, nccl.NCCL_SUM, 0)
        called.set()
        with pytest.raises(cuda.CUDARuntimeError) as e:
            cuda.Stream.null.synchronize()
        assert "cudaErrorLaunchFailure" in str(e.value) and "rank 0" in e.value.detail
        with pytest.raises(nccl.NcclError) as e:
            comm.check_async_error()
        seen.append(e.value)
        comm.abort()

    ranks_in_threads(2, body)
    assert seen[0].status == 6 and "NCCL_ERROR_REMOTE_ERROR: remote process exited" in str(seen[0])
    assert "rank 0" in seen[0].detail


def test_a_mismatch_shows_both_sides(comms):
    if len(comms) < 2:
        return
    arrays = on_devices(comms, [np.zeros(8, np.float32)] * len(comms))
    with pytest.raises(cuda.CUDARuntimeError, match=r"rank \d.*allreduce of 8 f32.*of 4 f32|of 4 f32.*of 8 f32"):
        everywhere(comms, lambda c, a, p: c.allReduce(p, p, 8 if c.rank_id() else 4, nccl.NCCL_FLOAT, nccl.NCCL_SUM, 0),
                   arrays)
    for comm in comms:
        comm.abort()


def wrong(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_wrong_arguments():
    comm = nccl.NcclCommunicator.initAll(1)[0]
    a, host = cuda.zeros(4, np.float32), np.zeros(4, np.float32)
    with cuda.Device(1):
        other = cuda.zeros(4, np.float32)
    gone = cuda.malloc(16)
    cuda.free(gone)

    def reduce(send=a.ptr, recv=a.ptr, count=4, kind=nccl.NCCL_FLOAT, op=nccl.NCCL_SUM, stream=0):
        comm.allReduce(send, recv, count, kind, op, stream)

    for arguments, kind, text in (
            ({"send": host.ctypes.data}, nccl.NcclError, "NCCL_ERROR_INVALID_ARGUMENT.*sendbuff.*not a valid pointer"),
            ({"send": gone}, nccl.NcclError, "sendbuff.*not a valid pointer"),
            ({"recv": other.ptr}, nccl.NcclError, "recvbuff allocated on device 1 mismatches"),
            ({"count": 4000}, nccl.NcclError, "16000 bytes"), ({"kind": 77}, nccl.NcclError, "invalid type 77"),
            ({"op": 77}, nccl.NcclError, "invalid reduction operation 77"),
            ({"count": -1}, OverflowError, "argument 3 is -1"), ({"count": 4.0}, TypeError, "float"),
            ({"kind": 1 << 40}, OverflowError, "argument 4"), ({"send": a}, TypeError, "Array"),
            ({"send": None}, TypeError, "NoneType"), ({"stream": 12345}, ValueError, "0x3039 is no stream")):
        wrong(lambda: reduce(**arguments), kind, text)
    reduce()
    wrong(lambda: comm.bcast(a.ptr, 4, nccl.NCCL_FLOAT, 5, 0), nccl.NcclError, "invalid root 5")
    wrong(lambda: comm.send(a.ptr, 4, nccl.NCCL_FLOAT, 9, 0), nccl.NcclError, "NCCL_ERROR_INVALID_ARGUMENT")
    init = nccl.NcclCommunicator
    wrong(lambda: init(1, "text", 0), TypeError, "bytes, not str")
    wrong(lambda: init(1, b"1234567890", 0), ValueError, "commId length 10 != 128.")
    wrong(lambda: init(1, bytes(128), 0), nccl.NcclError, "ncclUniqueId")
    wrong(lambda: init(1, nccl.get_unique_id(), 1), nccl.NcclError, "1/1")
    wrong(lambda: init(1, nccl.get_unique_id(), 0, {"split_share": 1}), TypeError, "NcclConfig")
    for devices, kind in ((9, nccl.NcclError), ([0, 0], nccl.NcclError), (0, nccl.NcclError), ("x", ValueError),
                          ([1.0], TypeError)):
        wrong(lambda: init.initAll(devices), kind, "")
    wrong(nccl.groupEnd, nccl.NcclError, "NCCL_ERROR_INVALID_USAGE.*not in a group")
    comm.destroy()
    wrong(reduce, nccl.NcclError, "comm argument is NULL")
    wrong(comm.rank_id, nccl.NcclError, "comm argument is NULL")


def test_wrong_arguments_of_the_runtime():
    wrong(lambda: cuda.set_device(4), cuda.CUDARuntimeError, "cudaErrorInvalidDevice: invalid device ordinal")
    wrong(lambda: cuda.malloc(1 << 50), cuda.CUDARuntimeError, "cudaErrorMemoryAllocation.*device .* no room for")
    wrong(lambda: cuda.malloc(-1), OverflowError, "-1")
    wrong(lambda: cuda.free(12345), cuda.CUDARuntimeError, "cudaErrorInvalidValue")
    wrong(lambda: cuda.memset(0, 0, 0, 12345), ValueError, "no stream or event")
    wrong(lambda: cuda.Array((1 << 40, 1 << 40)), OverflowError, "cudaMallocManaged")
    wrong(lambda: cuda.Array(3, object), TypeError, "Python objects")
    wrong(lambda: cuda.Array((3, -1)), ValueError, "negative")
    wrong(lambda: cuda.zeros(3).set(np.zeros(4)), ValueError, "broadcast")
    stream = cuda.Stream().ptr
    wrong(lambda: cuda.memset(0, 0, 0, stream), ValueError, "no stream or event")
    assert cuda.get_device() == 0


def test_errors_pickle():
    for e in (nccl.NcclError(5), nccl.NcclError(6, "rank 1 is gone"), cuda.CUDARuntimeError(2, "device 1")):
        again = pickle.loads(pickle.dumps(e))
        assert type(again) is type(e) and isinstance(e, RuntimeError)
        assert (again.args, str(again), again.status, again.detail) == (e.args, str(e), e.status, e.detail)
    assert str(nccl.NcclError(5)) == "NCCL_ERROR_INVALID_USAGE: invalid usage (run with NCCL_DEBUG=WARN for details)"


def test_copies_sets_and_waits():
    data = np.arange(64, dtype=np.uint8)
    out = np.zeros_like(data)
    a = cuda.malloc(64)
    with cuda.Device(1):
        b, stream, waiter = cuda.malloc(64), cuda.Stream(), cuda.Stream()
        cuda.memcpy(a, data.ctypes.data, 64, cuda.MEMCPY_HOST_TO_DEVICE)
        cuda.memcpy(b, a, 64, stream=stream.ptr)
        cuda.memset(b + 8, 7, 8, stream.ptr)
        waiter.wait_event(stream.record(cuda.Event(disable_timing=True)))
        cuda.memcpy(out.ctypes.data, b, 64, cuda.MEMCPY_DEVICE_TO_HOST, waiter.ptr)
        waiter.synchronize()
        begin, end = cuda.Event(), cuda.Event()
        begin.record(stream), end.record(stream), end.synchronize()
        assert cuda.get_elapsed_time(begin, end) >= 0
        assert cuda.get_device() == 1
    assert (out[:8] == data[:8]).all() and (out[8:16] == 7).all() and (out[16:] == data[16:]).all()
    cuda.free(a), cuda.free(b), cuda.free(0)


def test_a_view_keeps_its_memory():
    array = cuda.array(np.arange(6.0).reshape(2, 3))
    view, gone = np.asarray(array)[1:], weakref.ref(array)
    del array
    gc.collect()
    assert gone() is not None and (view == [[3, 4, 5]]).all()
    del view
    gc.collect()
    assert gone() is None
    record = cuda.array(np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]))
    assert record.get()["b"][0] == 2.5 and len(record) == 1
    assert cuda.zeros((0, 3)).get().shape == (0, 3)


def test_thousands_of_arrays_and_communicators_leave_nothing():
    most = cuda.mem_info()[1] - (1 << 20)  # the queues of streams stay for the next ones

    def some(times):
        for _ in range(times):
            cuda.zeros(1000)
            cuda.Stream(), cuda.Event()
            nccl.NcclCommunicator.initAll(1)  # not destroyed: its end does that
        gc.collect()
        cuda.free(cuda.malloc(most))
        return len(os.listdir("/proc/self/fd"))

    before = some(20)
    assert some(200) == before
    for _ in range(2000):
        cuda.zeros(1000)
    assert some(1) == before
    held = [cuda.zeros(1000) for _ in range(200)]  # a leak would be noticed
    wrong(lambda: cuda.malloc(most), cuda.CUDARuntimeError, "cudaErrorMemoryAllocation")
    del held


def test_libgpusim_and_libnccl_in_one_process():
    def both(g, first):
        comm, array = g.comm(2), cuda.array([3.0])
        one = nccl.NcclCommunicator.initAll([2]) if first else None
        arrays = [gpusim.array(np.array([1.0, 2.0]), d) for d in comm.devices]
        assert [list(a) for a in comm.all_reduce(arrays)] == [[2, 4], [2, 4]]
        for each in one or nccl.NcclCommunicator.initAll(1):
            with cuda.Device(each.device_id()):
                mine = cuda.array([3.0])
                each.allReduce(mine.ptr, mine.ptr, 1, nccl.NCCL_DOUBLE, nccl.NCCL_SUM, 0)
                assert mine.get()[0] == array.get()[0] == 3
        comm.destroy()

    with gpusim.connect() as g:
        both(g, False)
        both(g, True)
    assert cuda.zeros(1).get()[0] == 0


def test_a_forked_child_lives_and_may_not_call():
    comm, array, stream = nccl.NcclCommunicator.initAll(1)[0], cuda.zeros(3), cuda.Stream()
    child = os.fork()
    if child == 0:
        good = 0
        for call in (cuda.get_device, comm.rank_id, nccl.get_unique_id, array.get, lambda: np.asarray(array)):
            try:
                call()
            except gpusim.Forked:
                good += 1
        del comm, array, stream
        gc.collect()
        os._exit(good)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    comm.allReduce(array.ptr, array.ptr, 3, nccl.NCCL_DOUBLE, nccl.NCCL_SUM, stream.ptr)
    stream.synchronize()
    comm.destroy()


def test_ctrl_c_ends_a_wait_for_a_rank_that_never_comes():
    with pytest.raises(KeyboardInterrupt):
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        nccl.NcclCommunicator(2, nccl.get_unique_id(), 0)
    assert cuda.zeros(1).get()[0] == 0  # the devices are still of use
