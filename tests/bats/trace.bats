#!/usr/bin/env bats
# Timelines: gpuctl trace, gpuctl run --trace, mnist-train --trace. trace_check.py reads them as viewers do.
# shellcheck disable=SC2154
load helper

setup() {
	house_setup
	needs python3
}

# A line of the output, whole.
says() { grep -qxE -- "$1" <<<"${2-$output}" || fail "no line '$1' in: ${2-$output}"; }

check() { bounded /usr/bin/python3 "$BATS_TEST_DIRNAME/fixtures/trace_check.py" "$@"; }

@test "gpuctl trace shows what the recorders have: a rank's waits agree with stragglers" {
	cat >script <<-'EOF'
		C=$(gpuctl comm-init -n 3)
		for d in 0 1 2; do A+=$(gpuctl malloc --device $d 64K),; done
		for _ in 1 2 3 4 5 6; do gpuctl allreduce --comm "$C" --addr "${A%,}" --count 1000 --algo ring; done
		gpuctl broadcast --comm "$C" --addr "${A%,}" --count 10 --algo tree
		gpuctl stragglers "$C" --json >late
		gpuctl trace -o trace 2>said
		gpuctl trace --last 1h >last
		gpuctl trace --for 10ms >for
	EOF
	run bounded gpuctl run -n 3 --mem 16M -- bash -eu script
	assert_status 0
	says 'gpuctl: trace: [0-9]+ events in trace; no record was lost' "$(cat said)"
	run check trace --comm 1 --stragglers late
	assert_status 0
	says 'op allreduce ok 18'
	says 'op broadcast ok 3'
	says 'processes 3'
	run check last
	assert_status 0
	says 'op allreduce ok 18'
	run check for
	assert_status 0
	says 'instant trace-ends 1'
}

@test "run --trace records all steps; each send has its arrow, and the command keeps its output and status" {
	cat >script <<-'EOF'
		C=$(gpuctl comm-init -n 4)
		for d in 0 1 2 3; do A+=$(gpuctl malloc --device $d 64K),; done
		for _ in 1 2 3 4 5; do gpuctl allreduce --comm "$C" --addr "${A%,}" --count 1000 --algo ring; done
		gpuctl stragglers "$C" --json >late
		echo done
		exit 3
	EOF
	run --separate-stderr bounded gpuctl run -n 4 --mem 16M --trace trace -- bash -eu script
	assert_status 3
	assert_equal "$output" "done"
	says 'gpuctl: run: trace: [0-9]+ events in trace; no record was lost' "$stderr"
	run check trace --comm 1 --stragglers late
	assert_status 0
	says 'op allreduce ok 20'
	# A ring of four ranks: each sends 2 * (4 - 1) chunks.
	says "flows $((5 * 4 * 6))"
}

@test "operations of a group lie beside each other, and oneshot has no arrows" {
	cat >script <<-'EOF'
		C=$(gpuctl comm-init -n 2)
		A=$(gpuctl malloc --device 0 64K) B=$(gpuctl malloc --device 1 64K)
		gpuctl allreduce --comm "$C" --addr "$A,$B" --count 10 --algo oneshot
		gpuctl group --comm "$C" <<-END
			send --rank 0 --peer 1 --addr $A --count 100
			recv --rank 1 --peer 0 --addr $B --count 100
			send --rank 1 --peer 0 --addr $((B + 4096)) --count 100
			recv --rank 0 --peer 1 --addr $((A + 4096)) --count 100
		END
	EOF
	run bounded gpuctl run -n 2 --mem 16M --trace trace -- bash -eu script
	assert_status 0
	run check trace
	assert_status 0
	says 'op send ok 2'
	says 'op recv ok 2'
	says 'flows 2'
}

@test "a rank that is stopped: the trace shows that the others wait for it" {
	cat >script <<-'EOF'
		C=$(gpuctl comm-init -n 2)
		A=$(gpuctl malloc --device 0 64K) B=$(gpuctl malloc --device 1 64K)
		pid=$(gpuctl devices --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[1]["pid"])')
		kill -STOP "$pid"
		gpuctl allreduce --comm "$C" --addr "$A,$B" --count 10 --algo ring --async
		until gpuctl trace >trace && grep -q '"name":"wait for rank 1".*"result":"running"' trace; do :; done
		kill -CONT "$pid"
		gpuctl wait "$C"
	EOF
	run bounded gpuctl run -n 2 --mem 16M -- bash -eu script
	assert_status 0
	run check trace
	assert_status 0
	says 'op allreduce running 1'
}

