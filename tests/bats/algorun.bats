# Algorithms from files outlive what happens to them: kills, restarts, removal; and all ways lead to them.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154
load helper
load training

setup() {
	house_setup
	unset GPUSIM_ALGO_FILES MSCCL_XML_FILES NCCL_ALGO
	export ALGOS=$ROOT/examples/algos LIMIT=40
}

teardown() {
	kill_all
	house_teardown
}

# numbers N - four vectors of N elements; rank r's are 2**r
numbers() { for x in 1 2 4 8; do perl -e 'print "$ARGV[0] " x $ARGV[1], "\n"' $x "$1"; done; }

# A device is killed in the middle of the sum; `out` says how often which number came out.
DEADLY='
	gpuctl allreduce --type i32 --algo-file "$ALGOS/ring.xml" <vectors | tr " " "\n" | sort | uniq -c &
	until gpuctl status --json | grep -q "\"pending\":1"; do kill -0 $! || break; done
	kill -9 $(gpuctl devices | awk "\$1 == 2 { print \$7 }")
	wait'

@test "algorun: a device is killed in mid-operation: respawn and spare give the sum, shrink reports the algorithm that it uses" {
	numbers 100000 >vectors
	while read -r policy sum options; do
		# shellcheck disable=SC2086
		bounded gpuctl run -n 4 --bandwidth 20Mb --on-failure "$policy" $options -- sh -c "$DEADLY" >out 2>err
		assert_equal "$(xargs <out)" "100000 $sum"
		grep -q 'note: comm 1: rank 2 ' err
		[[ $policy != shrink ]] ||
			grep -q 'algorithm ring-blocks[.][0-9a-f]* is for more ranks, so another was used' err
	done <<-'END'
		respawn 15
		spare 15 --spares 1
		shrink 11
	END
}

# built_in FORM FOLDER - a file for each collective, for three ranks
built_in() {
	while read -r coll algo; do
		gpuctl plan "$coll" -n 3 --algo "$algo" --format "$1" >"$2/$coll"
	done <<-'END'
		allreduce ring
		allgather bruck
		reduce-scatter ring
		alltoall bruck
		broadcast tree
		reduce tree
	END
}

coordinator() {
	background gpucoord 2>>coord.log
	COORD=$PID
	wait_until 10 gpuctl status || fail "$(cat coord.log)"
}

n_devices() { [[ $(gpuctl devices | grep -c "$T") == "$1" ]]; }

@test "algorun: a coordinator that is killed and started again has them; what was removed stays away" {
	export GPUSIM_COORD=ipc://$T/c.sock
	numbers 3 >vectors
	coordinator
	for i in 0 1 2 3; do
		background gpudev --listen "ipc://$T/$i.sock" --mem 16M --mem-scratch "$T/mem$i"
	done
	wait_until 10 n_devices 4
	gpuctl algo add mine "$ALGOS/ring.algo"
	gpuctl algo add away "$ALGOS/ring.algo"
	gpuctl algo list >before
	gpuctl algo remove away
	for _ in 1 2; do
		kill -KILL "$COORD"
		wait_until 5 gone "$COORD"
		coordinator
	done
	gpuctl algo list >after
	grep -v ^away before | diff - after
	wait_until 10 n_devices 4
	run bounded gpuctl allreduce --algo mine <vectors
	assert_output '15 15 15'
	run bounded gpuctl allreduce --algo away <vectors
	assert_status 2
	assert_match "unknown algorithm 'away'.*; from files: mine"
	run bounded gpuctl allreduce --algo-file "$ALGOS/ring.xml" <vectors
	assert_output '15 15 15'
	gpuctl algo list | diff after - # the name of a file that one call used is gone with the call
}

