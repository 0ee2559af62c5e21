"""A plugin for pytest: tests of distributed programs, on machines of simulated GPUs that each test starts for itself.

    @pytest.mark.gpusim(n=4, link="1ms,10Gb")
    def test_mean(rank, gpusim_comm):        # it takes `rank`: a process for each rank calls it
        assert gpusim_comm.all_reduce(np.array([rank]), op="avg")[0] == 1.5

pytest finds the plugin where gpusim is installed; else say -p gpusim.pytest. Fixtures:

gpusim_cluster  gpusim.Machine of the test, with n devices
gpusim_comm     gpusim.Comm of all its devices; in a test that takes rank: this rank's
rank            0 .. n - 1. Each rank is a process that runs this one test with its fixtures, those of a session too;
                it is started as by `gpuctl run --each`, so torch's ranks, too, find each other
world_size      n; size is the same

The mark's arguments, all optional: n (2), timeout in seconds of the test itself (60), inject (a fault, such as
"kill rank=2 at=allreduce#50", or a list), deterministic (True), link (latency, bandwidth), memory ("16G"); any other is
an option of gpuctl run, with _ for -.
A test fails with the text of each rank that failed. One that takes longer than its timeout fails with what
`gpuctl explain` says, the place of each rank in its program, and the path of a timeline for ui.perfetto.dev; JUnit's
XML has them as the properties gpusim.explain and gpusim.trace.
"""
from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

import pytest

from . import _lib, machine

FOLDER, NODE, ID = "GPUSIM_PYTEST_FOLDER", "GPUSIM_PYTEST_NODE", "GPUSIM_PYTEST_ID"
START = 60.0  # seconds until all ranks have begun the test; its timeout counts from then on
LIFE = 30.0  # seconds, beyond both, after which a rank ends itself
GRACE = 2.0  # seconds that a rank which has failed leaves the others for their own reports


# ------------------------------------------------------------------ marks and fixtures

def _options(item: Any) -> Dict[str, Any]:
    """The marks of a test, its class and module: n, timeout, deterministic, and options of gpuctl run."""
    options: Dict[str, Any] = {"n": 2, "timeout": 60, "deterministic": False}
    for mark in reversed(list(item.iter_markers("gpusim"))):
        if mark.args:
            raise pytest.UsageError(f"{item.nodeid}: the mark gpusim takes arguments by name, such as gpusim(n=4)")
        options.update(mark.kwargs)
    n, timeout = options["n"], options["timeout"]
    if not isinstance(n, int) or n < 1 or not isinstance(timeout, (int, float)) or timeout <= 0:
        raise pytest.UsageError(f"{item.nodeid}: the mark gpusim has n={n!r} and timeout={timeout!r}: n must be a "
                                "positive int, timeout positive seconds")
    if "memory" in options:
        options["mem"] = options.pop("memory")
    if "link" in options:
        options["latency"], _, bandwidth = str(options.pop("link")).partition(",")
        options["bandwidth"] = bandwidth.strip() or None
    return options


def _of_ranks(item: Any) -> bool:
    """The test takes our rank, not a parameter or a fixture of that name."""
    found = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {}).get("rank")
    return bool(found) and found[-1].func.__module__ == __name__ and \
        "rank" not in getattr(getattr(item, "callspec", None), "params", ())


@pytest.fixture
def rank() -> int:
    """This process's rank."""
    return int(os.environ["RANK"])


@pytest.fixture
def world_size(request: Any) -> int:
    """The number of ranks, or of devices."""
    return _options(request.node)["n"]


@pytest.fixture
def size(world_size: int) -> int:
    """As world_size."""
    return world_size


@pytest.fixture
def gpusim_cluster(request: Any) -> Iterator[machine.Machine]:
    """The machine of this test, as gpusim.cluster(n) makes it."""
    options = _options(request.node)
    if FOLDER in os.environ:
        with machine.connect() as g:
            yield g
        return
    n, timeout, deterministic = (options.pop(name) for name in ("n", "timeout", "deterministic"))
    with _environment(GPUSIM_DETERMINISTIC="1" if deterministic else None), machine.cluster(n, **options) as g, \
            _alarm(timeout):
        yield g


