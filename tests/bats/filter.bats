# Collectives as filters: vectors in on stdin, vectors out on stdout, nothing left on the devices.
# shellcheck disable=SC2016,SC2030,SC2031
load helper

# machine N [OPTION...] SCRIPT - run a bash script with N devices
machine() { bounded gpuctl run -n "$1" "${@:2:$#-2}" -- bash -c "${*: -1}"; }

# Within a machine: every device is free and has no memory in use.
UNUSED='unused() { gpuctl status --json | grep -q "\"comms\":\[\]" &&
	! gpuctl devices --json | grep -q "\"used_bytes\":[1-9]"; }; '

@test "three lines are three ranks' vectors" {
	printf '1 2 3\n4 5 6\n7 8 9\n' >in
	run gpuctl run -n 3 -- gpuctl allreduce <in
	assert_status 0
	assert_output '12 15 18'
}

@test "every collective's output, and with --all" {
	run machine 4 'two() { printf "1 2 3 4\n5 6 7 8\n"; }
		for c in allreduce reduce allgather gather reduce-scatter alltoall; do
			echo "$c"; two | gpuctl $c; echo all; two | gpuctl $c --all
		done
		for c in broadcast scatter; do
			echo "$c"; echo 1 2 3 4 | gpuctl $c -n 2; echo all
			echo 1 2 3 4 | gpuctl $c -n 2 --all
		done
		echo barrier; gpuctl barrier'
	assert_status 0
	assert_output 'allreduce
6 8 10 12
all
6 8 10 12
6 8 10 12
reduce
6 8 10 12
all
6 8 10 12
allgather
1 2 3 4 5 6 7 8
all
1 2 3 4 5 6 7 8
1 2 3 4 5 6 7 8
gather
1 2 3 4 5 6 7 8
all
1 2 3 4 5 6 7 8
reduce-scatter
6 8
10 12
all
6 8
10 12
alltoall
1 2 5 6
3 4 7 8
all
1 2 5 6
3 4 7 8
broadcast
1 2 3 4
all
1 2 3 4
1 2 3 4
scatter
1 2
3 4
all
1 2
3 4
barrier'
}

@test "premulsum has factors, bits are of integers, and types of 8 bits round and saturate" {
	run machine 3 'v() { printf "1 9\n-7 2\n3 -4\n"; }
		v | gpuctl allreduce --op premulsum --scalar 1,10,-0.5
		v | gpuctl reduce --op premulsum --scalar -2 --type i8
		for op in band bor bxor; do v | gpuctl allreduce --op $op --type int8; done
		v | gpuctl reduce --op prod --type f8e4m3
		printf "448 0.3\n448 0\n-1 0\n" | gpuctl allreduce --type e4m3
		v | gpuctl allreduce --op band --type fp8_e5m2
		v | gpuctl allreduce --op premulsum
		v | gpuctl allreduce --op premulsum --scalar 1,2
		v | gpuctl allreduce --op premulsum --scalar 1,2,3,4
		v | gpuctl allreduce --op premulsum --scalar 0.5 --type i8
		v | gpuctl allreduce --scalar 1'
	assert_output '-70.5 31
6 -14
1 0
-5 -1
-5 -9
-20 -72
448 0.3
gpuctl: allreduce: --op: band is for integers, not for f8e5m2
gpuctl: allreduce: --op premulsum: --scalar X[,...] is missing
gpuctl: allreduce: --scalar: has fewer factors than the 3 ranks
gpuctl: allreduce: --scalar: has more factors than the 3 ranks
gpuctl: allreduce: --scalar: '"'0.5'"' is not a number of type i8
gpuctl: allreduce: --scalar: only for --op premulsum'
}

