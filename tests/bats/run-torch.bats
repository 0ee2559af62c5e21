# gpuctl run: ranks that are started again, faults from the start, and programs of torch.distributed.
# shellcheck disable=SC2016
load helper

setup() {
	house_setup
	python=/usr/bin/python3
}

run_each() { bounded gpuctl run --report-dir none "$@"; }

torch() {
	"$python" -c 'import torch' 2>/dev/null || skip 'needs python3-torch'
	assert_file "$BUILD/python/gpusim/torch.py"
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
	assert_match 'rank 2 .*lost: killed by signal 9'
	assert_match 'needs 3 devices; 2 of 3 are available'
	# With --torch, or restarts, the device comes back, and whoever wants it waits.
	run run_each --torch --procs 1 -n 3 --inject 'kill rank=2 at=allreduce#0' -- sh -c '
		c=$(gpuctl comm-init -n 3) && a= && for r in 0 1 2; do a=$a,$(gpuctl malloc --comm $c --rank $r 8); done
		gpuctl allreduce --comm $c --addr ${a#,} --count 1; gpuctl comm-destroy $c; exec gpuctl comm-init -n 3'
	assert_status 0
	assert_match 'rank 2 .*lost: killed by signal 9'
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
		until gpuctl events | grep -q "lost: killed"; do :; done
		kill -9 $$		exec tail -f /dev/null'
	assert_status 0
	for r in 0 1 2; do
		assert_equal "$(<log.$r)" $'0 1\n1 2'
	done
	assert_nothing_left
}
