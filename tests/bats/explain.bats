#!/usr/bin/env bats
# gpuctl explain, against what was really done to a cluster: each test breaks one, and the sentence names the rank, the
# operation, the reason and the remedy.
load nccl

teardown() {
	kill_all
	house_teardown
}

# cluster N [OPTION...] - N devices until the test ends; exports GPUSIM_COORD
cluster() {
	background gpuctl run -n "$1" --mem 64M "${@:2}" -- sh -c 'echo "$GPUSIM_COORD" >addr.new && mv addr.new addr && exec sleep infinity' 2>run.log
	wait_until 10 test -e addr || fail "$(cat run.log)"
	GPUSIM_COORD=$(<addr)
	export GPUSIM_COORD
}

pid_of() { gpuctl devices | awk -v d="$1" '$1 == d { print $7 }'; }

# says [ARG...] -- REGEX... - until gpuctl explain ARG... matches all of them
says() {
	local args=()
	while [[ $1 != -- ]]; do args+=("$1") && shift; done
	shift
	wait_until 10 matches "$@" || fail "$(gpuctl explain "${args[@]}")"
}
matches() {
	local text regex
	text=$(gpuctl explain "${args[@]}") || true
	for regex; do [[ $text =~ $regex ]] || return 1; done
}

# buffers COMM N SIZE - the addresses of a buffer a rank
buffers() {
	local r all=()
	for ((r = 0; r < $2; r++)); do all+=("$(gpuctl malloc --device "$r" "$3")"); done
	(IFS=, && echo "${all[*]}")
}

# allreduces COMM BUFFERS COUNT - queue one
allreduces() { gpuctl allreduce --comm "$1" --addr "$2" --count "$3" --type f32 --algo ring --async; }

# patient N - the same, whose coordinator takes a silent device for alive for minutes
patient() {
	local i
	ready coord gpucoord --listen "ipc://$T/c" --heartbeat 2s
	export GPUSIM_COORD=ipc://$T/c
	for ((i = 0; i < $1; i++)); do
		ready "dev$i" gpudev --listen "ipc://$T/d$i" --ordinal "$i" -m 64M
	done
}

# stuck N MODE RANK [OPTION...] - a program for NCCL on N devices that stands still: $PROGRAM, which may take fewer words. Sets VICTIM to its pid.
stuck() {
	local program=${PROGRAM-nccl_stuck}
	[[ $program == nccl_stuck ]] || set -- "$1" '' "${@:2}"
	mkfifo input output
	exec {INPUT}<>input {OUTPUT}<>output
	background gpuctl run --nccl -n "$1" "${@:4}" -- sh -c 'echo "$GPUSIM_COORD" >addr.new && mv addr.new addr && echo $$ >pid && exec "$@"' - \
		"$PROGRAMS/$program" ${2:+"$2"} "$3" <&"$INPUT" >&"$OUTPUT" 2>run.log
	read -r -t $((20 * PATIENCE)) -u "$OUTPUT" _ || fail "$(cat run.log)"
	GPUSIM_COORD=$(<addr) VICTIM=$(<pid)
	export GPUSIM_COORD
}

# unstuck - end it
unstuck() {
	kill -KILL "-$PID" && rm input output addr
}

# keyword WORD - the cause, for programs
keyword() {
	run gpuctl explain --json
	assert_match "\"cause\":\"$1\""
}

# meet CALL... - ranks of a communicator that is not queued
meet() {
	mkfifo input output
	exec {INPUT}<>input {OUTPUT}<>output
	background "$BUILD/e2e/meet" "$@" <&"$INPUT" >&"$OUTPUT" 2>meet.log
	read -r -t $((20 * PATIENCE)) -u "$OUTPUT" _ || fail "$(cat meet.log)"
}

@test "no communicator; idle; the last operation" {
	cluster 2
	run -0 gpuctl explain
	assert_output 'No communicator; 2 devices.'
	C=$(gpuctl comm-init -n 2)
	printf '1\n2\n' | gpuctl allreduce --comm "$C" >/dev/null
	run -0 gpuctl explain
	assert_match '^comm 1 \(2 ranks, epoch 1\): is idle\.'$'\n''  Last finished: allreduce #0 at [0-9:.]+\.'
	assert_match 'Nothing waits\.$'
	run -1 gpuctl explain --comm 7
	assert_match 'no communicator 7'
	run -0 gpuctl explain --json
	assert_match '^\{"state":"idle","at_ms":[0-9]+,"text":"comm 1 '
}