@test "sums of short floats round once, by sockets and any algorithm; means do not overflow" {
	run bounded gpuctl run -n 8 --transport ipc -- bash -c '
		v() { echo 256 -448; printf "1 -448\n%.0s" {1..7}; }
		for algo in $(gpuctl plan --list | awk "\$1 == \"allreduce\" { print \$2 }" | grep -v shot); do
			v | gpuctl allreduce --type bf16 --algo $algo
			v | gpuctl allreduce --type e4m3 --op avg --algo $algo
			printf "65504\n%.0s" {1..8} | gpuctl allreduce --type f16 --op avg --algo $algo
		done | sort | uniq -c | tr -s " "
		for algo in ring naive tree; do v | gpuctl reduce --type bf16 --root 5 --algo $algo; done
		for algo in ring naive halving pairwise; do
			printf "256 256 256 256 256 256 256 256\n" >v8
			printf "1 1 1 1 1 1 1 1\n%.0s" {1..7} >>v8
			gpuctl reduce-scatter --type bf16 --algo $algo <v8 | sort -u
		done'
	assert_status 0
	assert_output ' 7 264 -3584
 7 32 -448
 7 65504
264 -3584
264 -3584
264 -3584
264
264
264
264'
}

@test "root, reduction, type and algorithm are as given" {
	run machine 3 'v() { printf "1 9\n-7 2\n3 -4\n"; }
		for op in sum prod min max avg; do v | gpuctl allreduce --op $op; done
		v | gpuctl reduce --root 2 --op max --type i8
		v | gpuctl gather --root 1 --type bf16
		v | gpuctl allreduce --algo naive --chunk 4 --stream 5
		echo 1 2 3 | gpuctl scatter --root 1'
	assert_status 0
	assert_output '-3 7
-21 -72
-7 -4
3 9
-1 2.3333333333333335
3 9
1 9 -7 2 3 -4
-3 7
1
2
3'
}

@test "counts that do not divide, fewer elements than ranks, none at all" {
	run machine 3 'printf "1 2 3 4 5\n1 2 3 4 5\n" | gpuctl reduce-scatter
		echo; echo 7 8 | gpuctl scatter
		echo; printf "5\n6\n7\n" | gpuctl allreduce
		printf "\n\n\n" | gpuctl allreduce --all | tr "\n" .
		printf "\n\n" | gpuctl allgather | tr "\n" ,
		echo 3 | gpuctl allreduce --op avg'
	assert_status 0
	assert_output '2 4
6 8 10


7
8

18
...,3'
}

@test "floats come back exactly as they were" {
	echo '0.1 1e-310 1.7976931348623157e308 -0 0.30000000000000004 123456789012345680' >in
	run machine 2 'gpuctl broadcast <in; gpuctl broadcast --type f32 <<<"0.1 16777217 1e-45"'
	assert_status 0
	assert_output '0.1 1e-310 1.7976931348623157e308 -0 0.30000000000000004 1.2345678901234568e17
0.1 16777216 1e-45'
}

@test "NaN and infinity go through the arithmetic of IEEE 754" {
	run machine 2 'printf "nan 1 inf inf\n2 nan 1 -inf\n" | gpuctl allreduce
		printf "nan 1\n2 nan\n" | gpuctl allreduce --op max --type f16'
	assert_status 0
	assert_output $'nan nan inf nan\nnan nan'
}

@test "commas, tabs, CRLF, and a last line without its newline" {
	run machine 2 'printf "1, 2\t3\r\n4,5,6" | gpuctl allreduce'
	assert_status 0
	assert_output '5 7 9'
}

@test "a communicator that exists, which stays" {
	run machine 4 "$UNUSED"'C=$(gpuctl comm-init 3 1)
		printf "1\n2\n" | gpuctl allreduce --comm $C; echo 5 | gpuctl broadcast --comm $C --all
		printf "1\n2\n3\n" | gpuctl allreduce --comm $C; echo $?; gpuctl comm-status $C'
	assert_status 0
	assert_output '3
5
5
gpuctl: allreduce: 3 vectors, but communicator 1 has 2 ranks
5
success'
}

