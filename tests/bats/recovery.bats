# A device is killed in the middle of an operation: what the communicator's policy promises, bit by bit.
#
# Rank r's vector is 2**r everywhere, so a sum says whose it is. Which device is killed is left to
# chance; a failure says which one it was.
# shellcheck disable=SC2016,SC2030,SC2031,SC2119,SC2120,SC2154
load helper

# fill VALUE COUNT - COUNT u64
fill() { perl -e 'my $p = pack("Q<", $ARGV[0]) x 65536; my $n = $ARGV[1]; for (; $n > 65536; $n -= 65536) { print $p } print substr($p, 0, 8 * $n)' "$1" "$2"; }

# The pid of the device at an index, in the cluster we run under.
pid_of() { gpuctl devices | awk -v k="$1" '$1 == k { print $7 }'; }

# under_way [EPOCH] - an operation is in progress, of a communicator at that epoch
under_way() { gpuctl status | awk -v epoch="${1-}" '$2 == "in-progress" && $7 > 0 && (epoch == "" || $4 == epoch) { found = 1 } END { exit !found }'; }

# freeze PID... - once an operation is under way, stop these devices, without which it cannot end. When it
# had ended before, it is begun again: by BEGIN, in the background, its pid in $!
freeze() {
	local _
	for _ in {1..20}; do
		wait_until 20 begun
		kill -STOP "$@"
		under_way && return
		kill -CONT "$@"
		wait "$!"
		"${BEGIN[@]}"
	done
	echo 'each time over too soon' >&2
	return 1
}
begun() { under_way || ! kill -0 "$!"; }

# strike INDEX... - while an operation is under way, kill -9 the devices at these indices, all at once
strike() {
	local pids=() i
	for i; do pids+=("$(pid_of "$i")"); done
	freeze "${pids[@]}"
	kill -KILL "${pids[@]}"
}

# allreduce - of ./in to ./out, as a filter, in the background: its pid in $!
allreduce() {
	BEGIN=(allreduce "$@")
	gpuctl allreduce --raw u64 "$@" <in >out &
}

# buffers COMM N FILL... - a buffer of 2N elements a rank. Sets A.
buffers() {
	A=()
	local r
	for ((r = 0; r < $2; r++)); do
		A[r]=$(gpuctl malloc --comm "$1" --rank "$r" $((16 * $3)))
	done
}

# many COMM N COUNT OPTION... - a group of N all-reduces, in the background: its pid in $!. The
# first N elements of each buffer are 2**r before.
many() {
	local r
	BEGIN=(many "$@")
	for r in "${!A[@]}"; do fill $((1 << r)) "$2" | gpuctl memcpy --comm "$1" - "$r:${A[r]}"; done
	for ((r = 0; r < $3; r++)); do echo "allreduce --type u64 --count $2 ${*:4}"; done >lines
	gpuctl group --comm "$1" <lines &
}

# result COMM RANK ADDR VALUE N - the rank has N elements of that value there
result() { gpuctl memcpy --comm "$1" "$2:$3:$((8 * $5))" - | cmp - <(fill "$4" "$5"); }

export -f gone fill pid_of under_way freeze begun strike allreduce buffers many result wait_until

setup() {
	house_setup
	export TICK LIMIT=50
	RANDOM=$CHANCE
	VICTIM=$((RANDOM % 4)) SECOND=$(((VICTIM + 1 + RANDOM % 3) % 4))
	echo "victim $VICTIM, then $SECOND; again with CHANCE=$CHANCE"
	NELEM=200000
	for r in 0 1 2 3; do fill $((1 << r)) "$NELEM"; done >in
}

teardown() {
	kill_all
	house_teardown
}

# cluster N OPTION... -- SCRIPT - in it, as $V and $W, two devices to kill
cluster() {
	run --separate-stderr bounded gpuctl run -n "$1" "${@:2:$#-2}" bash -uc \
		'exec {TICK}<> <(:); V='"$VICTIM W=$SECOND"'; gpuctl devices --json >devices.json
		'"${*: -1}"
	echo "$stderr"
	grep -o '"mem_path":"[^"]*"' devices.json | cut -d'"' -f4 | while read -r path; do
		refute_file "$path"
	done
	assert_nothing_left
}

# told REGEX - on standard error
told() {
	[[ $stderr =~ $1 ]] || fail "expected on standard error: $1"$'\n'"got: $stderr"
}

# killed_in_mid POLICY TRANSPORT OPTION... - an all-reduce over shaped links, one of whose devices dies
killed_in_mid() {
	cluster 4 --transport "$2" --bandwidth 25Mb --on-failure "$1" "${@:3}" -- \
		'allreduce; strike $V; wait $!'
}