@test "a stopped device, in the operation and before it" {
	patient 4
	C=$(gpuctl comm-init -n 4 --op-timeout 60s)
	A=$(buffers "$C" 4 8M)
	PID=$(pid_of 2)
	kill -STOP "$PID"
	says -- "in no operation, and the next one will wait: rank 2 \(device [0-9a-f]{16}, pid $PID\) is stopped\."
	allreduces "$C" "$A" 2097152
	says -- 'allreduce #0 \(ring.*4 ranks, 8 MiB of f32, sum\) has been waiting for' "rank 2 \(device [0-9a-f]{16}, pid $PID\) is stopped" \
		'ranks 1 and 3 wait for it; rank 0 waits in turn' "To go on: kill -CONT $PID, or gpuctl comm-abort $C\. It fails by itself after 60\.0 s"
	run -1 gpuctl explain --comm "$C"
	kill -CONT "$PID"
	gpuctl wait "$C"
	says -- 'is idle' 'Last finished: allreduce #0'
}

@test "one of sixteen is stopped" {
	patient 16
	C=$(gpuctl comm-init -n 16 --op-timeout 60s)
	A=$(buffers "$C" 16 64K)
	PID=$(pid_of 11)
	kill -STOP "$PID"
	allreduces "$C" "$A" 16384
	says -- "rank 11 \(device [0-9a-f]{16}, pid $PID\) is stopped" 'ranks 10 and 12 wait for it; ranks 0-9 and 13-15 wait in turn' "kill -CONT $PID"
	kill -CONT "$PID"
}

@test "a killed device; the story afterwards" {
	cluster 3
	C=$(gpuctl comm-init -n 3)
	kill -9 "$(pid_of 1)"
	says -- 'has failed at|is lost, killed by signal 9'
	run gpuctl barrier --comm "$C"
	says -- 'has failed at [0-9:.]+: .*rank 1 \(device [0-9a-f]{16}\) lost: killed by signal 9' 'What happened:' \
		'device [0-9a-f]{16} \(gpu 1\), rank 1 of comm 1, lost: killed by signal 9' "gpuctl comm-shrink $C makes a communicator of the surviving ranks"
}

@test "a device is started again: the epoch has changed" {
	cluster 3 --on-failure respawn
	C=$(gpuctl comm-init -n 3 --on-failure respawn)
	kill -9 "$(pid_of 1)"
	gpuctl barrier --comm "$C" 2>note
	says -- 'Recovered 1 time, so its epoch is [2-9]' 'is idle'
}

@test "ranks that shrink away: the epoch has changed" {
	cluster 3 --on-failure shrink
	C=$(gpuctl comm-init -n 3 --on-failure shrink)
	kill -9 "$(pid_of 2)"
	run gpuctl barrier --comm "$C"
	says -- '\(2 ranks, epoch [2-9]\)' 'Recovered 1 time' 'rank 2'
}

@test "a rank has not come by an id" {
	cluster 3
	ID=$(gpuctl unique-id)
	background gpuctl comm-init --id "$ID" --rank 0 --nranks 3
	background gpuctl comm-init --id "$ID" --rank 2 --nranks 3
	says -- "id $ID: rank 1 of 3 has been missing for .*; the others wait for it\. To go on: start that rank\."
}

@test "a request waits for devices" {
	cluster 2
	C=$(gpuctl comm-init -n 2)
	background gpuctl comm-init -n 2 --wait 60s
	says -- 'gpuctl comm-init, pid [0-9]+, has been waiting for 2 devices for .*: 0 are free\. To go on: destroy a communicator, or start more devices\.'
}

@test "a rank has not called, and two do not agree" {
	cluster 3
	meet allreduce:1024:f32 allreduce:2048:f32 -
	says -- 'allreduce of 4 KiB of f32, sum has been waiting for .*: rank 2 has not called it; ranks 0 and 1 have' \
		'they do not agree: rank 0 calls allreduce of 4 KiB of f32, sum, and rank 1 allreduce of 8 KiB of f32, sum' 'have the missing ranks call it'
}

@test "another operation, another type" {
	cluster 3
	meet allreduce:1024:f32 broadcast:1024:f64 -
	says -- 'rank 0 calls allreduce of 4 KiB of f32, sum, and rank 1 broadcast of 8 KiB of f64, root 0'
}

@test "a group that does not end" {
	cluster 2
	meet group:1024 -
	says -- 'a group has been open for .*: it holds 2 operations of client [0-9a-f]{16}' 'the first is allreduce of 4 KiB of f32, sum' \
		'none of them runs before the group ends' 'end the group, or gpuctl comm-abort 1'
}

