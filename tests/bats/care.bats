# A device is lost while no communicator has it: what the cluster's policy promises, and what is said of it.
# shellcheck disable=SC2016,SC2154
load helper

# cluster N OPTION... -- SCRIPT - in it: lose INDEX..., state INDEX
cluster() {
	run --separate-stderr bounded gpuctl run -n "$1" "${@:2:$#-2}" bash -uc "exec {TICK}<> <(:); ${*: -1}"
	echo "$stderr"
	assert_nothing_left
}

# lose INDEX... - kill -9 the devices there, all at once
lose() {
	local i pids=()
	for i; do pids+=("$(pid_of "$i")"); done
	kill -KILL "${pids[@]}"
}
pid_of() { gpuctl devices | awk -v k="$1" '$1 == k { print $7 }'; }
state() { gpuctl devices | awk -v k="$1" '$1 == k { print $5 }'; }
is() { [ "$(state "$1")" = "$2" ]; }
has() { is "$1" free && [ "$(pid_of "$1")" = "$2" ]; }
# back INDEX PID - another process than that is there
back() { is "$1" free && [ "$(pid_of "$1")" != "$2" ]; }
# failed - communicator 1 has, long before somebody would be waited for in vain
failed() { wait_until 1 eval "gpuctl comm-status 1 | grep failed"; }
export -f lose pid_of has back state is failed wait_until not

setup() {
	house_setup
	export TICK
}

teardown() {
	kill_all
	house_teardown
}

told() {
	[[ $stderr =~ $1 ]] || fail "expected on standard error: $1"$'\n'"got: $stderr"
}

@test "respawn: a free device is started again, again and again" {
	cluster 3 --on-failure respawn -- '
		was=$(gpuctl devices | cut -c-25)
		for i in 1 2 1; do pid=$(pid_of $i); lose $i; wait_until 10 back $i $pid; done
		[ "$(gpuctl devices | cut -c-25)" = "$was" ] && seq 3 | gpuctl allreduce'
	assert_status 0
	assert_output 6
}

@test "respawn: a request for a device that is about to return waits for it" {
	cluster 2 --on-failure respawn -- '
		for i in 0 1 0; do pid=$(pid_of $i); lose $i; wait_until 10 not has $i $pid; seq 2 | gpuctl allreduce; done'
	assert_status 0
	assert_output $'3\n3\n3'
}

@test "GPUSIM_ON_FAILURE and the configuration file are heard, and a policy that is none is refused" {
	GPUSIM_ON_FAILURE=respawn cluster 1 -- 'pid=$(pid_of 0); lose 0; wait_until 10 back 0 $pid'
	assert_status 0
	run bounded env GPUSIM_ON_FAILURE=never gpuctl run -n 1 -- true
	assert_status 2
	assert_output "gpuctl: run: GPUSIM_ON_FAILURE: 'never': must be one of abort, shrink, respawn, spare"
	run bounded gpucoord --on-failure never
	assert_status 2
	assert_output "gpucoord: --on-failure: 'never': must be one of abort, shrink, respawn, spare"
	printf '[coordinator]\non-failure = never\n' >conf
	run bounded gpucoord -c conf
	assert_output "gpucoord: conf:2: on-failure: 'never': must be one of abort, shrink, respawn, spare"
}

@test "spare: it takes the lost device's place, and is no longer a spare" {
	cluster 3 --spares 1 --on-failure spare -- '
		spare=$(gpuctl devices | awk "\$1 == 3 { print \$2 }")
		lose 1; wait_until 10 is 3 lost
		[ "$(gpuctl devices | awk "\$1 == 1 { print \$2, \$5 }")" = "$spare free" ] && seq 3 | gpuctl allreduce
		lose 1; wait_until 10 is 1 lost; seq 3 | gpuctl allreduce'
	assert_status 1
	assert_output 6
	told 'gpuctl: allreduce: 3 vectors: needs 3 devices; 2 of 3 are available; device [0-9a-f]{16} \(gpu 1\) was lost [0-9.]+ s ago: killed by signal 9$'
}

@test "spare: the replacement has the lost device's data" {
	cluster 2 --spares 1 --on-failure spare -- '
		A=$(gpuctl malloc --device 1 64); printf "%064d" 7 | gpuctl memcpy - 1:$A; lose 1; wait_until 10 is 2 lost
		gpuctl memcpy 1:$A:64 -'
	assert_status 0
	assert_output "$(printf '%064d' 7)"
}

@test "abort: the lost device is named, with the cause" {
	cluster 3 -- '
		lose 2; wait_until 10 is 2 lost; gpuctl devices; gpuctl devices --json
		gpuctl comm-init -n 3; echo $?; seq 3 | gpuctl allreduce
		kill -TERM $(gpuctl devices | awk "\$1 == 1 { print \$7 }"); wait_until 10 is 1 lost; gpuctl comm-init -n 3'
	assert_match ' lost .*  lost at 20[0-9-]+ [0-9:]+: killed by signal 9'$'\n'
	assert_match '"lost_at_ms":[0-9]+,"lost_why":"killed by signal 9","lost_remedy":""'
	told 'comm-init: needs 3 devices; 2 of 3 are available; device [0-9a-f]{16} \(gpu 2\) was lost [0-9.]+ s ago: killed by signal 9'
	told 'allreduce: 3 vectors: needs 3 devices; 2 of 3 are available; device [0-9a-f]{16} \(gpu 2\) was lost [0-9.]+ s ago: killed by signal 9'
	told '1 of 3 is available; device [0-9a-f]{16} \(gpu 1\) .* ago: ended with exit status 0; device [0-9a-f]{16} \(gpu 2\) '
}

@test "a spare that is dead itself is not waited for" {
	cluster 2 --spares 1 --on-failure spare -- '
		C=$(gpuctl comm-init -n 2); lose 2; lose 1
		failed; gpuctl comm-status $C; lose 0'
	assert_match 'failed: comm 1 .*no spare device is left; device [0-9a-f]{16} \(gpu 2\) was lost .*: killed by signal 9'
	cluster 2 --on-failure spare -- 'C=$(gpuctl comm-init -n 2); lose 1; failed; gpuctl comm-status $C'
	assert_match 'failed: comm 1 .*no spare device is left; report: [^ ]*'$'\n'
}

@test "a device that cannot be started again is not waited for" {
	cluster 2 --on-failure respawn -- '
		C=$(gpuctl comm-init -n 2); rm $(gpuctl devices --json | grep -o "/dev/shm/[^\"]*1\""  | tr -d \")
		lose 1; failed; gpuctl comm-status $C; gpuctl comm-destroy $C; gpuctl comm-init -n 2'
	assert_match 'failed: .* cannot be started again: its memory file /dev/shm/[^ ]*: No such file'
	told '1 of 2 is available; device [0-9a-f]{16} \(gpu 1\) .* killed by signal 9, cannot be started again: its memory file'
}