@test "algorun: six heavy files come, and everybody else is answered meanwhile; each is refused by its budget" {
	local i pids=()
	export GPUSIM_COORD=ipc://$T/c.sock
	numbers 3 | head -2 >vectors
	for ((i = 0; i < 20; i++)); do echo "for v$i in 0..2"; done >deep
	{
		printf 'algorithm deep\ncollective allreduce\nranks 2\nchunks 2\n'
		cat deep
		echo 'copy 0.data[0] -> 1.data[0]'
		sed 's/.*/end/' deep
	} >deep.algo
	# One message at a time between two ranks: each of 16,000 rounds looks at all that wait.
	printf '%s\n' 'algorithm two' 'collective allreduce' 'ranks 2' 'chunks 8000' 'for c in 0..chunks - 1' \
		' reduce 1.data[c] -> 0.data[c]' ' copy 0.data[c] -> 1.data[c]' end >two.algo
	coordinator
	for i in 0 1; do
		background gpudev --listen "ipc://$T/$i.sock" --mem 16M --mem-scratch "$T/mem$i"
	done
	wait_until 10 n_devices 2
	run gpuctl algo add deep.algo
	assert_status 5
	assert_match '^gpuctl: algo: deep.algo:5: this loop runs at least [0-9]* lines: at most 4194304 are allowed$'
	for i in 0 1 2 3 4 5; do
		background sh -c "gpuctl algo add h$i two.algo 2>heavy$i; echo \$? >>heavy$i"
		pids+=("$PID")
	done
	GPUSIM_TIMEOUT=10s run bounded gpuctl allreduce <vectors
	assert_output '3 3 3'
	kill -0 "${pids[5]}" # which is still not answered
	run gpuctl events
	[[ $output != *lost* ]]
	wait_until 60 grep -q '^2$' heavy0
	assert_equal "$(cat heavy0)" 'gpuctl: algo: two.algo: too much work: more than 536870912 units: use fewer ranks, chunks or steps
2'
	kill -TERM "$COORD" # while it is at the next one
	wait_until 10 gone "$COORD"
}

@test "algorun: a clean end leaves what was added, and nothing else" {
	export GPUSIM_COORD=ipc://$T/c.sock
	cp "$ALGOS/ring.xml" configured
	GPUSIM_ALGO_FILES=$PWD/configured coordinator
	ready device gpudev --listen "ipc://$T/0.sock" --mem 16M --mem-scratch "$T/mem0"
	device=$PID
	gpuctl comm-init -n 1
	gpuctl algo list | grep ^ring-blocks
	gpuctl algo add mine "$ALGOS/ring.algo"
	gpuctl algo list | grep -v ^ring-blocks >want
	for _ in 1 2; do
		kill "$COORD"
		wait_until 5 gone "$COORD"
		kill -KILL "$device" || true
		wait_until 5 gone "$device"
		coordinator
		gpuctl algo list | diff want -
		gpuctl status --json | grep -q '"devices":\[\],"comms":\[\]'
		gpuctl events | grep 'the coordinator started'
	done
	gpuctl algo remove mine
	kill "$COORD"
	wait_until 5 gone "$COORD"
	[[ ! -e $T/c.sock.state ]] || fail "$(ls -la "$T/c.sock.state")"
}

@test "algorun: any collective, count, type and operator" {
	built_in text .
	bounded gpuctl run -n 3 -- bash -c '
		check() { # COLLECTIVE OPTION... - as the built-in algorithms do
			want=$(gpuctl "$@" <in 2>&1)
			got=$(gpuctl "$@" --algo-file $1 <in 2>&1)
			[ "$got" = "$want" ] || echo "$@ ($(head -c 40 in)): $got, not $want"
		}
		for n in 1 2 3 13 1021; do
			for r in 1 2 3; do seq -s " " $r $((n + r - 1)) | sed "s/\([0-9]\)[0-9]*/\1/g"; done >in
			for coll in allreduce allgather broadcast reduce; do check $coll --type u8; done
		done
		for n in 3 39; do
			for r in 1 2 3; do seq -s " " $r $((n + r - 1)) | sed "s/\([0-9]\)[0-9]*/\1/g"; done >in
			for coll in reduce-scatter alltoall; do check $coll --type f16; done
		done
		for type in i8 u8 i32 u32 i64 u64 f16 bf16 f32 f64; do check reduce-scatter --type $type; done
		for op in sum prod min max; do check allreduce --type f32 --op $op; done
		for op in band bor bxor; do check allreduce --type u32 --op $op; done' >out
	assert_equal '' "$(cat out)"
}