@test "a slow rank, by a fault" {
	cluster 3 --allow-inject
	C=$(gpuctl comm-init -n 3 --op-timeout 60s)
	A=$(buffers "$C" 3 64K)
	gpuctl inject slow rank=1 by=10s
	allreduces "$C" "$A" 16384
	says -- 'allreduce #0' 'rank 1 \(device [0-9a-f]{16}, pid [0-9]+\) is slow in step 1 of [0-9]+ \(fault: .*slow' 'gpuctl inject clear'
}

@test "a network that is cut" {
	cluster 3 --allow-inject --transport tcp
	C=$(gpuctl comm-init -n 3 --op-timeout 60s)
	A=$(buffers "$C" 3 64K)
	gpuctl inject cut rank=1 for=60s
	allreduces "$C" "$A" 16384
	says -- 'receive nothing from each other: the network between them is cut' 'gpuctl inject clear'
}

@test "a stopped device that the coordinator gives up" {
	cluster 3
	C=$(gpuctl comm-init -n 3)
	PID=$(pid_of 1)
	kill -STOP "$PID"
	says -- 'has failed at .*rank 1 .* lost: no word from it' "rank 1 \(device [0-9a-f]{16}, pid $PID\) is stopped" "kill -CONT $PID"
}

@test "a frozen device, by a fault" {
	cluster 3 --allow-inject
	C=$(gpuctl comm-init -n 3 --op-timeout 60s)
	A=$(buffers "$C" 3 64K)
	gpuctl inject stop rank=0 at=allreduce#0
	allreduces "$C" "$A" 16384
	says -- 'rank 0 \(device [0-9a-f]{16}, pid [0-9]+\) is stopped in step'
}

@test "a device, and a client that holds a communicator, in a debugger's hands and stopped" {
	local ranks device
	cluster 2
	meet - -
	mapfile -t ranks < <(pgrep -P "$PID")
	kill -STOP "${ranks[@]}"
	says -- "is in no operation: its client [0-9a-f]{16} \(meet, pid (${ranks[0]}|${ranks[1]})\) is stopped\." "To go on: kill -CONT (${ranks[0]}|${ranks[1]}),"
	keyword program
	kill -CONT "${ranks[@]}"
	device=$(pid_of 1)
	background perl -e '$| = 1; my ($arch, $pid) = (`uname -m`, 0 + shift);
		syscall($arch =~ /^x86_64/ ? 101 : 117, 16, $pid, 0, 0) == 0 or print "refused\n" and exit; print "attached\n"; sleep' "$device" >debugger
	wait_until 10 test -s debugger
	grep -q attached debugger || skip 'ptrace is not allowed'
	says -- "rank 1 \(device [0-9a-f]{16}, pid $device\) is held by a debugger, pid $PID" "have the debugger, pid $PID, continue or detach pid $device"
	[[ $(gpuctl explain || true) != *"kill -CONT"* ]]
	keyword debugger
}

@test "the coordinator is stopped, and then killed: recorders serve without it" {
	local coordinator
	patient 3
	coordinator=$(gpuctl status | sed -n 's/.*, pid \([0-9]*\),.*/\1/p')
	C=$(gpuctl comm-init -n 3 --op-timeout 60s)
	A=$(buffers "$C" 3 64K)
	PID=$(pid_of 1)
	kill -STOP "$PID"
	allreduces "$C" "$A" 16384
	says -- 'rank 1 .* is stopped'
	kill -STOP "$coordinator"
	says -- "^The coordinator, pid $coordinator, is stopped; .* To go on: kill -CONT $coordinator\." "comm $C \(3 ranks, epoch 1\): allreduce #0 .*: rank 1 \(device [0-9a-f]{16}, pid $PID\) is stopped" 'rank 2 waits for it; rank 0 waits in turn'
	keyword coordinator
	kill -KILL "$coordinator"
	says -- "^The coordinator, pid $coordinator, has ended; .* start it again" "rank 1 .* is stopped"
	kill -CONT "$PID"
}

@test "the report of a failure, explained" {
	cluster 3 --report-dir here
	C=$(gpuctl comm-init -n 3)
	kill -9 "$(pid_of 1)"
	wait_until 10 test -s here/report.1
	run -1 gpuctl explain --report here/report.1
	assert_match "^comm $C \(3 ranks, epoch 1\): has failed at .*rank 1 \(device [0-9a-f]{16}\) lost: killed by signal 9"
	assert_match 'gpuctl comm-shrink'
	run -1 gpuctl explain --report here/report.1 --json
	assert_match "\"state\":\"failed\",\"cause\":\"failed\",\"at_ms\":[0-9]+,\"comm\":$C,\"report\":1"
}