# sum_is VALUE - what ./out has
sum_is() {
	assert_status 0
	cmp out <(fill "$1" "$NELEM")
	told "gpuctl: note: .*rank $VICTIM .*device [0-9a-f]{16}"
}

for_abort() {
	killed_in_mid abort "$1"
	[[ $status == 1 || $status == 3 ]] || fail "exit status $status"
	told "gpuctl: allreduce: comm 1.* rank $VICTIM .*device [0-9a-f]{16}"
	[[ ! -s out ]]
}

for_shrink() {
	killed_in_mid shrink "$1"
	sum_is $((15 - (1 << VICTIM)))
}

for_respawn() {
	killed_in_mid respawn "$1"
	sum_is 15
}

for_spare() {
	killed_in_mid spare "$1" --spares 1
	sum_is 15
}

@test "ipc, abort: one line that names the rank and its device" { for_abort ipc; }
@test "ipc, shrink: the sum of those that are left" { for_shrink ipc; }
@test "ipc, respawn: the whole sum" { for_respawn ipc; }
@test "ipc, spare: the whole sum" { for_spare ipc; }
@test "tcp, abort: one line that names the rank and its device" { for_abort tcp; }
@test "tcp, shrink: the sum of those that are left" { for_shrink tcp; }
@test "tcp, respawn: the whole sum" { for_respawn tcp; }
@test "tcp, spare: the whole sum" { for_spare tcp; }

# in_memory POLICY PLACE LEFT OPTION... - a group of all-reduces in mapped memory, one of whose devices dies.
# PLACE is `in` or `out`; LEFT is the number of remaining ranks.
in_memory() {
	local n=1500000 times=24 # 15 * 4**23 is still a number of 64 bits
	cluster 4 "${@:4}" -- '
		n='$n' times='$times'
		C=$(gpuctl comm-init -n 4 --on-failure '"$1"')
		buffers $C 4 $n
		a=$(IFS=,; echo "${A[*]}") b=
		for x in "${A[@]}"; do b+=,$((x + 8 * n)); done
		if [ '"$2"' = in ]; then place="--addr $a" off=0; else place="--send $a --recv ${b#,}" off=$((8 * n)); fi
		many $C $n $times $place
		strike $V; wait $! || exit
		left='"$3"' sum=15
		if ((left == 3)); then sum=$((15 - (1 << V))); unset "A[$V]"; A=("${A[@]}"); fi
		if [ '"$2"' = in ]; then sum=$((sum * left ** (times - 1))); fi
		for ((r = 0; r < left; r++)); do
			result $C $r $((A[r] + off)) $sum $n || exit
		done
		gpuctl comm-status $C'
}

@test "memory, shrink, in place" {
	in_memory shrink in 3
	assert_status 0
	assert_match '^success'$'\n''epoch 2, 3 ranks, on failure shrink, 1 recovery'$'\n'"last: rank $VICTIM "
	told "gpuctl: note: .*rank $VICTIM .*device [0-9a-f]{16}"
}

@test "memory, respawn, in place" {
	in_memory respawn in 4
	assert_status 0
	assert_match '^success'$'\n''epoch 2, 4 ranks, on failure respawn, 1 recovery'
}

@test "memory, spare, in place" {
	in_memory spare in 4 --spares 1
	assert_status 0
	assert_match '^success'$'\n''epoch 2, 4 ranks, on failure spare, 1 recovery'
}

@test "memory, respawn, out of place" {
	in_memory respawn out 4
	assert_status 0
	assert_match '^success'$'\n''epoch 2, 4 ranks, on failure respawn, 1 recovery'
}

# What a filter of four vectors prints when the third device dies before one of its calls, for each of them
PHASES='phases() { local phase victim
	seq 4 >four
	for phase; do
		victim=$(gpuctl devices | awk "/ free / && n++ == 2 { print \$7 }")
		DEADLY="$phase $victim" "$BUILD/e2e/deadly" allreduce <four
		wait_until 20 gone "$victim"
	done; }; '
BEFORE='"comm_init_all 1" "malloc 1" "malloc 4" "memcpy_h2d 1" "memcpy_h2d 4" "collective 1"'
AFTER='"memcpy_d2h 1" "free 1" "comm_destroy 1"'

@test "a filter begins again whenever a device dies: respawn" {
	cluster 4 --mem 4M --on-failure respawn -- "$PHASES phases $BEFORE $AFTER"
	assert_status 0
	assert_output "$(printf '10\n%.0s' {1..9})"
}

@test "a filter begins again whenever a device dies: spare" {
	cluster 4 --mem 4M --spares 9 --on-failure spare -- "$PHASES phases $BEFORE $AFTER"
	assert_status 0
	assert_output "$(printf '10\n%.0s' {1..9})"
}

