# gpuctl run --each: a process a rank, as torchrun and mpirun start it.
# shellcheck disable=SC2016
load helper

each() { bounded gpuctl run --each "$@"; }

# A command that never ends by itself.
stays() { mkfifo never; }

@test "each rank has its rank, the number of ranks, a meeting point and its device" {
	run each -n 3 -- sh -c 'echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $NODE_RANK $GPUSIM_DEVICE $GPUSIM_NDEVICES" >"rank.$RANK"
		echo "$OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_SIZE $OMPI_COMM_WORLD_LOCAL_RANK $OMPI_COMM_WORLD_LOCAL_SIZE" >>"rank.$RANK"
		echo "$MASTER_ADDR $MASTER_PORT" >"master.$RANK"'
	assert_status 0
	assert_output ''
	for r in 0 1 2; do
		assert_equal "$(<rank.$r)" "$r 3 $r 3 0 $r 3"$'\n'"$r 3 $r 3"
		assert_equal "$(<master.$r)" "$(<master.0)"
	done
	[[ $(<master.0) =~ ^127\.0\.0\.1\ [1-9][0-9]*$ ]]
	MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 run each -n 1 -- sh -c 'echo "$MASTER_ADDR $MASTER_PORT"'
	assert_output '10.0.0.1 29500'
	assert_nothing_left
}

@test "gpuctl in a rank works on the rank's device, and ranks meet by an id" {
	gpuctl unique-id >id
	run each -n 3 -- sh -c 'a=$(gpuctl malloc 8) && printf "\001\000\000\000\002\000\000\000" | gpuctl memcpy - "$GPUSIM_DEVICE:$a" &&
		gpuctl comm-init --id "$(cat id)" >comm.$RANK && echo "$a" >addr.$RANK && gpuctl comm-status "$(cat comm.$RANK)" >state.$RANK'
	assert_status 0
	for r in 0 1 2; do
		assert_equal "$(<state.$r)" success
		assert_equal "$(<comm.$r)" "$(<comm.0)"
	done
	# --rank and --device are stronger than the environment.
	run each -n 2 -- sh -c 'c=$(gpuctl comm-init -n 2 --wait 20s) || exit 5; gpuctl malloc --comm "$c" --rank 1 8 >/dev/null && gpuctl malloc --device 0 8 >/dev/null &&
		! gpuctl malloc --device 0 --comm "$c" --rank 1 8 2>err && grep -c "cannot be combined with --rank" err >>seen; gpuctl comm-destroy "$c"'
	assert_status 0
	assert_equal "$(<seen)" $'1\n1'
}

@test "rank 0 has the standard input, the others have none" {
	run each --label -n 3 -- sh -c 'cat; echo end' <<<'from the pipe'
	assert_status 0
	assert_equal "$(sort <<<"$output")" $'0: end\n0: from the pipe\n1: end\n2: end'
}

@test "--label: whole lines, standard output and error apart, a last line without its end" {
	each --label -n 2 -- sh -c 'seq 5000; printf "end of $RANK"; echo "error of $RANK" >&2' >out 2>err
	assert_equal "$(sort err)" $'0: error of 0\n1: error of 1'
	for r in 0 1; do
		cmp <(sed -n "s/^$r: //p" out) <(seq 5000 && echo "end of $r")
	done
	assert_equal "$(wc -l <out)" 10002
	# A line of megabytes comes in pieces, and no byte of it is lost.
	each --label -n 1 -- sh -c 'head -c 3000000 /dev/zero | tr "\0" x; echo' >out
	assert_equal "$(sed 's/^0: //' out | tr -d '\n' | wc -c)" 3000000
	assert_equal "$(grep -vc '^0: xx*$' out)" 0
	run bounded sh -c 'gpuctl run --each --label -n 2 -- seq 3 >/dev/full'
	assert_status 1
	assert_output 'gpuctl: run: standard output: No space left on device'
	run bash -c 'timeout 100 gpuctl run --each --label -n 2 -- yes | head -n 2; echo "${PIPESTATUS[0]}"'
	assert_equal "$(tail -n 1 <<<"$output")" 141
	# A process that a rank leaves in the background and that writes for ever is not waited for.
	mkfifo begun
	each --label -n 1 -- sh -c 'yes & yes >begun & head -n 100000 <begun' 2>err | { tail -n 1 >out; }
	assert_equal "${PIPESTATUS[0]} $(<err)" '0 '
	assert_equal "$(<out)" '0: y'
	run bounded gpuctl run --label -n 2 -- true
	assert_status 2
	assert_output 'gpuctl: run: --label: requires --each'
	assert_nothing_left
}

@test "the first rank that fails ends the others; it is named, and its exit status is ours" {
	stays
	run each -n 4 -- sh -c 'echo $$ >"pid.$RANK"; [ "$RANK" != 2 ] || { until [ -s pid.0 ] && [ -s pid.1 ] && [ -s pid.3 ]; do :; done; exit 37; }; read -r x <>never'
	assert_status 37
	assert_output "gpuctl: run: rank 2 (pid $(<pid.2)) ended with exit status 37"
	run each -n 3 -- sh -c 'echo $$ >"pid.$RANK"; [ "$RANK" != 1 ] || kill -SEGV $$; read -r x <>never'
	assert_status 139
	assert_output "gpuctl: run: rank 1 (pid $(<pid.1)) killed by signal 11 (Segmentation fault)"
	assert_nothing_left
}

