# gpuctl run: ranks that are started again, faults from the start, and programs of torch.distributed.
# shellcheck disable=SC2016,SC2154
load python

setup() { house_setup; }

run_each() { bounded gpuctl run --report-dir none "$@"; }

# with_torch - for what needs Python and torch: gpuctl finds the package
with_torch() {
	house_teardown
	python_setup
	needs_modules torch
	unset PYTHONPATH
}

@test "--max-restarts: all ranks start again, and are told how often; then the failure is the job's" {
	run run_each --each -n 3 --max-restarts 2 -- sh -c 'echo "$TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS" >>"log.$RANK"
		[ $RANK != 1 ] || { while [ "$(cat log.* | wc -l)" -lt $(((TORCHELASTIC_RESTART_COUNT + 1) * 3)) ]; do :; done; exit 3; }
		exec tail -f /dev/null'
	assert_status 3
	assert_equal "$(printf '%s\n' "$output" | sed 's/pid [0-9]*/pid P/')" "gpuctl: run: rank 1 (pid P) ended with exit status 3: starting all ranks again (1 of 2)
gpuctl: run: rank 1 (pid P) ended with exit status 3: starting all ranks again (2 of 2)
gpuctl: run: rank 1 (pid P) ended with exit status 3, after 2 restarts"
	for r in 0 1 2; do
		assert_equal "$(<log.$r)" $'0 2\n1 2\n2 2'
	done
	assert_nothing_left
}

@test "--max-restarts: a job that then succeeds is a success; kill -9 is named; rank 1 left something behind" {
	run run_each --each --label -n 2 --max-restarts 5 -- sh -c 'echo "start $TORCHELASTIC_RESTART_COUNT"
		if [ $RANK$TORCHELASTIC_RESTART_COUNT = 10 ]; then sleep 1000 & kill -9 $$; fi'
	assert_status 0
	assert_match 'rank 1 \(pid [0-9]*\) killed by signal 9 \(Killed\): starting all ranks again \(1 of 5\)'
	assert_match '1: start 0'
	assert_match '1: start 1'
	assert_nothing_left
}

@test "--restart rank: the failed rank alone, while the others go on" {
	mkfifo go
	run run_each --each -n 3 --max-restarts 4 --restart rank -- sh -c 'echo "$TORCHELASTIC_RESTART_COUNT" >>"log.$RANK"
		case $RANK:$TORCHELASTIC_RESTART_COUNT in
		0:0) read -r x <go ;;
		2:[01]) exit 7 ;;
		2:2) echo >go ;;
		esac'
	assert_status 0
	assert_match 'rank 2 .* exit status 7: starting it again \(2 of 4\)'
	assert_equal "$(<log.0) $(<log.1) $(tr '\n' ' ' <log.2)" '0 0 0 1 2 '
	assert_nothing_left
}

@test "--max-restarts: ^C and SIGTERM end the job also while its ranks end to be started again" {
	mkfifo up
	for mode in all rank; do
		background gpuctl run --report-dir none --each -n 2 --max-restarts 1000000 --restart $mode -- sh -c 'trap "" TERM; echo >up; exec cat /dev/tty' 2>err.$mode
		read -r _ <up
		kill -TERM "$PID"
		wait "$PID" || status=$?
		((status != 0))
	done
	assert_nothing_left
	run -127 run_each --each -n 2 --max-restarts 3 -- ./not-there

	assert_equal "$(wc -l <<<"$output")" 1
}

@test "--max-restarts: an interrupt while ranks end to be started again ends the job" {
	mkfifo up deaf
	background gpuctl run --report-dir none --each -n 2 --max-restarts 5 -- sh -c 'trap "" TERM
		if [ $RANK = 1 ]; then read -r _ <deaf; echo >up; exit 3; fi
		echo >deaf
		exec tail -f /dev/null' 2>err
	read -r _ <up
	wait_until 5 grep -q 'starting all ranks again (1 of 5)' err
	kill -INT "$PID"
	wait "$PID" || status=$?
	assert_equal "$status" 130
	[ "$(wc -l <err)" = 1 ] || fail "$(cat err)"
	assert_nothing_left
}

@test "options of ranks without ranks are wrong usage" {
	for options in '--max-restarts 2' '--restart rank' '--procs 1' '--torch --procs 1 --each' '--torch --procs 1 --label' \
		'--each --restart rank' '--torch --procs 2'; do
		read -ra words <<<"$options"
		run run_each -n 2 "${words[@]}" -- true
		assert_status 2
	done
	for fault in '' 'kil rank=1' 'at=now'; do
		run run_each -n 2 --inject "$fault" -- touch ran
		assert_status 2
	done
	run run_each -n 2 --inject 'kill rank=2' -- touch ran
	((status != 0))
	assert_match 'no device 2'
	refute_file ran
}

