# Algorithms from files run: by name and by file, by memory and sockets, over restarts and recoveries.
# shellcheck disable=SC2016
load helper

setup() {
	house_setup
	export ALGOS=$ROOT/examples/algos
}

@test "algo: examples give the sums that built-in algorithms give, by memory and by sockets" {
	printf '%s\n' '1 2 3 4 5 6 7' '10 20 30 40 50 60 70' '3 3 3 3 3 3 3' '0 1 0 1 0 1 0' >in
	for sockets in '' ipc; do
		bounded gpuctl run -n 4 ${sockets:+--transport $sockets} -- bash -c '
			for f in ring.algo ring.xml ring.blocks.algo; do
				for op in sum avg max; do
					for type in f32 f16 i32; do
						[ $op-$type != avg-i32 ] || continue
						want=$(gpuctl allreduce --all --type $type --op $op <in)
						got=$(gpuctl allreduce --all --type $type --op $op --algo-file "$ALGOS/$f" <in)
						[ "$got" = "$want" ] || echo "$f $op $type: $got"
					done
				done
			done' >out
		assert_equal '' "$(cat out)"
	done
}

@test "algo: add, list, remove; names of built-in algorithms and other algorithms of a name are refused" {
	yes '# words' | head -c 4200000 >big.algo
	run bounded gpuctl run -n 4 -- bash -c '
		gpuctl algo add big.algo
		gpuctl algo add mine "$ALGOS/ring.algo" && gpuctl algo add mine "$ALGOS/ring.algo"
		gpuctl algo add mine "$ALGOS/allpairs.algo"; echo $?
		gpuctl algo add ring "$ALGOS/ring.algo"; echo $?
		printf "1\n2\n3\n4\n" | gpuctl allreduce --algo mine
		printf "1\n2\n" | gpuctl allreduce --algo mine; echo $?
		gpuctl algo remove mine; gpuctl algo remove mine; echo $?'
	assert_match "a different algorithm mine exists"
	assert_match "algorithm 'ring' is built in"
	assert_match "algorithm mine is for 4 ranks, not 2"
	assert_match "no algorithm 'mine' from a file"
	assert_match "big.algo: not an algorithm's file: more than 4096 KiB"
	[ "${lines[1]}" = mine ] && [ "${lines[2]}" = mine ] && grep -qx 10 <<<"$output"
}

@test "algo: GPUSIM_ALGO names one of --algo-files; a name that nobody has ends the coordinator" {
	name=$(sed -n 's/^algorithm //p' "$ALGOS/hierarchical.algo")
	export GPUSIM_ALGO_FILES=$ALGOS/hierarchical.algo
	n=$(gpuctl plan allreduce --algo-file "$ALGOS/hierarchical.algo" --format xml | grep -o 'ngpus="[0-9]*"' | tr -dc 0-9)
	GPUSIM_ALGO=$name bounded gpuctl run -n "$n" -- bash -c 'seq '"$n"' | gpuctl allreduce' >out
	assert_equal $((n * (n + 1) / 2)) "$(cat out)"
	GPUSIM_ALGO=nobody run bounded gpuctl run -n 2 -- true
	assert_match "unknown algorithm 'nobody': neither built in nor from a file"
	mkfifo fifo # without a writer
	GPUSIM_ALGO_FILES=$PWD/fifo run bounded gpuctl run -n 2 -- true
	assert_match "fifo: not a regular file"
}
