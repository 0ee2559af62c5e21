# gpusim.pytest: tests that start machines of simulated GPUs, and a process for each rank.
load python

setup() {
	python_setup
	needs_modules pytest
}

# pytest_ ARG... - run in $T, where test_it.py is; the plugin comes by the package's entry point
pytest_() { run bounded python3 -m pytest -p no:cacheprovider -q "$@"; }

@test "a test that takes rank runs once a rank, in processes, with its fixtures, parameters and marks" {
	cat >conftest.py <<'END'
import pytest

@pytest.fixture(scope="session")
def base():
    return 10
END
	cat >test_it.py <<'END'
import os
import numpy as np
import pytest

pytestmark = pytest.mark.gpusim(n=3)

@pytest.mark.parametrize("value", [2, 5], ids=["a b", "x::y[z]"])
def test_sum(rank, world_size, size, value, base, tmp_path, gpusim_comm):
    (tmp_path / "file").write_text("x")
    assert world_size == size == 3 == gpusim_comm.size and gpusim_comm.rank == rank
    assert gpusim_comm.all_reduce(np.array([value * rank + base]))[0] == 3 * value + 30
    with open(f"ran.{value}.{rank}", "x") as f:
        f.write(str(os.getpid()))

class TestMarks:
    @pytest.mark.gpusim(n=2, deterministic=True, memory="1M", latency=None)
    def test_class(self, rank, gpusim_cluster):
        assert os.environ["GPUSIM_DETERMINISTIC"] == "1" and len(gpusim_cluster.devices) == 2
        assert gpusim_cluster.devices[rank].nbytes == 1 << 20

@pytest.mark.gpusim(n=2, link="100ms,8Mb")
def test_link(rank, gpusim_comm, gpusim_cluster):
    gpusim_comm.all_reduce(np.zeros(100000, np.uint8))
    took = [e["dur"] for e in gpusim_cluster.trace() if e["name"].startswith("allreduce") and "dur" in e]
    assert max(took) >= 100e3  # microseconds: a sum cannot be faster than its link

def test_machine_in_this_process(gpusim_cluster, gpusim_comm, world_size):
    assert "RANK" not in os.environ and len(gpusim_cluster.devices) == world_size == gpusim_comm.size == 3
    assert [a[0] for a in gpusim_comm.all_reduce([np.array([v]) for v in (1.0, 2.0, 4.0)])] == [7, 7, 7]

@pytest.mark.parametrize("rank", [7])
def test_a_parameter_called_rank(rank):
    assert rank == 7 and "RANK" not in os.environ

def test_nothing_to_do_with_us():
    assert "RANK" not in os.environ
END
	pytest_ test_it.py
	assert_status 0
	passes 7
	assert_equal "$(echo ran.*)" 'ran.2.0 ran.2.1 ran.2.2 ran.5.0 ran.5.1 ran.5.2'
	assert_equal "$(cat ran.* | tr -d '\n' | wc -c)" "$(cat ran.* | wc -c)"
	refute_file "$(echo "$T"/gpusim-pytest.*)"
	assert_nothing_left
}

@test "a test fails with the text of each rank that failed, and a rank that ends is a failure" {
	cat >test_it.py <<'END'
import os
import numpy as np
import pytest

def test_one(rank):
    print("said by", rank)
    assert rank != 1, f"told by rank {rank}"

@pytest.mark.gpusim(n=3)
def test_same(rank, gpusim_comm):
    assert int(gpusim_comm.all_reduce(np.array([rank]))[0]) == 4

@pytest.fixture
def broken(rank):
    if rank:
        raise KeyError("in the setup")
    yield
    raise KeyError("in the teardown")

@pytest.mark.gpusim(n=1)
def test_teardown(rank, broken):
    pass

def test_setup(rank, broken):
    pass

def test_exit(rank):
    os._exit(rank)

def test_signal(rank):
    print("before the signal", flush=True)
    os.kill(os.getpid(), 11 * rank)

@pytest.mark.gpusim(nonsense=1)
def test_option(rank):
    pass

@pytest.mark.gpusim(n=0)
def test_none(rank):
    pass

@pytest.mark.xfail(strict=True)
def test_expected(rank):
    assert rank == 0

@pytest.mark.xfail(strict=True)
def test_unexpected(rank):
    pass

def test_skip(rank):
    pytest.skip("for a reason")

@pytest.mark.skip(reason="never begun")
def test_never(rank):
    os._exit(1)
END
	pytest_ -rs --junitxml=out.xml test_it.py
	assert_status 1
	assert_match '9 failed, 2 skipped, 1 xfailed'
	for text in 'rank 1 of 2 failed:.*AssertionError: told by rank 1.*1: said by 1' 'ranks? [012, ]+ of 3 failed:.*assert 3 == 4' \
		'rank 0 of 1 failed:.*in the teardown' 'rank 1 of 2 failed:.*in the setup' 'XPASS' 'for a reason' 'never begun' \
		'ranks? [01, ]+ of 2 ended before the end of the test; gpuctl run ended with exit status [1-9]' \
		'ranks? [01, ]+ of 2 ended before the end of the test.*before the signal' 'nonsense' 'n must be a positive int'; do
		assert_match "$text"
	done
	grep -Eq '<testcase [^>]*name="test_one"[^>]*><failure message="(Failed: )?rank 1 of 2 failed:' out.xml
	assert_equal "$(grep -o '<failure ' out.xml | wc -l)" 9
	cat >test_it.py <<'END'
import os
if "RANK" in os.environ:
    raise ImportError("not in a rank")

def test_import(rank):
    pass
END
	pytest_ test_it.py
	assert_status 1
	assert_match 'ranks? [01, ]+ of 2 failed:.*ImportError: not in a rank'
	refute_file "$(echo "$T"/gpusim-pytest.*)"
	assert_nothing_left
}