@test "input that does not parse as vectors: one line with the place, exit 5" {
	run machine 4 'try() { gpuctl "$@"; echo "$?"; }
		printf "1 2\n3 4x 5\n" | try allreduce
		printf "1 2\n3\n" | try allreduce
		printf "1 300\n" | try allreduce --type u8
		printf "" | try allreduce
		printf "" | try allreduce --raw f32
		printf "1 2 3\n4 5 6\n" | try alltoall
		printf "1\n2\n" | try broadcast
		printf "1\n2\n" | try allreduce -n 3
		printf abcde | try allreduce --raw f32 -n 2
		printf abcde | try broadcast --raw f16'
	assert_status 0
	assert_output "gpuctl: allreduce: line 2, element 2: '4x' is not a number of type f64
5
gpuctl: allreduce: line 2 has 1 element, line 1 has 2
5
gpuctl: allreduce: line 1, element 2: '300' is out of range for u8 (0 to 255)
5
gpuctl: allreduce: no vectors on standard input
5
gpuctl: allreduce: no vectors on standard input
5
gpuctl: alltoall: 3 elements in a vector cannot be divided by 2 ranks
5
gpuctl: broadcast: needs one vector, the root's; standard input has 2
5
gpuctl: allreduce: 2 vectors, but -n is 3
5
gpuctl: allreduce: 5 bytes on standard input are not a whole number of f32 elements for each of 2 ranks: must be a multiple of 8
5
gpuctl: broadcast: 5 bytes on standard input are not a whole number of f16 elements for each of 1 rank: must be a multiple of 2
5"
}

@test "more vectors than devices: both numbers, exit 1; than free ones: the programs that use them, exit 8" {
	run machine 4 'printf "1\n2\n3\n4\n5\n" | gpuctl allreduce; echo $?
		gpuctl comm-init 0 1 2 >/dev/null; printf "1\n2\n" | gpuctl allreduce; echo $?
		gpuctl comm-init 3 >/dev/null; echo 1 | gpuctl broadcast; echo $?
		gpuctl barrier -n 1; echo $?'
	output=$(sed -E 's/pid [0-9]+/pid PID/g' <<<"$output")
	assert_output 'gpuctl: allreduce: 5 vectors: needs 5 devices; 4 exist
1
gpuctl: allreduce: 2 vectors: busy: needs 2 devices; 1 of 4 is free: comm 1, made by gpuctl comm-init (pid PID), has 3
8
gpuctl: broadcast: 4 ranks: busy: needs 4 devices; 0 of 4 are free: comm 1, made by gpuctl comm-init (pid PID), has 3, comm 2, made by gpuctl comm-init (pid PID), has 1
8
gpuctl: barrier: 1 rank: busy: needs 1 device; 0 of 4 are free: comm 1, made by gpuctl comm-init (pid PID), has 3, comm 2, made by gpuctl comm-init (pid PID), has 1
8'
}

# Within a machine: lose INDEX - kill -9 the device, and wait until the coordinator knows
LOSE='lose() { local pid; pid=$(gpuctl devices | awk -v k=$1 "\$1 == k { print \$7 }"); kill -9 "$pid"
	until gpuctl devices | awk -v k=$1 -v p="$pid" "\$1 == k && (\$7 != p || \$0 ~ /lost/) { found = 1 } END { exit !found }"; do :; done; }; '

@test "the number of ranks does not depend on which devices are alive" {
	perl -e 'print pack("l*", (1 << $_) x 12) for 0 .. 3' >in
	for policy in abort shrink; do
		run machine 4 --on-failure $policy "$LOSE"'lose 2
			try() { gpuctl "$@" | od -An -td4; echo "${PIPESTATUS[0]}"; }
			try allreduce --raw i32 <in; try broadcast --all --type i32 <<<1; try barrier
			try scatter <<<"1 2 3 4"; try bench -e 8 --iters 1; seq 4 | try allreduce'
		assert_equal "$(grep -cx 1 <<<"$output")" 6
		assert_equal "$(grep -Ec '^gpuctl: [a-z]*: 4 (ranks|vectors): needs 4 devices; 3 of 4 are available; device [0-9a-f]{16} \(gpu 2\) was lost .* ago: killed by signal 9$' \
			<<<"$output")" 6
	done
}