@test "memory is full" {
	cluster 1
	run gpuctl malloc --device 0 65M
	assert_status 1
	says -- 'device [0-9a-f]{16} had no memory for 65 MiB at [0-9:.]+: .* of 64 MiB are allocated\. To go on: free some, or start devices with a larger --mem'
}

@test "aborted by a client" {
	cluster 2
	C=$(gpuctl comm-init -n 2)
	gpuctl comm-abort "$C" the loss is not a number
	says -- 'has failed at .*the loss is not a number'
}

@test "NCCL: a rank has not called" {
	stuck 3 missing 1
	says -- "allreduce #1 \(.*3 ranks, 4 MiB of f32, sum\) has been waiting for .*: rank 1 \(device [0-9a-f]{16}, pid [0-9]+\) has not called it, its program is pid $VICTIM, its last was allreduce #0" \
		'ranks 0 and 2 wait for it' "To go on: have the rank's program call it, or gpuctl comm-abort 1"
	keyword not-called
}

@test "NCCL: its program is stopped" {
	stuck 3 missing 1
	kill -STOP "$VICTIM"
	says -- "rank 1 .* has not called it: its program, pid $VICTIM, is stopped" "kill -CONT $VICTIM"
	keyword program
}

@test "NCCL: a host function does not end" {
	stuck 3 host 2
	says -- "rank 2 .* has not reached it: its stream waits for a host function of its program, pid $VICTIM, which sleeps \(thread [0-9]+\) for" \
		'ranks 0 and 1 wait for it' "see where thread [0-9]+ of pid $VICTIM is blocked"
	keyword host-function
}

@test "NCCL: an event of a stream that does not come to it" {
	stuck 2 event 1
	says -- "rank 1 .* has not reached it: its stream waits for an event of another stream for .*; that stream waits for a host function of its program, pid $VICTIM" 'rank 0 waits for it'
	keyword event
}

@test "NCCL: a group is open" {
	stuck 3 group 2
	says -- "rank 2 .* has called it in a group: its program, pid $VICTIM, holds 1 operation in a group that is open for .*, and none of them runs before the group ends" 'end its group: ncclGroupEnd'
	keyword group
}

@test "NCCL: a rank had no memory" {
	stuck 3 memory 1
	says -- "rank 1 .* has not called it: its device had no memory for 1 TiB at .*, its program is pid $VICTIM" 'To go on: free memory, or'
	keyword no-memory
}

@test "NCCL: all send before they receive, all receive before they send" {
	stuck 2 ring 0
	says -- 'ranks 0 and 1 send, and none of them receives' 'group the sends with the receives: ncclGroupStart'
	keyword all-send
	unstuck
	stuck 3 ring 1 --transport tcp
	says -- 'ranks 0-2 receive, and none of them sends' 'group the sends'
	keyword all-receive
}

@test "NCCL: a straggler" {
	stuck 3 late 1
	says -- 'has been slow for .*: rank 1 .* is late by [67][0-9][0-9] ms an operation, on average of the last [0-9]+'
	keyword straggler
}

@test "CUDA: a kernel that does not end" {
	need_cuda
	PROGRAM=k_stuck stuck 2 1
	says -- "rank 1 .* has not reached it: its stream runs kernel spin_for_good \(thread [0-9]+\) for" 'rank 0 waits for it' 'wait for the kernel'
	keyword kernel
}

@test "NCCL: another size" {
	stuck 2 size 1
	says -- 'has failed .*rank 1 [^,]*calls allreduce of 524288 f32 sum .*: the ranks disagree on the operation' 'have all ranks call the same operations, of the same size'
}

@test "NCCL: another type" {
	stuck 2 type 1
	says -- 'has failed .*rank 1 [^,]*calls allreduce of 1048576 i32 sum .*: the ranks disagree on the operation'
}

@test "NCCL: another order" {
	stuck 2 order 1
	says -- 'has failed .*rank 1 [^,]*calls broadcast of .*: the ranks disagree on the operation' 'in the same order'
}

@test "NCCL: a receive without a send" {
	stuck 3 recv 1
	says -- 'recv #1 \(from rank 2, 4 MiB of f32\) has been waiting for .*: rank 2 .* has not called it' 'rank 1 waits for it'
}

@test "NCCL: two communicators in different orders" {
	stuck 2 crossed 1
	says -- 'comm 1 .*: allreduce #1 .* has been waiting for .*: rank 1 .* is in allreduce #0 of comm 2, where it waits for rank 0' \
		'comm 1 and comm 2 wait for each other' 'have all ranks use comm 1 and comm 2 in the same order, or in different streams'
}
