# The examples run as they are in the tree.
load helper

setup() {
	house_setup
	EXAMPLES=$ROOT/examples
}

# number NAME COLUMN - of the table that naive-vs-ring.sh printed
number() { awk -v name="$1" -v column="$2" '$1 == name { print $column }' <<<"$output"; }

@test "lab_part_a: the lab's pseudo-code against the C API" {
	for n in 1 3 4; do
		run bounded gpuctl run -n "$n" -- "$BUILD/examples/lab_part_a" "$n"
		assert_status 0
		assert_output "$n devices, 1000 doubles each: 0 wrong"
	done
	run bounded gpuctl run -n 5 -- "$BUILD/examples/lab_part_a" 5 3
	assert_output '5 devices, 3 doubles each: 0 wrong'
	assert_nothing_left
}

@test "ranks: a process a rank, which meet by an id and each call allreduce" {
	for n in 1 4; do
		run bounded gpuctl run -n "$n" -- "$BUILD/examples/ranks" "$n"
		assert_status 0
		assert_output "$n ranks have the sum"
	done
	assert_nothing_left
}

@test "lab_part_a: reports an error in one line, with the exit code of its kind" {
	run bounded gpuctl run -n 2 -- "$BUILD/examples/lab_part_a" 3
	assert_status 1
	assert_match '^lab_part_a: .*3 .*2'
	run bounded "$BUILD/examples/lab_part_a" 3
	assert_status 3
	assert_match '^lab_part_a: no coordinator at ipc://.*GPUSIM_COORD'
	GPUSIM_COORD=ipc://$T/nobody.sock run bounded "$BUILD/examples/lab_part_a" 3
	assert_status 3
	run "$BUILD/examples/lab_part_a" none
	assert_status 2
}

@test "lab-part-a.sh: the same with gpuctl, under a machine and by itself" {
	run bounded gpuctl run -n 3 -- "$EXAMPLES/lab-part-a.sh"
	assert_status 0
	with=$output
	assert_match 'rank 0 has 1 2 3.*allreduce: success.*rank 2 has 12 15 18$'
	run bounded "$EXAMPLES/lab-part-a.sh"
	assert_status 0
	assert_output "$with"
	assert_nothing_left
}

@test "naive-vs-ring.sh: both shaped, neither faster than its links, the ratio printed" {
	LIMIT=40 run bounded "$EXAMPLES/naive-vs-ring.sh" -n 4 -s 1 -l 2 -b 400
	assert_status 0
	assert_match '^4 devices, 1 MiB, 400 Mbit/s, 2 ms'
	at_least "$(number naive 2)" "$(awk -v t="$(number naive 4)" 'BEGIN { print t * 0.95 }')"
	at_least "$(number ring 2)" "$(awk -v t="$(number ring 4)" 'BEGIN { print t * 0.95 }')"
	assert_match $'\nnaive / ring +[0-9.]+ +2\.99$'
	assert_nothing_left
}

@test "naive-vs-ring.sh: wrong usage is refused" {
	for args in '-n 1' '-n many' '-q' '-s' 'x'; do
		# shellcheck disable=SC2086 # several arguments
		run "$EXAMPLES/naive-vs-ring.sh" $args
		assert_status 2
		assert_match 'usage: naive-vs-ring.sh'
	done
}

@test "failure-rehearsal.sh: as much is learnt as undisturbed, whatever is killed" {
	LIMIT=50 run bounded "$EXAMPLES/failure-rehearsal.sh" -d "$ROOT/tests/data" -e 60 -n 2 shrink
	assert_status 0
	assert_equal "$(awk 'NR > 1 { print $1 }' <<<"$output" | xargs)" 'undisturbed shrink'
	awk 'NR > 2 { d = $5; n++; if ($2 != 1 || d > 2 || d < -2) exit 1 } END { exit n != 1 }' <<<"$output" ||
		fail "$output"
	assert_nothing_left
	run "$EXAMPLES/failure-rehearsal.sh" hope
	assert_status 2
	assert_match 'usage: failure-rehearsal.sh'
}

@test "C: memory at host addresses, marks on streams, the general collective of one rank" {
	run bounded gpuctl run -n 2 -- "$BUILD/e2e/mapped"
	assert_status 0
	assert_output ''
}