@test "without a number of ranks: exit 2, before stdin is read" {
	run machine 4 'unset GPUSIM_NDEVICES
		for v in "allreduce --raw i32" broadcast "scatter --raw u8" barrier; do
			gpuctl $v <> <(:); echo $?
		done 2>&1; GPUSIM_NDEVICES=x gpuctl barrier; echo $?; seq 3 | gpuctl allreduce; gpuctl barrier -n 2
		gpuctl bench -e 8 --iters 1 | grep -c "^#  Rank"'
	for v in allreduce broadcast scatter barrier; do
		assert_match "gpuctl: $v: the number of ranks is missing: use -n N; GPUSIM_NDEVICES, which 'gpuctl run' sets, is not set"$'\n2\n'
	done
	assert_match $'gpuctl: barrier: GPUSIM_NDEVICES: .*x.*\n2\n6\n4$'
}

@test "a wrong option is reported without waiting for stdin: exit 2" {
	run machine 1 'for o in "--algo bruck" "--type f31" "--op mean" "--count 3" --async; do
			gpuctl reduce $o <> <(:); echo $?
		done 2>&1'
	assert_output "gpuctl: reduce: unknown algorithm 'bruck': not one of auto, ring, naive, tree
2
gpuctl: reduce: --type: 'f31' is not a type ($(gpuctl completion -- reduce --type '' | cut -f 1 | xargs))
2
gpuctl: reduce: --op: 'mean' is not an operation ($(gpuctl completion -- reduce --op '' | cut -f 1 | xargs))
2
gpuctl: reduce: --count: needs --addr, or --send and --recv
2
gpuctl: reduce: --async: needs --addr, or --send and --recv
2"
}

@test "a vector that does not fit in a device's memory: exit 1, devices unharmed" {
	run machine 2 --mem 1M "$UNUSED"'head -c 4M /dev/zero | gpuctl allreduce --raw f32; echo $?
		printf "1\n2\n" | gpuctl allreduce'
	assert_match 'gpuctl: allreduce: device [0-9a-f]{16}: no room for 2097152 bytes'
	assert_match $'\n1\n3$'
}

@test "a full disk is an error; a closed stdout too" {
	run machine 2 'printf "1\n2\n" | gpuctl allreduce >/dev/full; echo $?
		printf "1\n2\n" | gpuctl allreduce --raw i8 >/dev/full; echo $?
		printf "1\n2\n" | gpuctl allreduce >&-; echo $?; gpuctl allreduce <&-; echo $?'
	assert_output 'gpuctl: allreduce: standard output: No space left on device
1
gpuctl: allreduce: standard output: No space left on device
1
gpuctl: allreduce: standard output: Bad file descriptor
1
gpuctl: allreduce: standard input: Bad file descriptor
1'
}

@test "nothing stays on the devices: after success, failure, a closed pipe, kill -9" {
	run machine 2 --bandwidth 40Mb "$UNUSED"'exec 2>/dev/null; seq -s " " 100000 >line
		wait_unused() { for ((i = 0; i < 200; i++)); do unused && return; read -rt 0.05 <> <(:); done
			gpuctl status; return 1; }
		cat line line | gpuctl allreduce >/dev/null; wait_unused && echo success
		cat line line | gpuctl allreduce >/dev/full; wait_unused && echo failure
		cat line line | gpuctl allreduce --all | head -c 1; wait_unused && echo pipe
		cat line line | gpuctl allreduce --all >out & until gpuctl status | grep -q in-progress; do :; done
		kill -9 $!; wait_unused && echo killed'
	assert_output $'success\nfailure\n2pipe\nkilled'
}

@test "--raw reads and writes the same elements, ranks one after the other" {
	run machine 2 'printf "\1\2\3\4" | gpuctl allreduce --raw u8 | od -An -tu1
		printf "\1\2\3\4" | gpuctl allreduce --raw u8 --all | od -An -tu1
		printf "\1\2\3\4" | gpuctl alltoall --raw u8 | od -An -tu1
		printf "\1\2\3\4" | gpuctl gather --raw u8 --root 1 | od -An -tu1
		printf "\1\2\3" | gpuctl scatter --raw u8 | od -An -tu1
		printf "\0\0\200\77\0\0\0\100" | gpuctl allreduce --raw f32 | od -An -tf4'
	assert_status 0
	assert_equal "$(tr -s ' ' <<<"$output")" ' 4 6
 4 6 4 6
 1 3 2 4
 1 2 3 4
 1 2 3
 3'
}