@test "a filter begins again whenever a device dies: shrink, without it" {
	cluster 12 --mem 4M --on-failure shrink -- "$PHASES phases $BEFORE $AFTER"
	assert_status 0
	assert_output "10"$'\n'"$(printf '7\n%.0s' {1..5}; printf '10\n%.0s' {1..3})"
	# The first may be known to be lost when devices are chosen; then nobody misses it.
	[[ $(grep -c '^gpuctl: note: ' <<<"$stderr") == [56] ]] || fail "$stderr"
}

@test "a device that died before the filter came: all ranks or, with shrink, its name; never fewer" {
	perl -e 'print pack("l*", (1 << $_) x 12) for 0 .. 3' >in48
	for policy in respawn spare shrink; do
		cluster 4 --mem 4M --spares 1 --on-failure $policy -- 'P=$(pid_of 2); kill -KILL $P; there() { gpuctl devices | grep -v lost | grep -qw $P; }
			while there; do :; done; gpuctl allreduce --raw i32 -n 4 <in48 >sums; echo $?; od -An -td4 -v -w48 sums; gpuctl broadcast --all <<<7'
		case $policy in
		shrink) assert_output 1 && told 'gpuctl: allreduce: 4 ranks: .*device [0-9a-f]{16} \(gpu 2\) was lost .*: killed by signal 9' ;;
		*) assert_equal "$(xargs <<<"$output")" '0 15 15 15 15 15 15 15 15 15 15 15 15 7 7 7 7' ;;
		esac
	done
}

# Each line is a sum of four, once; a device dies before a call of the second block, or between two blocks.
STREAM='stream() { local phase victim
	victim() { gpuctl devices | awk "\$0 !~ / lost / && n++ == 2 { print \$7 }"; }
	for phase in "memcpy_h2d 6" "collective 2" "memcpy_d2h 2"; do
		victim=$(victim)
		seq 12 | DEADLY="$phase $victim" "$BUILD/e2e/deadly" allreduce -n 4 --stream
		wait_until 20 gone "$victim"
	done
	coproc gpuctl allreduce -n 4 --stream
	seq 4 >&${COPROC[1]}; read -ru ${COPROC[0]} sum; echo $sum
	victim=$(victim); kill -KILL $victim; wait_until 20 gone "$victim"
	seq 5 12 >&${COPROC[1]}; exec {COPROC[1]}>&-; cat <&${COPROC[0]}; }; '

@test "--stream continues where a device died, no block lost or written twice: respawn, spare" {
	cluster 4 --mem 4M --on-failure respawn -- "$STREAM stream"
	assert_output "$(printf '10\n26\n42\n%.0s' {1..4})"
	cluster 4 --mem 4M --spares 4 --on-failure spare -- "$STREAM stream"
	assert_output "$(printf '10\n26\n42\n%.0s' {1..4})"
}

@test "--stream continues without the device that died: shrink" {
	cluster 10 --mem 4M --on-failure shrink -- "$STREAM stream"
	assert_output "$(printf '10\n20\n32\n%.0s' 1 2; printf '10\n26\n32\n10\n20\n32\n')"
}

@test "a second rank is lost while the first loss is made good" {
	cluster 4 --transport ipc --bandwidth 10Mb --on-failure shrink -- \
		'P=$(pid_of $W); gpuctl events --follow | grep -qm1 recovered & F=$!
		allreduce; strike $V; wait $F; kill -KILL $P; wait $!'
	assert_status 0
	cmp out <(fill $((15 - (1 << VICTIM) - (1 << SECOND))) "$NELEM")
	told "gpuctl: note: .*rank"
}

@test "all devices are lost: a line with shrink, the whole sum with respawn" {
	head -c $((16 * NELEM)) in >two && mv two in
	cluster 2 --transport ipc --bandwidth 25Mb --on-failure shrink -- 'allreduce; strike 0 1; wait $!'
	assert_status 1
	told 'gpuctl: allreduce: comm 1.* no rank is left'
	cluster 2 --transport ipc --bandwidth 25Mb --on-failure respawn -- 'allreduce; strike 0 1; wait $!'
	assert_status 0
	cmp out <(fill 3 "$NELEM")
}

@test "comm-shrink makes a communicator usable that lost a rank; comm-grow takes in another device" {
	cluster 4 --spares 1 --transport ipc --bandwidth 25Mb -- '
		C=$(gpuctl comm-init -n 4); allreduce --comm $C; strike $V; wait $! && exit
		gpuctl comm-status $C; gpuctl comm-shrink $C; seq 3 | gpuctl allreduce --comm $C
		gpuctl wait $C; gpuctl comm-status $C
		gpuctl comm-grow $C -n 1; gpuctl comm-grow $C $V; gpuctl comm-grow $C $W; gpuctl comm-status $C
		gpuctl comm-grow $C 4; seq 4 | gpuctl allreduce --comm $C; gpuctl comm-status $C'
	assert_status 0
	shrunk=$'success\nepoch 2, 3 ranks, on failure abort, 0 recoveries'
	grown=$'success\nepoch 3, 4 ranks, on failure abort, 0 recoveries'
	assert_match "^failed: comm 1.* rank $VICTIM .*"$'\n3\n6\n'"$shrunk"$'\n'"$shrunk"$'\n4\n10\n'"$grown\$"
	told 'gpuctl: comm-grow: busy: needs 1 device; 0 of 3 are free: comm 1, made by gpuctl comm-init .pid [0-9]*., has 3'
	told 'gpuctl: comm-grow: device [0-9a-f]{16} lost: '
	told 'gpuctl: comm-grow: device [0-9a-f]{16} is rank [0-2] of comm 1 already'
}