@test "algorun: a count of zero, and a group of many calls" {
	run bounded gpuctl run -n 4 -- bash -e -c '
		gpuctl algo add mine "$ALGOS/ring.algo" >name
		comm=$(gpuctl comm-init -n 4)
		a=() && for r in 0 1 2 3; do
			a[r]=$(gpuctl malloc --comm $comm --rank $r 4096)
			printf "\x01%.0s" {1..400} | gpuctl memcpy --comm $comm - $r:${a[r]}
		done
		at="--addr $(IFS=,; echo "${a[*]}") --type u8 --algo mine"
		gpuctl allreduce --comm $comm $at --count 0
		for i in {1..3}; do echo "allreduce $at --count 400"; echo "broadcast ${at% --algo*} --count 7"; done >lines
		for i in {1..300}; do echo "allreduce $at --op max --count 399"; done >>lines
		gpuctl group --comm $comm <lines
		gpuctl memcpy --comm $comm 2:${a[2]}:400 - | od -An -v -tu1 | xargs -n 1 | sort | uniq -c'
	assert_status 0
	assert_output '    400 64'
}

@test "algorun: removed, or replaced, while it runs" {
	numbers 100000 >vectors
	run bounded gpuctl run -n 4 --bandwidth 20Mb -- bash -c '
		gpuctl algo add mine "$ALGOS/ring.algo" >name
		gpuctl allreduce --type i32 --algo mine <vectors | tr " " "\n" | sort | uniq -c &
		until gpuctl status --json | grep -q "\"pending\":1"; do kill -0 $! || break; done
		gpuctl algo add mine "$ALGOS/hierarchical.algo" --replace && gpuctl algo remove mine && wait $!'
	assert_output "mine
 100000 15"
}

@test "algorun: a recording is replayed with the files that it has, or refused" {
	numbers 3 >vectors
	GPUSIM_ALGO_FILES=$ALGOS/ring.xml bounded gpuctl run -n 4 --record tape --record-data -- bash -e -c '
		gpuctl allreduce --algo ring-blocks <vectors
		gpuctl allreduce --algo-file "$ALGOS/ring.algo" <vectors
		gpuctl plan allreduce -n 4 --algo tree --format text >mine
		gpuctl algo add ring-blocks mine --replace
		gpuctl allreduce --algo ring-blocks <vectors' >out
	assert_equal "$(sort -u out | xargs)" '15 15 15 ring-blocks'
	run bounded gpuctl replay tape
	assert_status 0
	assert_match 'replayed: 12 succeeded again, with bit-identical results,'
	built_in xml .
	MSCCL_XML_FILES=allreduce bounded gpuctl run --nccl -n 3 --record queues -- "$BUILD/e2e/nccl/nccl_premulsum" >out
	grep -qa ring queues/device-0.rec
	run bounded gpuctl replay queues
	assert_status 0
	assert_match ' 0 differ;'
	rm tape/coordinator.rec
	run bounded gpuctl replay tape
	assert_status 5
	assert_match 'gpuctl: replay: operations ran algorithm ring-blocks of a file, but the recording does not have the file: the coordinator read it before the recording began'
}