@test "64 MB of --raw f32 in one pipe: at most twice that in memory" {
	not grep -q __asan_init "$BUILD/bin/gpuctl" || skip 'a sanitizer needs memory of its own'
	head -c 64M /dev/urandom >in
	mkfifo out
	run machine 4 'cat in | { exec gpuctl allgather --raw f32 >out; } & exec 8<out
		head -c 1 <&8 >got; sed -n "s/^VmHWM:\s*\([0-9]*\) kB/\1/p" /proc/$!/status
		cat <&8 >>got; cmp in got'
	assert_status 0
	((output > 65536 && output < 2 * 65536)) || fail "$output KiB resident for 65536 KiB of vectors"
}

@test "millions of elements as text" {
	seq -s ' ' 1 2000000 >one
	seq -s ' ' 1999999 -1 0 >two
	run machine 2 'cat one two | gpuctl allreduce --type i32 >out; wc -lw <out
		tr " " "\n" <out | sort -u'
	assert_status 0
	assert_equal "$(tr -s ' ' <<<"$output")" ' 1 2000000
2000000'
}

@test "a pipeline of filters" {
	run machine 4 'printf "1 2 3 4\n5 6 7 8\n" | gpuctl reduce-scatter | gpuctl allgather |
		gpuctl broadcast --all | gpuctl allreduce'
	assert_status 0
	assert_output '24 32 40 48'
}

@test "the devices are free before the first byte is out" {
	seq -s " " 10000 >line
	run machine 2 'cat line line >v2; for _ in 1 2 3; do
		gpuctl allreduce <v2 | { head -c 10; seq 2 | gpuctl allreduce; }
		printf "\1\2" | gpuctl allgather --raw u8 --all | { head -c 1 >/dev/null; seq 2 | gpuctl allreduce; }
	done; gpuctl allreduce <v2 | :; seq 2 | gpuctl allreduce'
	assert_status 0
	assert_output "$(printf '2 4 6 8 103\n3\n%.0s' 1 2 3)"$'\n3'
}

@test "a signal gives the devices back, and ends the filter as it would any program" {
	seq -s " " 20000 >line
	run machine 2 --bandwidth 2Mb 'ulimit -c 0; cat line line >v2
		strike() { # SIGNAL COMMAND... - it, once it is under way
			"${@:2}" <v2 >out 2>said & until gpuctl status | grep -q in-progress; do :; done
			kill -$1 $!; wait $!; echo $1 $? $(grep -c "^2 4 6" out) $(wc -c <said); seq 2 | gpuctl allreduce
		}
		for s in INT TERM HUP QUIT; do strike $s env --default-signal gpuctl allreduce; done
		strike TERM gpuctl bench -b 1M -e 1M; strike HUP nohup gpuctl allreduce' 2>/dev/null
	assert_equal "$(grep -v ': line ' <<<"$output")" 'INT 130 0 0
3
TERM 143 0 0
3
HUP 129 0 0
3
QUIT 131 0 0
3
TERM 143 0 0
3
HUP 0 1 0
3'
}

@test "--stream: each block of lines is an operation" {
	run machine 4 'b() { gpuctl "$@" --stream --type i32; }
		seq 12 | b allreduce; seq 6 | b allreduce -n 2 --op max --all
		printf "1 2\n3 4\n5\n6\n\n\n7,8\r\n9 10" | b reduce-scatter -n 2
		seq 3 | b broadcast -n 2 --all; printf "1 2\n3 4\n" | b scatter -n 2; seq 4 | b allgather -n 2
		seq 4 | b gather -n 2 --root 1; seq 4 | b reduce -n 2; printf "1 2\n3 4\n5 6\n7 8\n" | b alltoall -n 2
		C=$(gpuctl comm-init 3 1); seq 4 | b allreduce --comm $C; b allreduce -n 2 </dev/null; echo $?
		gpuctl comm-destroy $C; seq 4 | b allreduce --stream 5; seq 4 | gpuctl allreduce --stream 5 --type i32' 2>/dev/null
	assert_equal "$(tr '\n' , <<<"$output")" "10,26,42,2,2,4,4,6,6,4,6,,11,,,16,18,1,1,2,2,3,3,1,2,3,4,1 2,3 4,1 2,3 4,3,7,1 3,2 4,5 7,6 8,3,7,0,10,10,"
}

