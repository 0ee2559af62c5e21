# The choice of an algorithm: the model, GPUSIM_ALGO, tuner files; and measurements.
# shellcheck disable=SC2016
load helper

# taken [ARGS...] - the algorithm that plan says is taken for 1 MiB over 8 ranks
taken() { gpuctl plan allreduce -n 8 --bytes 1M --type f32 "$@" | sed -n '1s/^auto: \([a-z-]*\) .*/\1/p'; }

@test "plan prints the algorithm of auto, and what chose it" {
	run gpuctl plan allreduce -n 8 --bytes 1M --type f32
	assert_status 0
	assert_match '^auto: halving-doubling in messages of at most 262144 bytes, by the model'$'\n''allreduce halving-doubling: '
	run gpuctl plan allreduce -n 8
	assert_match '^auto: recursive-doubling '
	assert_equal "$(GPUSIM_ALGO=ring taken)" ring
	assert_equal "$(GPUSIM_ALGO='tree;allreduce:^halving-doubling' taken)" pairwise
	echo 'allreduce,0,2M,tree,net,-1,-1,8' >rules.csv
	assert_equal "$(GPUSIM_TUNER_CONFIG_FILE=rules.csv taken --algo auto)" tree
	assert_equal "$(GPUSIM_TUNER_CONFIG_FILE=rules.csv GPUSIM_ALGO=^tree taken)" halving-doubling
	assert_equal "$(GPUSIM_TUNER_CONFIG_FILE=rules.csv taken --algo ring)" ''
}

@test "plan --simulate compares the algorithms in virtual time" {
	run gpuctl plan allreduce -n 8 --bytes 1M --type f32 --simulate
	assert_status 0
	assert_match '^allreduce, ranks 8, bytes 1048576; per message 8 us, and 16 us on each host; per byte 1 ns; per byte reduced 0.04 ns'$'\n'
	# 2(p-1) (alpha + 2 host) + 2n(p-1)/p beta + n(p-1)/p gamma
	assert_equal "$(awk '$1 == "ring" { print $2, $3, $4, $5 }' <<<"$output")" '2431.7 2431.7 14 14'
	assert_equal "$(awk '$NF == "auto" { print $1 }' <<<"$output")" halving-doubling
	run gpuctl plan broadcast -n 2048 --bytes 4K --algo tree --simulate
	assert_status 0
	assert_equal "$(awk 'NR > 2 { print $1, $5 }' <<<"$output")" 'tree 11'
}

# us ALGO [ARGS...] - what plan --simulate says for 1 MiB on 8 ranks with links of 5 ms and 1 Gb/s
us() { gpuctl plan "$1" -n 8 --bytes 1M --type f32 --simulate --latency 5ms --bandwidth 1Gb --algo "$2" | awk 'END { printf "%d\n", $2 / 1e3 }'; }

@test "plan --simulate takes the latency and bandwidth of links, and overlaps latencies" {
	# 7 parts of 128 KiB, 1.05 ms each, come in behind each other; one latency
	assert_equal "$(us gather linear)" 13
	assert_equal "$(us broadcast naive)" 71
	# of a ring each round waits for the one before
	assert_equal "$(us allreduce ring)" 87
	run gpuctl plan allreduce -n 8 --simulate --bandwidth 0
	assert_status 2
}

@test "plan --simulate answers for rings of thousands of ranks" {
	for n in 1024 16384; do
		run bounded gpuctl plan allreduce -n $n --bytes 1G --type f32 --algo ring --simulate
		assert_status 0
		assert_equal "$(awk '$1 == "ring" { print $5 }' <<<"$output")" $((n == 1024 ? 22506 : 32766))
	done
	run bounded gpuctl plan allreduce -n 4096 --bytes 1M --algo ring --simulate
	assert_status 0
}

@test "gpucoord refuses a wrong GPUSIM_ALGO and a wrong tuner file, in one line" {
	GPUSIM_ALGO=allreduce:rign run bounded gpucoord --listen "ipc://$T/c.sock"
	assert_status 2
	assert_output "gpucoord: GPUSIM_ALGO: unknown algorithm 'rign': neither built in nor from a file"
	GPUSIM_ALGO='ring;barrier:^dissemination' run bounded gpucoord --listen "ipc://$T/c.sock"
	assert_status 2
	assert_output "gpucoord: GPUSIM_ALGO: barrier is left without any algorithm"
	printf '# mine\nallreduce,0,-1\n' >rules.csv
	run bounded gpucoord --listen "ipc://$T/c.sock" --tuner rules.csv
	assert_status 5
	assert_output "gpucoord: rules.csv:2: algorithm is missing"
	GPUSIM_TUNER_CONFIG_FILE=none run bounded gpucoord --listen "ipc://$T/c.sock"
	assert_status 1
	assert_output "gpucoord: none: No such file or directory"
	GPUSIM_ALGO=rign run gpuctl plan allreduce -n 2
	assert_status 2
	assert_output "gpuctl: plan: GPUSIM_ALGO: unknown algorithm 'rign'"
}

# The order of a float sum shows the algorithm: to 10**16 a 1 is lost, a 2 is not.
@test "the environment applies to operations that leave the algorithm open" {
	v() { printf '%s\n' 1e16 1 1 1; }
	run bash -c "$(declare -f v)"'; v | gpuctl run -n 4 -- gpuctl allreduce
	for a in naive recursive-doubling; do
		v | GPUSIM_ALGO=$a gpuctl run -n 4 -- gpuctl allreduce
		echo "allreduce,-1,-1,$a" >rules.csv
		v | GPUSIM_TUNER_CONFIG_FILE=rules.csv gpuctl run -n 4 -- gpuctl allreduce
		v | GPUSIM_ALGO=ring gpuctl run -n 4 -- gpuctl allreduce --algo $a
	done'
	assert_status 0
	two=1.0000000000000002e16
	assert_equal "$(xargs <<<"$output")" "1e16 1e16 1e16 1e16 $two $two $two"
}

@test "tune writes a file that gpucoord reads" {
	LIMIT=50 run bounded gpuctl run -n 3 -- gpuctl tune -n 3 -b 64 -e 4K --iters 2 --warmup 1
	assert_status 0
	assert_match '^# collType,minBytes,maxBytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff'$'\n''allreduce,0,'
	echo "$output" >rules.csv
	for c in allreduce broadcast reduce allgather reduce-scatter alltoall gather scatter; do
		# from 0 up to any size, without a gap
		awk -F, -v c=$c '$1 == c { if ($2 != next_one + 0 || $8 != 3) exit 1; next_one = $3 + 1; last = $3 }
			END { exit last != -1 }' rules.csv || fail "$c: $(grep "^$c" rules.csv)"
	done
	GPUSIM_TUNER_CONFIG_FILE=$T/rules.csv run bounded gpuctl run -n 3 -- bash -c 'seq 3 | gpuctl allreduce'
	assert_status 0
	assert_output 6
	assert_equal "$(GPUSIM_TUNER_CONFIG_FILE=rules.csv gpuctl plan scatter -n 3 | head -1 | grep -o 'by the tuner file')" 'by the tuner file'
}

@test "gpucoord --calibrate measures, and serves" {
	background gpucoord --listen "ipc://$T/c.sock" --calibrate -v 2>said
	wait_until 10 grep -q 'ready at' said
	grep -qE '^gpucoord: copies [0-9.]+ GB/s, adds [0-9.]+ GB/s$' said
	run bounded gpuctl --coordinator "ipc://$T/c.sock" devices
	assert_status 0
}