@test "algorun: tuner files and programs in C choose them" {
	numbers 3 >vectors
	echo 'allreduce,0,100,ring-blocks' >rules
	GPUSIM_ALGO_FILES=$ALGOS/ring.xml GPUSIM_TUNER_CONFIG_FILE=rules bounded gpuctl run -n 4 --trace trace -- \
		gpuctl allreduce <vectors >out
	assert_equal "$(cat out)" '15 15 15'
	grep -q '"algo":"file"' trace
	cat >program.c <<-'END'
		#include <stdio.h>
		#include <string.h>
		#include "gpusim.h"
		int main(void)
		{
			static char text[65536];
			struct gpusim_algo_config cfg = {GPUSIM_ALGO_CONFIG_INIT, .name = "mine", .life = GPUSIM_LEASE};
			struct gpusim_algo algo, *list;
			struct gpusim_addr a[4];
			struct gpusim_comm *comm;
			struct gpusim *g;
			int x, good;
			size_t n = fread(text, 1, sizeof text, stdin);

			good = gpusim_open(NULL, &g) == 0 && gpusim_algo_add(g, text, n, &cfg, &algo) == 0 &&
			       gpusim_algo_list(g, &list, &n) == 0 && n == 1 && !strcmp(list[0].name, "mine") &&
			       list[0].leased && list[0].nranks == 4 && gpusim_comm_init_all(g, 4, NULL, NULL, &comm) == 0;
			for (int r = 0; good && r < 4; r++) {
				x = 1 << r;
				gpusim_malloc(g, gpusim_comm_device(comm, r), sizeof x, GPUSIM_LEASE, &a[r]);
				gpusim_memcpy_h2d(g, gpusim_comm_device(comm, r), a[r], &x, sizeof x);
			}
			struct gpusim_collective c = {GPUSIM_COLLECTIVE_INIT, .coll = GPUSIM_ALLREDUCE,
				.dtype = GPUSIM_I32, .nelem = 1, .algo = "mine", .send = a, .recv = a};
			good = good && gpusim_collective(comm, &c, GPUSIM_SYNC) == 0 &&
			       gpusim_memcpy_d2h(g, &x, gpusim_comm_device(comm, 3), a[3], sizeof x) == 0 && x == 15 &&
			       gpusim_algo_remove(g, "mine") == 0 &&
			       gpusim_collective(comm, &c, GPUSIM_SYNC) == GPUSIM_INVAL;
			puts(good ? gpusim_error() : "bad");
			gpusim_close(g);
			return !good;
		}
	END
	sanitizers
	compile "${SANITIZE[@]}" -I"$ROOT/include" -o program program.c "$BUILD/libgpusim.a" \
		-lmbedtls -lmbedx509 -lmbedcrypto -lprotobuf-c -lz -lm -pthread
	run bounded gpuctl run -n 4 -- ./program <"$ALGOS/ring.algo"
	assert_status 0
	assert_match "unknown algorithm 'mine'"
}

@test "algorun: programs for NCCL take those of MSCCL_XML_FILES and NCCL_ALGO, and skip wrong files" {
	mkdir xml
	built_in xml xml
	echo '<algo' >xml/wrong
	files=$(printf '%s:' xml/*)
	PROGRAMS=$BUILD/e2e/nccl
	program=(bounded gpuctl run --nccl -n 3 --trace trace --)
	from_files() { grep -c '"algo":"file"' trace || true; }
	MSCCL_XML_FILES=$files NCCL_DEBUG=WARN run "${program[@]}" "$PROGRAMS/nccl_collectives"
	assert_status 0
	assert_match '396 combinations'
	assert_match 'NCCL WARN MSCCL_XML_FILES : xml/wrong:1: .*; it is not used'
	(($(from_files) > 500))
	MSCCL_XML_FILES=$files NCCL_ALGO=ring run "${program[@]}" "$PROGRAMS/nccl_premulsum"
	assert_status 0
	assert_equal "$(from_files)" 0 # the list has no msccl
	sed 's/name="[^"]*"/name="Own.sum"/' xml/allreduce >own
	GPUSIM_ALGO_FILES=own NCCL_ALGO=allreduce:own.sum run "${program[@]}" "$PROGRAMS/nccl_premulsum"
	assert_status 0
	(($(from_files) > 0))
}

@test "algorun: a deterministic training has the same weights by one of a file; one that does not fit is refused" {
	images data 8 40
	cat >train <<-'END'
		train() { mnist-train --data data --layers 64,8,4 --deterministic --global-batch 10 --epochs 2 --devices 4 "$@" 2>&1; }
		gpuctl algo add mine "$ALGOS/ring.xml" >name
		gpuctl algo add eight "$ALGOS/hierarchical.algo" >name
		train | grep sha256
		train --algo mine | grep sha256
		train --algo eight
		train --algo nobody
		train --algo mine --sync ps
	END
	run bounded gpuctl run -n 4 -- bash train
	[[ ${lines[0]} == 'params sha256 '* && ${lines[1]} == "${lines[0]}" ]]
	assert_match "algorithm eight is for 8 ranks, not 4"
	assert_match "unknown algorithm 'nobody'.*; from files: eight, mine"
	assert_match "'mine' is not built in; algorithms from files need --sync allreduce"
}