@pytest.fixture
def gpusim_comm(request: Any, gpusim_cluster: machine.Machine, world_size: int) -> Any:
    """A communicator of all devices of the machine; in a test that takes rank, this rank's handle of it."""
    if FOLDER in os.environ:
        return gpusim_cluster.comm_init_rank(world_size, os.environ[ID], request.getfixturevalue("rank"),
                                             op_timeout=float("inf"))
    return gpusim_cluster.comm(world_size)


@contextlib.contextmanager
def _environment(**names: Optional[str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in names}
    os.environ.update({name: value for name, value in names.items() if value is not None})
    yield
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextlib.contextmanager
def _alarm(timeout: float) -> Iterator[None]:
    """Raise Timeout in the main thread after this time, unless somebody else uses the alarm."""
    def ring(*_: Any) -> None:
        raise _lib.Timeout(f"the test has taken longer than {timeout:g} s")

    free = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
    if free:
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, timeout)
    try:
        yield
    finally:
        if free:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)


# ------------------------------------------------------------------ hooks

def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "gpusim(n=2, timeout=60, inject=..., deterministic=..., link=..., memory=...): "
                                       "the machine of simulated GPUs of a test; see gpusim.pytest")
    if FOLDER in os.environ:
        config.pluginmanager.register(_Rank(), "gpusim-rank")