@test "a device that is killed and started again is drained to its end and from its beginning" {
	cat >script <<-'EOF'
		C=$(gpuctl comm-init -n 2)
		A=$(gpuctl malloc --device 0 64K) B=$(gpuctl malloc --device 1 64K)
		for _ in 1 2 3; do gpuctl allreduce --comm "$C" --addr "$A,$B" --count 10 --algo ring; done
		kill -KILL "$(gpuctl devices --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[1]["pid"])')"
		until gpuctl events | grep -q recovered; do :; done
		for _ in 1 2 3 4; do gpuctl allreduce --comm "$C" --addr "$A,$B" --count 10 --algo ring; done
	EOF
	run bounded gpuctl run -n 2 --mem 16M --on-failure respawn --trace trace -- bash -eu script
	assert_status 0
	run check trace
	assert_status 0
	says 'op allreduce ok 14'
	says 'instant recovered 1'
	says 'instant lost 1'
}

@test "gpuctl trace --report shows a failure, dead devices included" {
	cat >script <<-'EOF'
		C=$(gpuctl comm-init -n 2)
		A=$(gpuctl malloc --device 0 64K) B=$(gpuctl malloc --device 1 64K)
		for _ in 1 2 3; do gpuctl allreduce --comm "$C" --addr "$A,$B" --count 10 --algo ring; done
		kill -KILL "$(gpuctl devices --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[1]["pid"])')"
		until gpuctl comm-status "$C" | grep -q failed; do :; done
		gpuctl allreduce --comm "$C" --addr "$A,$B" --count 10 --algo ring || :
	EOF
	run bounded gpuctl run -n 2 --mem 16M --report-dir reports -- bash -eu script
	run -0 bounded gpuctl trace --report reports/report.1 -o trace
	run check trace
	assert_status 0
	says 'op allreduce ok 6'
	says 'instant lost 1'
}

@test "kill -9 of gpuctl run leaves a trace that can be read" {
	mkfifo begun
	background gpuctl run -n 2 --mem 16M --trace trace -- bash -c 'printf "1\n2\n" | gpuctl allreduce >begun; exec sleep infinity'
	assert_equal "$(bounded cat begun)" 3
	until check trace --cut >seen 2>&1 && grep -q '^op allreduce ok 2$' seen; do :; done
	kill -KILL "$PID"
	until [ "$(tail -n 1 trace)" = ']' ]; do :; done # what drains has seen the end of the cluster
	run check trace
	assert_status 0
	says 'op allreduce ok 2'
}

@test "mnist-train --trace: kernels and operations of the whole training" {
	run --separate-stderr bounded mnist-train --data "$ROOT/tests/data" --layers 784,32,10 --batch 16 --epochs 2 \
		--devices 2 --trace trace --quiet
	assert_status 0
	says 'mnist-train: trace: [0-9]+ events in trace; no record was lost' "$stderr"
	run check trace
	assert_status 0
	says 'op broadcast ok [0-9]+'
	says 'slices kernel [0-9]+'
}

@test "what cannot be traced, and where it cannot be written" {
	run -2 gpuctl trace --last 1s --for 1s
	run -2 gpuctl run -n 1 --trace - -- true
	assert_match "stdout belongs to the command"
	run gpuctl run -n 1 --trace "$T/no/file" -- true
	assert_status 1
	says "gpuctl: run: --trace: $T/no/file: No such file or directory"
	run -1 bounded gpuctl run -n 1 --mem 16M --trace /dev/full -- true
	says 'gpuctl: run: --trace: the trace: No space left on device'
	run -3 gpuctl --coordinator "ipc://$T/nobody" trace
	run gpuctl trace --report "$T/none"
	assert_match 'none'
	[ "$status" != 0 ]
	run -2 mnist-train --eval --load x --trace y
}
