# gpusim.nccl and gpusim.cuda: the calls of cupy.cuda.nccl from Python, and the example that uses them.
load python

@test "gpusim.nccl: collectives against NumPy, wrong arguments, threads, failures, fork, Ctrl-C" {
	needs_modules pytest
	run bounded gpuctl run --nccl -n 4 -- python3 -m pytest -q -p no:cacheprovider "$ROOT/tests/python/test_nccl.py"
	assert_status 0
	passes 151
	assert_nothing_left
}

@test "gpusim.nccl: the death of a rank's process, or of its device, is an exception that names it" {
	cat >ranks.py <<'END'
import json, os, signal, subprocess, sys
import numpy as np
from gpusim import cuda, nccl

how = sys.argv[1]
if len(sys.argv) == 2:  # starts a process for each rank
    made = nccl.get_unique_id().hex()
    ranks = [subprocess.Popen([sys.executable, __file__, how, made, str(r)]) for r in (0, 1)]
    sys.exit(max(r.wait() for r in ranks))
rank = int(sys.argv[3])
cuda.set_device(rank)
comm = nccl.NcclCommunicator(2, bytes.fromhex(sys.argv[2]), rank)
a = cuda.array(np.full(8, rank + 1.0))
comm.allReduce(a.ptr, a.ptr, 8, nccl.NCCL_DOUBLE, nccl.NCCL_SUM, 0)
assert (a.get() == 3).all()
if rank == 1 and how == "process":
    os._exit(0)
if rank == 1 and how == "device":
    os.kill(json.loads(subprocess.check_output(["gpuctl", "devices", "--json"]))[1]["pid"], signal.SIGKILL)
try:
    comm.allReduce(a.ptr, a.ptr, 8, nccl.NCCL_DOUBLE, nccl.NCCL_SUM, 0)
    cuda.Stream.null.synchronize()
    print(rank, "has a sum")
except (cuda.CUDARuntimeError, nccl.NcclError) as e:
    assert (np.asarray(a) == 3).all()  # what was there can still be read
    print(f"{rank}: {e}", flush=True)
    try:
        comm.check_async_error()
    except nccl.NcclError as e:
        print(f"{rank}: {e}")
END
	run --separate-stderr bounded gpuctl run --nccl -n 2 -- python3 ranks.py process
	assert_status 0
	assert_match '0: cudaErrorLaunchFailure: .*rank 1'
	assert_match '0: NCCL_ERROR_REMOTE_ERROR: .*rank 1'
	run --separate-stderr bounded gpuctl run --nccl -n 2 -- python3 ranks.py device
	assert_match '0: cudaErrorLaunchFailure: .*rank 1 \(device [0-9a-f]{16}\) (is gone|lost)'
	assert_match '1: .*device [0-9a-f]{16} has ended'
	[[ $output != *'has a sum'* ]]
	assert_nothing_left
}

@test "gpusim.nccl: without a machine, a sentence and no wait" {
	run bounded python3 -c 'from gpusim import nccl; nccl.NcclCommunicator.initAll(2)'
	assert_status 1
	assert_match 'CUDARuntimeError: cudaErrorNoDevice: .*no coordinator'
	run bounded python3 -c 'from gpusim import cuda; cuda.zeros(2)'
	assert_status 1
	assert_match 'CUDARuntimeError: cudaErrorNoDevice: .*no coordinator'
}

@test "needle_style.py: mpirun's ranks learn what one process learns" {
	needs mpirun
	needs_modules mpi4py
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
	bounded gpuctl run --nccl -n 1 -- python3 "$ROOT/examples/needle_style.py" >one
	assert_equal "$(wc -l <one)" 20
	at_least "$(awk 'NR == 1 { print $4 }' one)" 1.3
	at_least 0.5 "$(awk 'NR == 20 { print $4 }' one)"
	for n in 2 4; do
		bounded gpuctl run --nccl -n 4 -- mpirun --allow-run-as-root --oversubscribe -n $n python3 "$ROOT/examples/needle_style.py" >many
		paste one many | awk '{ d = $4 - $8 } d > 1e-7 || d < -1e-7 || $2 != $6 { exit 1 }'
	done
	assert_nothing_left
}