def pytest_collection_modifyitems(items: List[Any]) -> None:
    if FOLDER in os.environ:
        items[:] = [item for item in items if item.nodeid == os.environ[NODE]]
        return
    for item in items:
        if _of_ranks(item):
            item.setup = lambda: None  # the ranks do it
            item.runtest = lambda item=item: _run(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[None]:
    """Tracebacks end at the test's call of gpusim. For a test that has hung with a machine of its own: say what hangs
    there, while it is still there."""
    if call.excinfo is not None:
        for name, module in list(sys.modules.items()):
            if name.startswith("gpusim."):
                # pytest leaves out its functions; of a test of ranks it shows none, and says so if all are left out
                module.__dict__["__tracebackhide__"] = FOLDER in os.environ or not _of_ranks(item)
    g = getattr(item, "funcargs", {}).get("gpusim_cluster")
    hung = call.when == "call" and call.excinfo is not None and call.excinfo.errisinstance(_lib.Timeout)
    if hung and g is not None and FOLDER not in os.environ:
        text, path = _explain(item, g, tempfile.mkdtemp(prefix="gpusim-pytest."))
        item.add_report_section("call", "gpuctl explain", f"{text}\ntimeline: {path}")
    yield


class _Rank:
    """A rank's process: tells the test's own process what became of it, in FOLDER/rank.N.json."""

    def __init__(self) -> None:
        self.state: Dict[str, Any] = {"pid": os.getpid(), "coordinator": os.environ["GPUSIM_COORD"], "outcome": None,
                                      "text": "", "at": 0.0, "begun": False, "done": False}
        folder, name = os.environ[FOLDER], os.environ["RANK"]
        self.path = os.path.join(folder, f"rank.{name}.json")
        self.stack = open(os.path.join(folder, f"rank.{name}.stack"), "w")
        faulthandler.register(signal.SIGUSR1, self.stack, all_threads=False)
        faulthandler.dump_traceback_later(float(os.environ["GPUSIM_PYTEST_LIFE"]), exit=True, file=self.stack)
        self.tell()

    def tell(self) -> None:
        with open(self.path + ".new", "w") as f:
            json.dump(self.state, f)
        os.replace(self.path + ".new", self.path)

    def pytest_sessionstart(self, session: Any) -> None:
        reporter = session.config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            reporter._tw._file = open(os.devnull, "w")  # what remains is the program's own output

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.note("failed", report.longreprtext)

    def pytest_runtest_logstart(self) -> None:
        self.state["begun"] = True
        self.tell()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.skipped:
            self.note("skipped", report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext)
        elif report.failed or self.state["outcome"] is None:
            self.note(report.outcome, report.longreprtext)

    def note(self, outcome: str, text: str) -> None:
        if self.state["outcome"] != "failed":
            self.state.update(outcome=outcome, text=text, at=time.monotonic())
            self.tell()

    def pytest_sessionfinish(self) -> None:
        self.state["done"] = True
        self.tell()
        until = time.monotonic() + GRACE
        while self.state["outcome"] == "failed" and time.monotonic() < until and \
                not all(s.get("done") for s in _states(int(os.environ["WORLD_SIZE"]), os.environ[FOLDER])):
            time.sleep(0.02)  # this rank's end is that of the others, which may have failed in the same way
        faulthandler.cancel_dump_traceback_later()


# ------------------------------------------------------------------ running the ranks

def _run(item: Any) -> None:
    """Run the test in a process for each rank, and fail with what the ranks say."""
    options = _options(item)
    folder, kept = tempfile.mkdtemp(prefix="gpusim-pytest."), False
    try:
        with open(os.path.join(folder, "output"), "w+b") as output:
            process = subprocess.Popen(_command(item, options), env=_rank_environment(item, options, folder),
                                       stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
            try:
                hang = ""
                if not _ended(process, options["n"], folder, options["timeout"]):
                    hang, kept = _hang(item, options, folder), True
            finally:
                _end(process)
            output.seek(0)
            said = output.read().decode(errors="replace")
        print(said, end="")
        _judge(options["n"], folder, process.returncode, hang, said)
    finally:
        for name in os.listdir(folder):
            if not (kept and name == "trace.json"):
                os.unlink(os.path.join(folder, name))
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


def _ended(process: Any, n: int, folder: str, timeout: float) -> bool:
    """Wait for the ranks: START seconds until all have begun the test, then for the timeout. False: they still run."""
    until, begun = time.monotonic() + START, False
    while process.poll() is None and time.monotonic() < until:
        if not begun and all(s.get("begun") for s in _states(n, folder)):
            begun, until = True, time.monotonic() + timeout
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(until - time.monotonic() if begun else 0.05)
    return process.poll() is not None


def _command(item: Any, options: Dict[str, Any]) -> List[str]:
    config = item.config
    words = [_lib.program("gpuctl"), "run", "--each", "--label", "-n", str(options["n"])]
    words += machine.option_words({k: v for k, v in options.items() if k not in ("n", "timeout", "deterministic")})
    words += ["--", sys.executable, "-m", "pytest", "-s", "-q", "--runxfail", "-o", "addopts="]
    for name in dict.fromkeys(["gpusim.pytest", "no:cacheprovider", *config.option.plugins]):
        words += ["-p", name]
    words += [f"--rootdir={config.rootpath}", f"--import-mode={config.getoption('importmode')}"]
    words += ["-c", str(config.inipath)] if config.inipath else []
    return words + [str(item.path)]


def _rank_environment(item: Any, options: Dict[str, Any], folder: str) -> Dict[str, str]:
    env = {k: v for k, v in os.environ.items() if k not in ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST")}
    env.update({FOLDER: folder, NODE: item.nodeid, ID: machine.unique_id(),
                "GPUSIM_PYTEST_LIFE": str(START + options["timeout"] + LIFE)})
    if options["deterministic"]:
        env["GPUSIM_DETERMINISTIC"] = "1"
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    env["PYTHONPATH"] = os.pathsep.join([package] + [p for p in [env.get("PYTHONPATH")] if p])
    return env


def _states(n: int, folder: str) -> List[Dict[str, Any]]:
    """What each rank has told: {} for one that has told nothing."""
    out: List[Dict[str, Any]] = []
    for r in range(n):
        try:
            with open(os.path.join(folder, f"rank.{r}.json")) as f:
                out.append(json.load(f))
        except FileNotFoundError:
            out.append({})
    return out


def _explain(item: Any, g: Any, folder: str) -> Tuple[str, str]:
    """What hangs, and the path of a timeline; both become properties of the test."""
    path = os.path.join(folder, "trace.json")
    try:
        text = g.explain().rstrip()
        g.trace(path)
    except (_lib.Error, OSError, subprocess.SubprocessError) as e:
        text, path = f"no explanation: {e}", ""
    item.user_properties += [("gpusim.explain", text), ("gpusim.trace", path)]
    return text, path


def _hang(item: Any, options: Dict[str, Any], folder: str) -> str:
    """The report of a test whose ranks have not ended, while they still run."""
    states = _states(options["n"], folder)
    running = [r for r, s in enumerate(states) if not s.get("done")]
    begun = all(s.get("begun") for s in states)
    when = f"after {options['timeout']:g} s (the timeout)" if begun else f"not all began within {START:g} s, and"
    parts = [f"{when} have not ended: {_ranks(running)} of {options['n']}"]
    found = next((s["coordinator"] for s in states if s), None)
    if found:
        try:
            with machine.connect(found, timeout=10) as g:
                text, path = _explain(item, g, folder)
        except _lib.Error as e:
            text, path = f"no explanation: {e}", ""
        parts += [text] + ([f"timeline, for ui.perfetto.dev: {path}"] if path else [])
    places: Dict[str, List[int]] = {}
    for r in running:
        if states[r]:
            place = _stack(states[r]["pid"], os.path.join(folder, f"rank.{r}.stack"))
            places.setdefault(place, []).append(r)
    parts += [f"{_ranks(ranks)} in, innermost first:\n{place}" for place, ranks in places.items()]
    return "\n\n".join(parts)


def _ranks(ranks: List[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, sorted(ranks)))


def _stack(pid: int, path: str) -> str:
    """Where a rank's main thread is, without the lines of pytest, and of gpusim below the call of the test."""
    try:
        os.kill(pid, signal.SIGUSR1)
    except ProcessLookupError:
        return "  (it has just ended)"
    lines: List[str] = []
    until = time.monotonic() + 2
    while not lines and time.monotonic() < until:
        time.sleep(0.02)
        with open(path) as f:
            lines = f.read().splitlines()[1:]
    theirs = [i for i, line in enumerate(lines) if "/_pytest/" in line or "/pluggy/" in line]
    lines = lines[:theirs[0] if theirs else None]
    while len(lines) > 1 and "/gpusim/" in lines[1]:
        del lines[0]
    return "\n".join(lines) or "  (it does not answer)"


def _end(process: Any) -> None:
    """End gpuctl run, which ends its ranks and devices."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _judge(n: int, folder: str, status: int, hang: str, said: str) -> None:
    """Fail, skip or return. A rank has passed only if it says so."""
    states = _states(n, folder)
    parts: List[str] = []
    failed: Dict[str, List[int]] = {}  # alike but for their own names: the text of the first
    texts: Dict[str, str] = {}
    for r in sorted(range(n), key=lambda r: states[r].get("at", 0.0)):  # the first failure first
        if states[r].get("outcome") == "failed":
            text = states[r]["text"]
            alike = re.sub(r"rank = \d+|, rank \d+>|0x[0-9a-f]+", "", text)
            texts.setdefault(alike, text)
            failed.setdefault(alike, []).append(r)
    parts += [f"{_ranks(ranks)} of {n} failed:\n{texts[alike]}" for alike, ranks in failed.items()]
    if hang:
        parts.append(hang)
    lost = [r for r in range(n) if not states[r].get("done")]
    if not parts and lost:
        parts.append(f"{_ranks(lost)} of {n} ended before the end of the test; gpuctl run ended with exit status "
                     f"{status}. The end of their output:\n{said[-4000:]}")
    if not parts and status != 0:
        parts.append(f"all ranks passed, but gpuctl run ended with exit status {status}:\n{said[-4000:]}")
    if parts:
        pytest.fail("\n\n".join(parts), pytrace=False)
    if all(s["outcome"] == "skipped" for s in states):
        pytest.skip(states[0]["text"])