@test "what a failed job's ranks have started ends with it; a rank deaf to SIGTERM is killed" {
	stays
	cp "$(command -v sleep)" idle
	run each -n 3 -- bash -c '[ "$RANK" != 1 ] || { until [ -e deaf ]; do :; done; exit 5; }
		trap "" TERM; (exec "$T/idle" 1000) & : >"ready.$RANK"; [ ! -e ready.0 ] || [ ! -e ready.2 ] || : >deaf; while :; do read -r x <>never; done'
	assert_status 5
	wait_until 10 not pgrep -f "$T/idle"
	assert_nothing_left
}

@test "a command that cannot be executed: one line, as without --each" {
	run -127 each -n 3 -- ./no-such-command
	assert_output 'gpuctl: run: ./no-such-command: No such file or directory'
	: >plain
	run each -n 3 -- ./plain
	assert_status 126
	assert_output 'gpuctl: run: ./plain: Permission denied'
	run -127 each -n 2 allreduce
	assert_output "gpuctl: run: allreduce: no such command; did you mean 'gpuctl allreduce'?"
}

# interrupted SIGNAL TARGET - four ranks that catch SIGNAL are running, and it is sent
interrupted() {
	background gpuctl run --each -n 4 -- bash -c 'trap "echo $1 >got.$RANK; exit 9" "$1"; : >up.$RANK; while :; do read -r -t 1 x <>never; done' - "$1"
	for r in 0 1 2 3; do wait_until 15 test -e up.$r; done
	kill -"$1" -- "$2$PID"
	wait "$PID" && st=0 || st=$?
	assert_equal "$st" 9
	for r in 0 1 2 3; do assert_equal "$(<got.$r)" "$1"; done
	rm up.* got.*
	assert_nothing_left
}

@test "^C and SIGTERM reach every rank, by the terminal's group and by gpuctl" {
	stays
	interrupted INT -
	interrupted INT ''
	interrupted TERM ''
	interrupted HUP ''
	background gpuctl run --each -n 3 -- sh -c ': >up.$RANK; read -r x <>never' 2>err
	for r in 0 1 2; do wait_until 15 test -e up.$r; done
	kill -INT -- "-$PID"
	wait "$PID" && st=0 || st=$?
	assert_equal "$st" 130
	assert_equal "$(<err)" ''
	assert_nothing_left
}

@test "kill -9 of gpuctl ends every rank" {
	stays
	background gpuctl run --each --label -n 3 -- sh -c 'echo $$ >"pid.$RANK"; exec 7<>never; read -r x <&7'
	for r in 0 1 2; do wait_until 15 test -s pid.$r; done
	kill -KILL "$PID"
	wait_until 15 gone "$(<pid.0)" "$(<pid.1)" "$(<pid.2)"
	wait_until 15 not pgrep -f "$T/"
	assert_nothing_left
}

@test "with --nccl, --trace and --record: NCCL's program a rank, its timeline, its recording" {
	local nccl=$BUILD/e2e/nccl/home_hosts
	[[ -x $nccl ]] || nccl=$(find "$BUILD/e2e" -name home_hosts -type f | head -n 1)
	mkfifo meet.1 meet.2
	run each --nccl --label -n 3 --trace trace.json -- sh -c 'exec "$0" "$WORLD_SIZE" "$RANK" "$LOCAL_RANK" meet' "$nccl"
	assert_status 0
	for r in 0 1 2; do
		grep -qx "$r: rank $r: 3 devices, all is right" <<<"$output"
	done
	grep -q allreduce trace.json
	seq 3 >in
	run each --record tape -n 3 -- sh -c '[ "$RANK" != 0 ] || gpuctl allreduce <in'
	assert_output 6
	run bounded gpuctl replay tape
	assert_status 0
}

@test "programs written for torchrun: torch.distributed finds its ranks" {
	/usr/bin/python3 -c 'import torch.distributed' 2>/dev/null || skip "needs python3-torch"
	cat >sum.py <<'END'
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.full((4,), float(dist.get_rank() + 1))
dist.all_reduce(x)
assert os.environ["LOCAL_RANK"] == str(dist.get_rank())
print(dist.get_world_size(), x.tolist())
dist.destroy_process_group()
END
	LIMIT=60 run each --label -n 2 -- /usr/bin/python3 sum.py
	assert_status 0
	assert_equal "$(sort <<<"$output")" $'0: 2 [3.0, 3.0, 3.0, 3.0]\n1: 2 [3.0, 3.0, 3.0, 3.0]'
}

@test "programs of MPI want mpirun, and are told so" {
	needs mpicc
	cat >alone.c <<'END'
#include <mpi.h>
int main(int argc, char **argv) { MPI_Init(&argc, &argv); return MPI_Finalize(); }
END
	mpicc -o alone alone.c
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	mkdir 0 1 # two jobs at once cannot share Open MPI's folder
	run each -n 2 -- ./alone
	assert_match 'gpuctl: run: ./alone uses MPI: start it as gpuctl run -n 2 -- mpirun -n 2 ./alone, or each rank is alone in MPI_COMM_WORLD'
	run each -n 2 -- sh -c 'TMPDIR=$T/$RANK exec mnist-train --backend mpi --data "$ROOT/examples/data/iris.csv" --epochs 1'
	assert_status 2
	assert_match '--backend mpi: 2 processes were started without mpirun, and each is an MPI job of one rank'
}
