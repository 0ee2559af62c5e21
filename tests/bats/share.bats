# One machine, many users: devices in use are reported with their users, or waited for.
load helper

machine() { bounded gpuctl run -n "$1" -- bash -c "${@:2}"; } # N SCRIPT [ARG...]

# As "pid 123" differs from run to run.
told() {
	output=$(sed -E 's/pid [0-9]+/pid PID/g' <<<"$output")
	assert_output "$1"
}

@test "filters that wait for each other's devices all get them" {
	run machine 4 'for i in 1 2 3 4; do seq 4 | gpuctl allreduce --wait 50s & done; wait'
	assert_status 0
	assert_output $'10\n10\n10\n10'
}

@test "without --wait: exit 8, and the programs that use the devices; with it, exit 4 when the time is over" {
	run machine 3 'gpuctl comm-init -n 2; seq 3 | gpuctl allreduce; echo $?
		gpuctl barrier -n 3 --wait 50ms; echo $?; gpuctl comm-init -n 2 --wait 0; echo $?
		gpuctl comm-init -n 4 --wait 50s; echo $?; seq 3 | gpuctl allreduce --comm 1 --wait 1s; echo $?
		gpuctl comm-init 0 --wait 1s; echo $?; seq 3 | gpuctl allreduce --wait soon; echo $?'
	assert_status 0
	output=$(sed -E 's/waited 0.[0-9] s/waited/' <<<"$output")
	told '1
gpuctl: allreduce: 3 vectors: busy: needs 3 devices; 1 of 3 is free: comm 1, made by gpuctl comm-init (pid PID), has 2
8
gpuctl: barrier: 3 ranks: waited: busy: needs 3 devices; 1 of 3 is free: comm 1, made by gpuctl comm-init (pid PID), has 2
4
gpuctl: comm-init: --wait: '"'0'"': must be 1ms to 24 days
2
gpuctl: comm-init: needs 4 devices; 3 exist
1
gpuctl: allreduce: --wait: only for free devices, not with --comm
2
gpuctl: comm-init: --wait: needs -n
2
gpuctl: allreduce: --wait: '"'soon'"' is not a duration (such as 500ms, 5s, 2m)
2'
}

@test "each verb that takes free devices waits for them" {
	cat >verbs <<-'END'
		barrier -n 2
		broadcast -n 2
		bench -b 8 -e 8 --iters 1
		tune barrier --iters 1
		chaos --ops 1 --rate 0/op
		comm-init -n 1
		comm-grow MADE -n 1
	END
	run bounded gpuctl run -n 2 --allow-inject -- bash -c 'while read -r verb rest <&5; do
			echo "$verb"
			id=$(gpuctl comm-init -n "$(gpuctl devices | grep -c " - ")")
			rest=${rest/MADE/$made}
			gpuctl "$verb" $rest --wait 50s >out 2>&1 <<<1 & pid=$!
			until gpuctl status --json | grep -q "\"waiting\":1"; do kill -0 $pid || exit; done
			gpuctl comm-destroy "$id"
			wait $pid || { echo $?; cat out; }
			made=$(cat out)
		done 5<verbs'
	assert_status 0
	assert_equal "$output" "$(cut -d ' ' -f 1 verbs)"
}

@test "mnist-train waits for devices too; without --wait: exit 8" {
	local train=(mnist-train --data "$ROOT/tests/data" --epochs 1 --layers "784,10")
	run machine 2 'gpuctl comm-init -n 2 >id; "$@" 2>err; echo $?; cat err
		for more in "" "--sync ps" "--devices 1"; do
			"$@" $more --wait 50s >out 2>&1 & pid=$!
			until gpuctl status --json | grep -q "\"waiting\":1"; do kill -0 $pid || exit; done
			gpuctl comm-destroy "$(cat id)"
			wait $pid || cat out; tail -n 1 out | cut -d " " -f 2
			gpuctl comm-init -n 2 >id
		done' _ "${train[@]}"
	assert_status 0
	told '8
mnist-train: no device is free: busy: needs 1 device; 0 of 2 are free: comm 1, made by gpuctl comm-init (pid PID), has 2
1/1
1/1
1/1'
}

@test "a command that was killed keeps its devices for 2 s, which is reported; --wait waits for that" {
	run machine 2 'gpuctl bench -b 8 -e 8 --iters 1000000 >out & pid=$!
		until gpuctl devices | grep -q "  *1  *[0-9][0-9]*  *ipc:"; do kill -0 $pid || exit; done
		kill -KILL $pid; wait $pid
		until seq 2 | gpuctl allreduce >now 2>&1; status=$?; ((status != 8)) || grep disconnected now; do :; done
		echo $status
		seq 2 | gpuctl allreduce --wait 50s'
	assert_status 0
	assert_match 'gpuctl: allreduce: 2 vectors: busy: needs 2 devices; 0 of 2 are free: comm 1 of gpuctl bench \(pid [0-9]+\), which disconnected: free in [0-2]\.[0-9] s'$'\n8\n3$'
}

in_line() { gpuctl status --json | grep -q "\"waiting\":$1"; }

@test "a coordinator that is killed and comes back: queued requests are queued again" {
	export GPUSIM_COORD=ipc://$T/coord
	ready coord gpucoord --state "$T/state"
	coordinator=$PID
	ready device gpudev --listen "ipc://$T/device" -m 16M --mem-scratch "$T/memory"
	gpuctl comm-init -n 1
	background gpuctl comm-init -n 1 --wait 50s >out 2>&1
	client=$PID
	wait_until 10 in_line 1
	kill -KILL "$coordinator"
	wait_until 10 gone "$coordinator"
	ready coord gpucoord --state "$T/state"
	wait_until 10 in_line 1
	gpuctl comm-destroy 1
	wait "$client" || fail "$(cat out)"
	assert_equal "$(cat out)" 2
}

@test "a client that ends while queued is not waited for" {
	run machine 1 'id=$(gpuctl comm-init -n 1)
		waiting() { until gpuctl status --json | grep -q "\"waiting\":$1"; do :; done; }
		gpuctl comm-init -n 1 --wait 50s & first=$!; waiting 1
		gpuctl comm-init -n 1 --wait 50s >out & second=$!; waiting 2
		kill -KILL $first; wait $first; gpuctl comm-destroy "$id"
		wait $second; echo $?; cat out'
	assert_status 0
	assert_match $'(^|\n)0\n2$'
}