@test "an injected fault is an exception in the ranks that live" {
	cat >test_it.py <<'END'
import gpusim
import numpy as np
import pytest

@pytest.mark.gpusim(n=3, inject="kill rank=2 at=allreduce#1")
def test_loss(rank, gpusim_comm):
    assert gpusim_comm.all_reduce(np.array([rank]))[0] == 3
    with pytest.raises(gpusim.Error) as e:
        gpusim_comm.all_reduce(np.array([rank]))
    if rank != 2:
        assert isinstance(e.value, gpusim.RankLost) and e.value.rank == 2

@pytest.mark.gpusim(n=2, inject="kill rank=1 at=allreduce#0")
def test_loss_that_nobody_expects(rank, gpusim_comm):
    gpusim_comm.all_reduce(np.array([rank]))

@pytest.mark.gpusim(n=2, allow_inject=True)
def test_in_this_process(gpusim_cluster, gpusim_comm):
    gpusim_cluster.inject("kill rank=1 at=allreduce#0")
    with pytest.raises(gpusim.RankLost):
        gpusim_comm.all_reduce([np.zeros(1), np.zeros(1)])
END
	pytest_ test_it.py
	assert_status 1
	assert_match '1 failed, 2 passed'
	assert_match 'gpusim._lib.RankLost: .*rank 1'
	assert_match 'test_it.py:15: RankLost' # not the lines of gpusim below it
	assert_nothing_left
}

@test "a hang ends after the timeout with what explain says, the place of each rank, and a timeline" {
	cp "$ROOT/examples/test_deadlock.py" test_it.py
	pytest_ --junitxml=out.xml test_it.py
	assert_status 1
	assert_match '1 failed, 1 passed'
	assert_match 'after 5 s \(the timeout\) have not ended: ranks 0, 1, 2 of 3'
	assert_match 'allreduce #4 .* has been waiting for'
	assert_match 'ranks 0, 2 in, innermost first:.*line [0-9]+ in all_reduce.*line [0-9]+ in train.*rank 1 in, innermost'
	assert_match 'line [0-9]+ in recv'
	[[ $output =~ timeline,\ for\ ui.perfetto.dev:\ ([^[:space:]]+) ]]
	python3 -c 'import json, sys; assert any(e["name"].startswith("allreduce") for e in json.load(open(sys.argv[1])))' "${BASH_REMATCH[1]}"
	grep -q '<property name="gpusim.explain" value="comm 1 (3 ranks, epoch 1): allreduce' out.xml
	grep -q "<property name=\"gpusim.trace\" value=\"${BASH_REMATCH[1]}\"" out.xml
	wait_until 5 not pgrep -f "$T/"
}

@test "a hang in a test that has the machine in its own process is explained, too" {
	cat >test_it.py <<'END'
import numpy as np
import pytest

@pytest.mark.gpusim(timeout=3)
def test_hang(gpusim_cluster):
    comm = gpusim_cluster.comm_init_rank(2, gpusim_cluster.unique_id(), 0, op_timeout=float("inf"))
END
	pytest_ --junitxml=out.xml test_it.py
	assert_status 1
	assert_match 'Timeout: .*3 s'
	assert_match 'gpuctl explain'
	grep -q 'name="gpusim.explain" value="[^"]*rank 1' out.xml
	assert_nothing_left
}

@test "-p gpusim.pytest: the plugin where the package's data are not; beside other plugins of a command line" {
	mkdir bare
	ln -s "$BUILD/python/gpusim" bare/gpusim
	cat >other.py <<'END'
import pytest

@pytest.fixture
def other():
    return 5
END
	cat >test_it.py <<'END'
def test_other(rank, other):
    assert other == 5
END
	export GPUSIM_LIBDIR=$BUILD PYTHONPATH=$T/bare:$T
	pytest_ -p gpusim.pytest -p other test_it.py
	assert_status 0
	passes 1
	PYTHONPATH=$BUILD/python:$T
	pytest_ -p gpusim.pytest -p other --junitxml=out.xml -v test_it.py
	assert_status 0
	passes 1
	assert_nothing_left
}
