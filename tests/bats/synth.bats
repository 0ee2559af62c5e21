# gpuctl synth: an algorithm that was searched for is a file that plan reads and proves.
# shellcheck disable=SC2154
load helper

@test "synth prints an algorithm, the same each time, and reports the gain" {
	run gpuctl synth allreduce -n 8 --latency 20us --bandwidth 8Gb --tries 1
	assert_status 0
	assert_match '^# allreduce of 1048576 bytes: [a-z0-9.-]+ takes [0-9.]+ us by simulation; halving-doubling, the best built-in algorithm, [0-9.]+ us'$'\n''algorithm '
	first=$output
	run gpuctl synth allreduce -n 8 --latency 20us --bandwidth 8Gb --tries 1
	assert_equal "$output" "$first"
}

@test "on shaped links synth and simulate agree, and the result is no slower than the built-in algorithms" {
	local links=(-n 8 --latency 5ms --bandwidth 1Gb) bytes
	for bytes in 1K 64K 1M; do
		gpuctl synth allreduce "${links[@]}" --bytes $bytes --tries 1 -o found.algo
		gpuctl simulate allreduce "${links[@]}" --bytes $bytes >table
		read -r found name best < <(sed -n '1s/.*takes \([0-9.]*\) us by simulation; \([a-z-]*\), the best built-in algorithm, \([0-9.]*\) us$/\1 \2 \3/p' found.algo)
		awk -v n="$name" -v t="$best" '$1 == n && $2 == t { found = 1 } END { exit !found }' table || fail "$name $best: $(<table)"
		awk -v f="$found" -v t="$best" -v b=$bytes 'BEGIN { exit !(f <= (b == "1K" ? 0.6 : 1) * t) }' || fail "$(head -n 1 found.algo)"
	done
}

@test "on two hosts of four synth is faster than every built-in algorithm, as text and as XML" {
	printf 'gpu = a100\nhosts = 2\ngpus per host = 4\nnics = 1 x 100Gb/s ib\n' >two.ini
	run gpuctl synth allreduce -n 8 --cluster ./two.ini --bytes 4M --tries 1 -o two.algo
	assert_status 0
	times=$(awk 'NR == 2 { best = $2 } $3 == "built-in" { print best < $2; exit }' <<<"$output")
	assert_equal "$times" 1
	assert_match 'drafts; verified: [0-9]+ steps, 1 slot per connection$'
	run gpuctl synth all-reduce -n 8 --cluster ./two.ini --bytes 4M --tries 1 -o two.xml --json
	assert_status 0
	assert_match '^\{"tried":[0-9]+,"min_slots":1,"steps":[0-9]+,"candidates":\[\{"name":"'
	assert_equal "$(grep -c '<gpu ' two.xml)" 8
	assert_equal "$(grep -c '^round\|^# round' two.algo | awk '{ print ($1 > 1) }')" 1
}

@test "synth ends in time, and refuses in one line" {
	run gpuctl synth allgather -n 24 --tries 1000 --time-limit 200ms -o a.algo
	assert_status 0
	run gpuctl synth
	assert_status 2
	assert_output 'gpuctl: synth: a collective is missing'
	run gpuctl synth allreduce
	assert_status 2
	assert_output 'gpuctl: synth: the number of ranks is missing: use -n N'
	run gpuctl synth barrier -n 4
	assert_status 2
	assert_output 'gpuctl: synth: barrier: must be allreduce, allgather, reducescatter, alltoall, broadcast or reduce'
	printf 'gpu = a100\nhosts = 2\ngpus per host = 4\nnics = 1 x 100Gb/s ib\n' >two.ini
	run gpuctl synth allreduce -n 9 --cluster ./two.ini
	assert_status 2
	assert_output 'gpuctl: synth: ./two.ini has 8 GPUs, not 9'
	run gpuctl synth allreduce -n 8 --cluster ./two.ini --latency 5us
	assert_status 2
	assert_output 'gpuctl: synth: --latency and --bandwidth: only for equal links, not with --cluster'
}

@test "on clusters no built-in algorithm is faster than what synth finds for few bytes; it would report one" {
	for c in h100-ib400 gh200-slingshot; do
		for coll in alltoall allgather; do
			for n in 4 6 8; do
				gpuctl synth $coll -n $n -c $c --bytes 4K --tries 1 -o best.algo --json >rows
				grep -q '"builtin_wins":false}$' rows || fail "$coll $n $c: $(head -n 1 best.algo)"
				rm best.algo
			done
		done
	done
}
