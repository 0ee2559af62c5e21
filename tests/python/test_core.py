"""The module gpusim: machines, arrays, communicators, and what goes wrong. Run by tests/bats/python.bats."""
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import unittest

import gpusim
import numpy as np


def both(f):
    """f(0) and f(1) at the same time, each on a thread; their results."""
    out = [None, None]

    def run(r):
        try:
            out[r] = f(r)
        except BaseException as e:  # pylint: disable=broad-except
            out[r] = e
    threads = [threading.Thread(target=run, args=(r,)) for r in (0, 1)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return out


class Machine(unittest.TestCase):
    """Tests on a machine of two devices."""
    options = {}

    def setUp(self):
        self.g = gpusim.cluster(2, mem="64M", **self.options)
        self.devices = self.g.devices
        self.addCleanup(self.g.close)

    def ranks(self, **config):
        uid = self.g.unique_id()
        return both(lambda r: self.g.comm_init_rank(2, uid, r, **config))

    def arrays(self, *values, **how):
        return [gpusim.array(v, d, **how) for v, d in zip(values, self.devices)]


class Arrays(Machine):
    def used(self):
        return [d["used_bytes"] for d in self.g.status()["devices"]]

    def test_views_share_and_keep_the_memory(self):
        a = gpusim.array(np.arange(6.0).reshape(2, 3), self.devices[0])
        v = a[1, 1:]
        del a
        gc.collect()
        other = gpusim.array(np.zeros(6), self.devices[0])
        self.assertEqual(list(v), [4, 5])
        self.assertIs(v.device, self.devices[0])
        self.assertNotEqual(v.addr, other.addr)
        v += 1
        self.assertEqual(list(gpusim.array(v, self.devices[1])), [5, 6])

    def test_results_of_numpy_are_plain(self):
        a = gpusim.array([1.0, 2.0], self.devices[0])
        for plain in (a + 1, a.sum(), np.sqrt(a)):
            self.assertFalse(isinstance(plain, gpusim.Array) and plain.memory is not None)
        with self.assertRaisesRegex(gpusim.Invalid, "not in a device's memory"):
            (a + 1).view(gpusim.Array).device
        self.assertEqual(list(pickle.loads(pickle.dumps(a))), [1, 2])

    def test_nothing_leaks(self):
        for _ in range(2000):
            gpusim.array([1.0], self.devices[0])
        gc.collect()
        until = time.monotonic() + 60  # devices tell it now and then
        while self.used()[0] and time.monotonic() < until:
            pass
        self.assertEqual(self.used()[0], 0)

    def test_types(self):
        for dtype in ("f8", "f4", "f2", "i1", "u1", "i4", "u4", "i8", "u8"):
            a, b = self.arrays(np.array([1, 2], dtype), np.array([3, 4], dtype))
            self.assertEqual(list(self.g.comm(2).all_reduce([a, b])[1]), [4, 6], dtype)
        bits = np.uint16([0x3F80, 0x4000])  # 1, 2
        a, b = self.arrays(bits, bits, type="bf16")
        self.assertEqual((a.kind, a[1:].kind), ("bf16", "bf16"))
        self.assertEqual(list(self.g.comm(2).all_reduce([a, b])[0]), [0x4000, 0x4080])
        flags = self.arrays([True, False], [False, False])
        self.assertEqual(list(self.g.comm(2).all_reduce(flags, op="max")[1]), [True, False])
        with self.assertRaisesRegex(gpusim.Invalid, "sum of booleans"):
            self.g.comm(2).all_reduce(flags)

    def test_refused(self):
        d = self.devices[0]
        for wrong in (np.zeros(2, complex), np.zeros(2, "S3"), np.zeros(2, ">f4"), np.zeros(2, "i2")):
            with self.assertRaisesRegex(gpusim.Invalid, "no device has elements"):
                gpusim.array(wrong, d)
        with self.assertRaisesRegex(gpusim.NoMemory, "no room for 8000000000 bytes"):
            gpusim.empty(10**9, d)
        with self.assertRaisesRegex(gpusim.Invalid, "raw bits"):
            gpusim.array([1.0], d, type="bf16")

    def test_dlpack(self):
        if not hasattr(np, "from_dlpack"):
            self.skipTest("this NumPy has no from_dlpack")
        a = gpusim.array([1.0, 2.0], self.devices[0])
        b = np.from_dlpack(a)
        a += 1
        self.assertEqual(list(b), [2, 3])

        class Other:
            def __dlpack__(self, **how):
                return a.__dlpack__(**how)

            def __dlpack_device__(self):
                return a.__dlpack_device__()
        self.assertEqual(list(gpusim.array(Other(), self.devices[1])), [2, 3])

    def test_kernels_events(self):
        d = self.devices[0]
        x = gpusim.array(np.float32([1, 2]), d)
        d.launch("scale", x=x, n=2, alpha=3.0, wait=False)
        d.record(7)
        d.wait(7, stream=1)
        d.name_stream(1, "the second")
        d.synchronize(1)
        self.assertEqual(list(x), [3, 6])
        d.memset(x, 0)
        self.assertEqual(list(x), [0, 0])
        self.assertEqual(d.checksum(x), d.checksum(gpusim.zeros(2, d, np.float32)))
        self.assertIn("the second", str(self.g.trace()))
        with self.assertRaisesRegex(gpusim.Invalid, "stream 64"):
            d.name_stream(64, "one too many")
        with self.assertRaisesRegex(gpusim.NotFound, "no kernel 'scal'"):
            d.launch("scal")


class OneHandle(Machine):
    def test_collectives(self):
        c = self.g.comm(2)

        def rows(*v):
            return [np.array(x, float) for x in v]

        for got, want in (
                (c.all_reduce(rows([1, 2], [3, 4])), [[4, 6], [4, 6]]),
                (c.all_reduce(rows([1, 2], [3, 4]), op="premulsum", factor=[2, 10]), [[32, 44], [32, 44]]),
                (c.reduce(rows([1, 2], [3, 4]), root=1, op="max")[1:], [[3, 4]]),
                (c.broadcast(rows([1, 2], [3, 4]), root=1), [[3, 4], [3, 4]]),
                (c.all_gather(rows([1, 2], [3, 4])), [[1, 2, 3, 4], [1, 2, 3, 4]]),
                (c.all_gather(rows([1], [3, 4]), counts=[1, 2]), [[1, 3, 4], [1, 3, 4]]),
                (c.reduce_scatter(rows([1, 2], [3, 4])), [[4], [6]]),
                (c.reduce_scatter(rows([1, 2, 3], [3, 4, 5]), counts=[1, 2]), [[4], [6, 8]]),
                (c.all_to_all(rows([1, 2], [3, 4])), [[1, 3], [2, 4]]),
                (c.all_to_all(rows([1, 2, 3], [4, 5, 6]), counts=[1, 2, 2, 1]), [[1, 4, 5], [2, 3, 6]]),
                (c.gather(rows([1], [2]), root=1)[1:], [[1, 2]]),
                (c.scatter([np.array([5.0, 6.0]), None], rows([0], [0])), [[5], [6]])):
            self.assertEqual([list(x) for x in got], want)

    def test_host_arrays_get_the_result(self):
        a, out = [np.ones(3), np.ones(3)], [np.zeros(3), np.zeros(3)]
        self.g.comm(2).all_reduce(a, out)
        self.assertEqual((list(a[0]), list(out[1])), ([1, 1, 1], [2, 2, 2]))
        self.g.comm(2).all_reduce(a)
        self.assertEqual(list(a[1]), [2, 2, 2])

    def test_group_and_pairs(self):
        c, y, z = self.g.comm(2), np.zeros(2), np.zeros(2)
        with c.group():
            c.send(np.array([1.0, 2.0]), 1, rank=0)
            c.recv(y, 0, rank=1)
            c.send(np.array([3.0, 4.0]), 0, rank=1)
            c.recv(z, 1, rank=0)
        self.assertEqual((list(y), list(z)), ([1, 2], [3, 4]))

    def test_graph(self):
        c, (a, b) = self.g.comm(2), self.arrays(np.ones(1, "f4"), np.ones(1, "f4"))
        with c.graph() as graph:
            graph.all_reduce([a, b])
            graph.kernel(0, "scale", x=a, n=1, alpha=0.5)
        graph.launch(2)
        self.assertEqual((list(a), list(b)), ([1.5], [3.0]))
        graph.destroy()

    def test_algorithm_deterministic_split_shrink(self):
        c = self.g.comm(2)
        self.assertEqual(list(c.all_reduce(self.arrays([1.0], [2.0]), algo="ring")[0]), [3])
        self.assertEqual(list(c.all_reduce(self.arrays([1.0], [2.0]), deterministic=True)[0]), [3])
        with self.assertRaisesRegex(gpusim.Invalid, "unknown algorithm 'best'"):
            c.all_reduce(self.arrays([1.0], [2.0]), algo="best")
        halves = c.split([1, -1])
        self.assertEqual((list(halves), halves[1].size), ([1], 1))
        self.assertEqual(c.shrink([0]).devices, self.devices[1:])

    def test_mismatches(self):
        c, (a, b) = self.g.comm(2), self.arrays([1.0, 2.0], [3.0, 4.0])
        freed = gpusim.array([1.0, 2.0], self.devices[1])
        freed.free()
        for kind, what, call in (
                (gpusim.Mismatch, "is on device", lambda: c.all_reduce([b, a])),
                (gpusim.Mismatch, "3 elements sent on rank 1", lambda: c.all_reduce([a, np.zeros(3)])),
                (gpusim.Mismatch, "f32 on rank 1", lambda: c.all_reduce([a, np.zeros(2, "f4")])),
                (gpusim.Mismatch, "do not fit", lambda: c.reduce_scatter([np.zeros(3), np.zeros(3)])),
                (gpusim.Mismatch, "its counts need 2", lambda: c.all_gather([a, np.zeros(1)], counts=[2, 2])),
                (gpusim.Invalid, "freed", lambda: c.all_reduce([a, freed])),
                (gpusim.Invalid, "contiguous", lambda: c.all_reduce([gpusim.zeros((2, 2), self.devices[0])[:, 0], b])),
                (gpusim.Invalid, "by rank", lambda: c.all_reduce(a)),
                (gpusim.Invalid, "by rank", lambda: c.all_reduce([a])),
                (gpusim.Invalid, "no reduction 'xor'", lambda: c.all_reduce([a, b], op="xor")),
                (gpusim.Invalid, "for integers", lambda: c.all_reduce([a, b], op="bxor")),
                (gpusim.Invalid, "no rank 2", lambda: c.broadcast([a, b], root=2)),
                (gpusim.Invalid, "factor", lambda: c.all_reduce([a, b], op="premulsum")),
                (gpusim.NotFound, "needs 3 devices", lambda: self.g.comm(3))):
            with self.assertRaisesRegex(kind, what):
                call()
        self.assertEqual((list(a), list(b)), ([1, 2], [3, 4]))


class Ranks(Machine):
    def test_collectives(self):
        c = self.ranks()
        got = both(lambda r: (list(c[r].all_reduce(np.array([1.0 + r]))),
                              list(c[r].all_gather(np.arange(r + 1.0), counts=[1, 2])),
                              list(c[r].reduce_scatter(np.array([1.0, 2.0]))),
                              list(c[r].all_reduce(np.array([1.0]), op="premulsum", factor=r + 2)),
                              list(c[r].all_to_all(np.arange(3.0), counts=[1, 2][::1 - 2 * r],
                                                   recv_counts=[1, 2][::1 - 2 * r])), c[r].barrier()))
        self.assertEqual(got[0], ([3], [0, 0, 1], [2], [5], [0, 0, 1], None))
        self.assertEqual(got[1], ([3], [0, 0, 1], [4], [5], [1, 2, 2], None))

    def test_async_and_timeout(self):
        c = self.ranks()
        a, b = self.arrays([1.0], [2.0])
        work = c[0].all_reduce(a, async_=True)
        self.assertFalse(work.done())
        with self.assertRaisesRegex(gpusim.Timeout, "allreduce #0 .*(rank 0 is in step|rank 1 .* has not called it)"):
            work.wait(timeout=0.2)
        c[1].all_reduce(b)
        self.assertEqual((list(work.wait()), list(b), work.done()), ([3], [3], True))

    def test_split_shrink_grow(self):
        c = self.ranks()
        turned = both(lambda r: c[r].split(0, -r))
        self.assertEqual([t.rank for t in turned], [1, 0])
        self.assertEqual(both(lambda r: c[r].split(r - 1))[0], None)
        left = c[1].shrink([0])
        self.assertEqual((left.size, left.devices), (1, self.devices[1:]))
        uid = self.g.unique_id()
        grown = both(lambda r: left.grow(2, uid) if r == 0 else
                     self.g.comm_grow(2, uid, 1, device=self.devices[0]))
        self.assertEqual([x.rank for x in grown], [0, 1])
        self.assertEqual(both(lambda r: list(grown[r].all_reduce(np.array([1.0])))), [[2], [2]])

    def test_ranks_that_disagree(self):
        c = self.ranks()
        got = both(lambda r: c[0].all_reduce(np.zeros(4)) if r == 0 else c[1].broadcast(np.zeros(3)))
        for e in got:
            self.assertIsInstance(e, gpusim.Mismatch)
            self.assertIn("calls broadcast of 3 f64 root 0", str(e))
            self.assertIn("calls allreduce of 4 f64 sum", str(e))
        self.assertIsInstance(c[0].error(), gpusim.Error)

    def test_what_an_array_keeps_of_its_call_is_not_stale(self):
        c, a = self.ranks(), self.arrays([1.0, 2.0], [3.0, -4.0])
        for op, want in (("sum", [4, -2]), ("max", [4, -2]), ("sum", [8, -4])):
            self.assertEqual(both(lambda r: list(c[r].all_reduce(a[r], op=op))), [want] * 2)
        for r in (0, 1):
            a[r].dtype = np.int64
            a[r][:] = 1 << 60, r
        self.assertEqual(both(lambda r: list(c[r].all_reduce(a[r]))), [[1 << 61, 1]] * 2)
        with self.assertRaisesRegex(gpusim.Mismatch, "is on device"):
            c[1].all_reduce(a[0])
        a[0].free()
        with self.assertRaisesRegex(gpusim.Invalid, "was freed"):
            c[0].all_reduce(a[0])
        c[0].close()
        with self.assertRaisesRegex(gpusim.Invalid, "was destroyed"):
            c[0].all_reduce(gpusim.array([1.0], self.devices[0]))

    def test_arrays_of_another_device(self):
        c = self.ranks()
        with self.assertRaisesRegex(gpusim.Mismatch, "is on device"):
            c[0].all_reduce(gpusim.array([1.0], self.devices[1]))

    def test_choice_of_algorithm(self):
        c = self.ranks()
        with self.assertRaisesRegex(gpusim.Invalid, "devices choose the algorithm"):
            c[0].all_reduce(np.zeros(1), algo="ring")
        for x in c:
            x.close()
        c = self.ranks(queues="off")
        self.assertEqual(both(lambda r: list(c[r].all_reduce(np.ones(1), algo="ring"))), [[2], [2]])

    def test_a_lost_device(self):
        c = self.ranks()
        a, b = self.arrays([1.0], [2.0])
        both(lambda r: c[r].all_reduce((a, b)[r]))
        os.kill(self.devices[1].pid, signal.SIGKILL)
        for e in both(lambda r: c[r].all_reduce((a, b)[r])):
            self.assertIsInstance(e, gpusim.RankLost)
            self.assertEqual((e.rank, e.device), (1, str(self.devices[1])))
            again = pickle.loads(pickle.dumps(e))
            self.assertEqual((type(again), again.rank, str(again)), (gpusim.RankLost, 1, str(e)))
        b += 1  # its memory is still here
        self.g.close()
        self.assertEqual(list(b), [b[0]])
        with self.assertRaisesRegex(gpusim.Invalid, "closed"):
            self.g.devices  # pylint: disable=pointless-statement


class Process(Machine):
    options = {"allow_inject": True}

    def test_a_forked_child_lives(self):
        a, c = gpusim.array([1.0, 2.0], self.devices[0]), self.g.comm(2)
        pid = os.fork()
        if pid == 0:
            status = 0
            for call in (lambda: c.barrier(), lambda: gpusim.connect(), lambda: gpusim.zeros(1, self.devices[0])):
                try:
                    call()
                    status = 1
                except gpusim.Forked:
                    pass
            status |= a.sum() != 3
            del a, c
            gc.collect()
            self.g.close()
            os._exit(status)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(list(c.all_reduce([a, gpusim.zeros(2, self.devices[1])])[1]), [1, 2])

    def test_ctrl_c_ends_a_wait(self):
        for wait in ("g.comm_init_rank(2, g.unique_id(), 0)", "c.recv(gpusim.zeros(1, c.devices[0]), 1, rank=0)"):
            code = ("import gpusim, sys\ng = gpusim.connect()\nc = g.comm(2)\n"
                    f"try:\n  print('waits', flush=True)\n  {wait}\nexcept KeyboardInterrupt: print('ended')\n")
            env = dict(os.environ, GPUSIM_COORD=self.g.coordinator)
            p = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env)
            self.assertEqual(p.stdout.readline(), "waits\n")
            p.send_signal(signal.SIGINT)
            self.assertEqual(p.communicate(timeout=30)[0], "ended\n")

    def test_what_happens(self):
        c = self.g.comm(2)
        c.barrier()
        self.assertEqual(self.g.status()["comms"][0]["epoch"], 1)
        self.assertIn("joined", [e["kind"] for e in self.g.events()])
        self.assertIn("Nothing waits", self.g.explain())
        self.assertIn("barrier", {e["name"].split()[0] for e in self.g.trace()})
        self.g.inject("kill rank=1 at=allreduce#next")
        with self.assertRaises(gpusim.RankLost) as caught:
            c.all_reduce([np.zeros(1), np.zeros(1)])
        self.assertEqual(caught.exception.rank, 1)
        with self.assertRaisesRegex(gpusim.Error, "no rank 7"):
            self.g.inject("kill rank=7")

    def test_nothing_is_here(self):
        with self.assertRaises(gpusim.Unreachable):
            gpusim.connect("ipc:///tmp/no-such-gpusim", timeout=1)
        with self.assertRaisesRegex(gpusim.Error, "--mem"):
            gpusim.cluster(1, mem="much")
        with self.assertRaisesRegex(gpusim.Error, "nope"):
            gpusim.cluster(1, nope=True)
        other = "import gpusim._lib as l\nl._SONAME = 'libgpusim.so.9.9'\nl.lib()"
        done = subprocess.run([sys.executable, "-c", other], stderr=subprocess.PIPE, text=True, check=False)
        self.assertIn("this package is for libgpusim.so.9.9", done.stderr)


if __name__ == "__main__":
    unittest.main()