@test "--stream: raw blocks" {
	run machine 2 'b() { gpuctl "$@" --stream --count 2 | od -An -tu1 -v; echo "${PIPESTATUS[0]}"; }
		printf "\1\2\3\4\5\6\7\10" | b allreduce --raw u8; printf "\1\2\3\4" | b scatter --raw u8
		printf "\1\2\3\4\5\6\7\10\11" | b allreduce --raw u8 2>said; cat said'
	assert_equal "$(tr -s ' ' <<<"$output")" ' 4 6 12 14
0
 1 2 3 4
0
 4 6 12 14
5
gpuctl: allreduce: standard input ends after 1 of the 4 bytes of a block'
}

@test "--stream: a result is out as soon as its block is there; memory does not grow" {
	export GROWTH=4096 # KiB
	not grep -q __asan_init "$BUILD/bin/gpuctl" || GROWTH=500000 # it keeps what is freed
	run machine 2 'coproc gpuctl allreduce --stream; pid=$COPROC_PID; exec 8<&${COPROC[0]}- 9>&${COPROC[1]}-
		for i in 1 2 3; do
			echo $i >&9; echo -n 1 >&9; echo 0 >&9; read -ru 8 sum; echo $sum
		done
		kib() { sed -n "s/^VmRSS:\s*\([0-9]*\) kB/\1/p" /proc/$pid/status; }
		before=$(kib); seq 10000 >&9 & for ((i = 0; i < 5000; i++)); do read -ru 8 sum; done
		echo $sum $(($(kib) - before < GROWTH)); exec 9>&-; wait $pid; echo $?
		yes 1 | gpuctl allreduce --stream | head -n 2; seq 2 | gpuctl allreduce
		for s in INT TERM; do
			coproc env --default-signal gpuctl allreduce --stream; pid=$COPROC_PID; exec 8<&${COPROC[0]}- 9>&${COPROC[1]}-
			seq 2 >&9; read -ru 8 sum; kill -$s $pid; wait $pid; echo $?; seq 2 | gpuctl allreduce
		done'
	assert_status 0
	assert_equal "$(tr '\n' ' ' <<<"$output")" '11 12 13 19999 1 0 2 2 3 130 3 143 3 '
}

@test "--stream: bad blocks, and options that do not go with it" {
	run machine 2 'try() { gpuctl "$@"; echo "$?"; }
		seq 3 | try allreduce --stream; printf "1 2\n3 4\n5 6\n7\n" | try allreduce --stream
		printf "1\n2\n3\nx\n5\n6\n" | try allreduce --stream; try allreduce --stream x; try allreduce --stream 64
		try allreduce --stream --count 2; try allreduce --stream --raw u8; try allreduce --stream --comm 1 --addr 1,2
		try allreduce --stream --async; try launch --stream --device 0 fill; unset GPUSIM_NDEVICES; try allreduce --stream'
	assert_match '^3
gpuctl: allreduce: standard input ends with line 3, after 1 of the 2 lines of a block
5
4 6
gpuctl: allreduce: line 4 has 1 element, line 3 has 2
5
3
gpuctl: allreduce: line 4, element 1: .x. is not a number of type f64
5
gpuctl: allreduce: unexpected operand .x.;[^
]*
2
gpuctl: allreduce: --stream: 64 is not in the range 0 to 63
2
gpuctl: allreduce: --count: needs --raw; lines need no count
2
gpuctl: allreduce: --count N is missing: elements of each rank.s vector in a block
2
gpuctl: allreduce: --stream: needs a number here; without one it is for vectors on standard input
2
gpuctl: allreduce: --async: needs --addr, or --send and --recv
2
gpuctl: launch: --stream: .--device. is not a whole number
2
gpuctl: allreduce: the number of ranks is missing[^
]*
2$'
}
