#!/usr/bin/env bats
# Collectives of some ranks of a communicator: their results, their mistakes, and what is said when one stands still.
load helper

setup() {
	house_setup
	MEMBERS=$BUILD/e2e/members
}

teardown() {
	kill_all
	house_teardown
}

# worlds N ROUNDS SEED [OPTION...] - random lists on N devices
worlds() {
	run bounded gpuctl run -n "$1" "${@:4}" -- "$MEMBERS" "$1" "$2" "$3"
	assert_status 0
	assert_output "$2 rounds of $1 ranks"
}

@test "random lists and graphs of overlapping groups have the sums of the host, and the bits of a split" {
	worlds 4 60 1
	worlds 6 40 2
	worlds 1 10 3
	GPUSIM_DETERMINISTIC=1 worlds 5 40 4
	assert_nothing_left
}

@test "by sockets, and over slow links" {
	GPUSIM_P2P_DISABLE=1 worlds 4 30 5
	worlds 6 20 6 --latency 200us
	assert_nothing_left
}

@test "algorithms by name, of the library and of a file for as many ranks" {
	printf 'allreduce:halving-doubling,pairwise\n' >list
	GPUSIM_ALGO=$(<list) worlds 4 30 7
	export GPUSIM_ALGO_FILES=$ROOT/examples/algos/ring.algo GPUSIM_ALGO=my-ring # of four ranks
	run bounded gpuctl run -n 5 -- sh -c '"$1" 5 40 1 && gpuctl trace -o trace.json' - "$MEMBERS"
	assert_status 0
	grep -qE '"ranks":4,("group":"odd",)?"algo":"file"' trace.json
}

@test "mistakes: a line each" {
	run bounded gpuctl run -n 4 -- "$MEMBERS" 4 wrong
	assert_status 0
	assert_output "rank 1 operation 0: allreduce: rank 1 is twice among the members
rank 4: must be less than 4
allreduce: nmembers is 2, but members is NULL
allreduce: 5 members, but there are 4 ranks
rank 0 operation 0: broadcast: root 2: there are 2 members
rank 0 operation 0: allreduce: group 'sixteen letters!': longer than 15 letters
rank 0 operation 0: send: a send or recv has a peer, not members
label 'twenty-seven letters, no more': longer than 27 letters
stream 64: must be 0 to 63"
}

# hold POLICY - a list of tp0 and tp1 with the device of rank 3 stopped; sets VICTIM, the pid of that
hold() {
	mkfifo input output
	exec {INPUT}<>input {OUTPUT}<>output
	background gpuctl run -n 4 -- sh -c 'echo "$GPUSIM_COORD" >addr && exec "$@"' - \
		"$MEMBERS" 4 hold "$1" <&"$INPUT" >&"$OUTPUT" 2>run.log
	read -r -t $((20 * PATIENCE)) -u "$OUTPUT" _ || fail "$(cat run.log)"
	GPUSIM_COORD=$(<addr)
	export GPUSIM_COORD
	VICTIM=$(gpuctl devices | awk '$1 == 3 { print $7 }')
	kill -STOP "$VICTIM"
	echo >&"$INPUT"
}

says() {
	EXPLAINED=$(gpuctl explain) || true
	[[ $EXPLAINED =~ $1 ]]
}

@test "a recording of them is refused by replay" {
	run bounded gpuctl run -n 2 --record tape -- "$MEMBERS" 2 20 1
	assert_status 0
	run bounded gpuctl replay tape
	assert_status 5
	assert_match ' a collective of some ranks of a communicator: replay plays only those of all ranks$'
}

@test "a trace names the group" {
	run bounded gpuctl run -n 4 -- sh -c '"$1" 4 20 1 && gpuctl trace -o trace.json' - "$MEMBERS"
	assert_status 0
	run grep -cE '"ranks":[123],"group":"odd"' trace.json
	at_least "$output" 1
}

@test "a member that stands still: explain names group and rank, and no rank outside of the group" {
	hold abort
	wait_until 20 says 'allreduce #1 \([a-z-]+, tp1 of 2 ranks, 23.4 KiB of f32, sum\) has been waiting' || fail "$EXPLAINED"
	[[ $EXPLAINED =~ "rank 3 (device "[0-9a-f]*", pid $VICTIM) is stopped".*"rank 2 waits for it" ]] || fail "$EXPLAINED"
	[[ ! $EXPLAINED =~ "not called" && ! $EXPLAINED =~ "rank"s?" "[01] ]] || fail "$EXPLAINED"
	kill -KILL "$VICTIM"
	read -r -t $((20 * PATIENCE)) -u "$OUTPUT" line || fail "$(cat run.log)"
	# It may be seen by the communicator or by an operation first.
	[[ $line =~ ^3" comm 1".*" rank 3 (device "[0-9a-f]*") lost: killed by signal 9" ]] || fail "$line"
}

@test "a killed member: respawned, the list runs again; after a shrink it cannot" {
	hold respawn
	kill -KILL "$VICTIM"
	read -r -t $((20 * PATIENCE)) -u "$OUTPUT" line || fail "$(cat run.log)"
	[[ $line == 0 ]] || fail "$line"
	kill_all
	rm input output addr
	hold shrink
	kill -KILL "$VICTIM"
	read -r -t $((20 * PATIENCE)) -u "$OUTPUT" line || fail "$(cat run.log)"
	[[ $line =~ ^11" comm 1 has recovered: rank 3 ".*" lost".*"the operation is meaningless without the lost rank" ]] || fail "$line"
}