@test "comm-abort ends what runs; the communicator is not usable until it is shrunk" {
	cluster 4 --transport ipc --bandwidth 5Mb --on-failure shrink -- '
		C=$(gpuctl comm-init -n 4); allreduce --comm $C; wait_until 20 under_way; gpuctl comm-abort $C not needed any more
		wait $!; echo $?; seq 4 | gpuctl allreduce --comm $C; echo $?; gpuctl comm-status $C
		gpuctl comm-shrink $C; seq 4 | gpuctl allreduce --comm $C; gpuctl comm-shrink $C 3 1; seq 2 | gpuctl allreduce --comm $C
		gpuctl comm-shrink $C 2; gpuctl comm-shrink $C 0 1; gpuctl comm-abort 9'
	assert_match $'^1\n1\nfailed: comm 1: not needed any more\n.*\n4\n10\n2\n3$'
	told 'gpuctl: comm-shrink: rank 2 of comm 1, which has 2'
	told 'gpuctl: comm-shrink: comm 1: no rank would be left'
	told 'gpuctl: comm-abort: no communicator 9'
	[[ ! -s out ]]
}

@test "the coordinator is killed: the command ends in a line, and nothing is left" {
	cluster 4 --transport ipc --bandwidth 5Mb -- '
		P=$(gpuctl status | sed -n "1s/.*pid \([0-9]*\),.*/\1/p"); allreduce; wait_until 20 under_way; kill -KILL $P; wait $!'
	assert_status 3
	told 'gpuctl: run: gpucoord \(pid [0-9]+\) killed by signal 9'
	told 'gpuctl: allreduce: ipc://[^ ]*/coord.sock: .*'
	[[ ! -s out ]]
}

# by_hand POLICY - a coordinator that soon misses its devices, and four of them on slow links. Sets DEV.
by_hand() { # what it starts must not hold the output of a `run`
	export GPUSIM_COORD=ipc://$T/c.sock GPUSIM_NDEVICES=4 GPUSIM_ON_FAILURE=$1 GPUSIM_P2P_LEVEL=LOC
	background gpucoord --listen "$GPUSIM_COORD" --heartbeat 250ms --missed 8/10 --op-timeout 3s
	wait_until 10 gpuctl status
	DEV=()
	local k
	for k in 0 1 2 3; do
		background gpudev --listen "ipc://$T/d$k.sock" --ordinal $k -m 16M --mem-scratch "$T/m$k" --bandwidth 25Mb
		DEV+=("$PID")
	done
	wait_until 10 eval '[ "$(gpuctl devices | grep -c free)" = 4 ]'
}

# frozen POLICY - an all-reduce one of whose devices is frozen; $? is the filter's
frozen() {
	by_hand "$1"
	allreduce -n 4 2>said 3>&-
	freeze "${DEV[VICTIM]}"
	wait "$!"
}

@test "a device that is frozen is named, and does no harm when it continues" {
	local status=0
	frozen abort || status=$?
	[[ $status == 1 || $status == 3 ]] || fail "exit status $status"
	grep -E "^gpuctl: allreduce: comm 1.* rank $VICTIM .*device [0-9a-f]{16}" said || fail "$(cat said)"
	[[ $(wc -l <said) == 1 ]]
}

@test "shrink continues without a frozen device, which may return when it continues" {
	frozen shrink
	cmp out <(fill $((15 - (1 << VICTIM))) "$NELEM")
	grep "^gpuctl: note: .*rank $VICTIM " said
	kill -CONT "${DEV[VICTIM]}"
	wait_until 10 eval '[ "$(gpuctl devices | grep -c free)" = 4 ]'
	assert_equal "$(seq 4 | gpuctl allreduce --type i32)" 10
}

@test "respawn puts a device in a frozen one's place" {
	frozen respawn
	cmp out <(fill 15 "$NELEM")
	grep "^gpuctl: note: .*rank $VICTIM " said
	wait_until 5 gone "${DEV[VICTIM]}"
	assert_equal "$(seq 4 | gpuctl allreduce --type i32)" 10
}