@test "--inject: faults wait for the command's operations; a lost device comes back for ranks that may start again" {
	printf '1\n2\n3\n' >in
	run run_each -n 3 --inject 'kill rank=2 at=allreduce#1' -- sh -c '
		c=$(gpuctl comm-init -n 3) && a= && for r in 0 1 2; do a=$a,$(gpuctl malloc --comm $c --rank $r 8); done
		for i in 1 2; do gpuctl allreduce --comm $c --addr ${a#,} --count 1 && echo done $i; done
		gpuctl comm-destroy $c; gpuctl comm-init -n 3'
	assert_match 'done 1'
	[[ $output != *'done 2'* ]]
	assert_match 'rank 2 .*lost: '
	assert_match 'needs 3 devices; 2 of 3 are available'
	# With --torch, or restarts, the device comes back, and whoever wants it waits.
	run run_each --torch --procs 1 -n 3 --inject 'kill rank=2 at=allreduce#0' -- sh -c '
		c=$(gpuctl comm-init -n 3) && a= && for r in 0 1 2; do a=$a,$(gpuctl malloc --comm $c --rank $r 8); done
		gpuctl allreduce --comm $c --addr ${a#,} --count 1; gpuctl comm-destroy $c; exec gpuctl comm-init -n 3'
	assert_status 0
	assert_match 'rank 2 .*lost: '
	assert_equal "$(tail -n 1 <<<"$output")" 2
	assert_nothing_left
}

@test "ranks that start again form a communicator with a device that was killed" {
	gpuctl unique-id >id.0
	gpuctl unique-id >id.1
	run run_each --each -n 3 --max-restarts 1 -- sh -c 'c=$(gpuctl comm-init --id "$(cat id.$TORCHELASTIC_RESTART_COUNT)" --device $GPUSIM_DEVICE) || exit 1
		echo "$TORCHELASTIC_RESTART_COUNT $c" >>log.$RANK
		[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0
		while [ "$(cat log.* | wc -l)" -lt 3 ]; do :; done
		[ $RANK = 1 ] || exec tail -f /dev/null
		pid() { gpuctl devices --json | tr "{" "\n" | sed -n "s/.*\"index\":1,.*\"pid\":\([0-9]*\).*/\1/p"; }
		kill -9 $(pid)
		until gpuctl events | grep -q "lost:"; do :; done
		kill -9 $$		exec tail -f /dev/null'
	assert_status 0
	for r in 0 1 2; do
		assert_equal "$(<log.$r)" $'0 1\n1 2'
	done
	assert_nothing_left
}

@test "the command finds the package, after what the user has named; --torch puts its hook first, which is free without torch" {
	with_torch
	mkdir mine
	echo 'print("mine")' >mine/sitecustomize.py
	run env PYTHONPATH=/other gpuctl run -n 1 -- python3 -c 'import gpusim, os; print(os.environ["PYTHONPATH"], gpusim.__file__)'
	assert_output "/other:$BUILD/python $BUILD/python/gpusim/__init__.py"
	run env PYTHONPATH="$T/mine" gpuctl run --torch --procs 1 -n 1 -- python3 -c 'import sys; print({"torch", "numpy", "gpusim"} & set(sys.modules))'
	assert_output $'mine\nset()'
	mkdir bin
	ln "$BUILD/bin/gpuctl" bin 2>/dev/null || cp "$BUILD/bin/gpuctl" bin
	run bin/gpuctl run --torch -n 1 -- true
	assert_status 1
	assert_match 'install python3-gpusim'
}

@test "--torch: programs that say gloo, nccl or gpusim use it, in groups too, and again after the end of the first group" {
	with_torch
	cat >program.py <<'END'
import os
import torch
import torch.distributed as dist
for backend in "gloo", "nccl", "gpusim":
    dist.init_process_group(backend)
    rank, x = dist.get_rank(), torch.ones(3)
    dist.all_reduce(x)
    half = dist.new_group([0, 1], backend=None if backend == "gloo" else backend)
    if rank < 2:
        dist.all_reduce(x, group=half)
    objects = [None] * 3
    dist.all_gather_object(objects, rank)
    if backend != "gpusim":
        dist.monitored_barrier()
    pg = dist.distributed_c10d._get_default_group()
    said = rank, backend, dist.get_backend(), x.tolist(), objects, type(pg).__module__
    os.write(1, (" ".join(map(str, said)) + "\n").encode())  # in one piece
    dist.destroy_process_group()
print(os.environ["OMP_NUM_THREADS"], dist.is_torchelastic_launched())
END
	run run_each --torch -n 3 -- python3 program.py
	assert_status 0
	for r in 0 1 2; do
		each=$((r < 2 ? 6 : 3)).0
		for b in 'gloo gloo' 'nccl gloo' 'gpusim gpusim'; do
			assert_match "(^|.)$r $b \[$each, $each, $each\] \[0, 1, 2\] gpusim.torch"
		done
	done
	assert_match '1 True'
	assert_nothing_left
}

@test "--torch --procs 1: a program that starts its ranks itself, by env:// twice, with fewer ranks, and by tcp://" {
	with_torch
	cat >program.py <<'END'
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def main(rank, n, tcp):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["PORT"])
    url = f"tcp://127.0.0.1:{os.environ['PORT']}" if tcp else None
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=n)
    x = torch.tensor([rank + 1.0])
    dist.all_reduce(x)
    if rank == 0:
        print(x.item(), type(dist.distributed_c10d._get_default_group()).__module__, flush=True)
    dist.barrier()

if __name__ == "__main__":
    for n, tcp in (3, False), (3, False), (2, False), (3, True):
        mp.spawn(main, (n, tcp), nprocs=n)
END
	# Not one that the kernel may give to a connection meanwhile.
	RANDOM=$CHANCE
	while PORT=$((20000 + RANDOM % 10000)) && (: <>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; do :; done
	export PORT
	LIMIT=120 run run_each --torch --procs 1 -n 3 -- python3 program.py
	assert_status 0
	assert_output $'6.0 gpusim.torch\n6.0 gpusim.torch\n3.0 gpusim.torch\n6.0 gpusim.torch'
	assert_nothing_left
}

# all_right N STEPS - each rank's sum is what it is without any loss
all_right() {
	local sum=$(($1 * ($1 + 1) * $2 * ($2 + 1) / 4)).0
	(($(grep -c "^rank [0-9]: \[$sum\]$" out) == $1)) || fail "not $1 times $sum: $(cat out err)"
}

@test "rejoin: ranks that are killed, two at a time, by --restart rank; the others are told who, and go on" {
	with_torch
	LIMIT=120 run_each --torch -n 4 --max-restarts 4 --restart rank -- python3 "$ROOT/tests/python/torch_rejoin.py" 60 "$T" \
		2.0.17 0.0.17 0.1.40 >out 2>err
	all_right 4 60
	assert_equal "$(grep -c 'killed by signal 9 (Killed): starting it again' err)" 3
	grep -q 'rank 1: RankLost of rank [02]$' err
	grep -q 'rank 2: RankLost of rank 0$' err
	assert_nothing_left
}

@test "rejoin: devices that are killed, also two at a time and those of the same rank again, and a rank with its device" {
	with_torch
	LIMIT=120 run_each --torch -n 3 --max-restarts 1 --restart rank -- python3 "$ROOT/tests/python/torch_rejoin.py" 60 "$T" \
		1.d.7 1.d.13 1.d.22 0.d.30 2.d.30 0.d.36 1.0.44 1.d.44 >out 2>err
	all_right 3 60
	grep -q 'rank 0: RankLost of rank 1$' err
	assert_nothing_left
}

@test "--max-restarts with torch: all begin at the checkpoint; K exhausted is a failure" {
	with_torch
	LIMIT=120 run_each --torch -n 3 --max-restarts 2 -- python3 "$ROOT/tests/python/torch_rejoin.py" 40 "$T" 1.0.17 2.1.30 >out 2>err
	all_right 3 40
	grep -q 'rank 2 .*: starting all ranks again (2 of 2)' err
	rm checkpoint
	LIMIT=120 run run_each --torch -n 2 --max-restarts 1 -- python3 "$ROOT/tests/python/torch_rejoin.py" 40 "$T" 1.0.17 1.1.30
	assert_status 137
	assert_match 'rank 1 .*killed by signal 9 \(Killed\), after 1 restart'
	assert_nothing_left
}

@test "rejoin: ranks that do not come are named" {
	with_torch
	cat >program.py <<'END'
import os, sys
import torch.distributed as dist
import gpusim, gpusim.torch
dist.init_process_group("gloo")
if dist.get_rank() == 1:
    sys.exit(0)
try:
    gpusim.torch.rejoin(timeout=2)
except gpusim.Timeout as e:
    os.write(1, f"{e}\n".encode())
END
	run run_each --torch -n 3 -- python3 program.py
	assert_status 0
	for r in 0 2; do
		assert_match "rank $r: rank 1 of 3 has not come within"
	done
}

@test "rejoin: a new process that ends at any step of the group's forming is no obstacle for the next" {
	with_torch
	cat >program.py <<'END'
import os, signal
import torch
import torch.distributed as dist
import gpusim, gpusim.torch

rank, start = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

if rank == "1" and start == "1":
    gpusim.torch.Machine.comm_init_rank = die
elif rank == "1" and start == "2":
    gpusim.torch.Mailbox = die
elif rank == "1" and start == "3":
    dist.distributed_c10d._store_based_barrier = dist.all_reduce = die  # torch 2 has no barrier there
dist.init_process_group("gloo")
while True:
    try:
        for i in range(20):
            if rank == "1" and start == "0" and i == 10:
                die()
            x = torch.ones(1)
            dist.all_reduce(x)
        group = dist.new_group([0, 1])
        if rank != "2":
            dist.all_reduce(x, group=group)
        dist.barrier()
        break
    except gpusim.Error:
        gpusim.torch.rejoin()
os.write(1, f"rank {rank} start {start}: {x.item()}\n".encode())
END
	LIMIT=120 run_each --torch -n 3 --max-restarts 6 --restart rank -- python3 program.py >out 2>err
	assert_equal "$(sort out)" $'rank 0 start 0: 6.0\nrank 1 start 4: 6.0\nrank 2 start 0: 3.0'
	assert_nothing_left
}
