# gpuctl pipeline: schedules of pipeline parallelism are proved, drawn, written and searched for.
# shellcheck disable=SC2154
load helper

@test "check accepts the forms that PyTorch writes, from a file and from standard input" {
	# As its csv module prints a compute-only order: idle cells, \r\n.
	printf '0F0,0F1,,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1,,\r\n' >plain.csv
	run gpuctl pipeline check plain.csv
	assert_status 0
	assert_output 'right for every timing: 2 ranks, 2 stages, 2 microbatches
end 9, busy 6, bubble 3 (50.0 %)
 rank    peak  messages      idle
    0       2         2         3
    1       1         2         0'
	# With sends, with FSDP's actions, and with passes that run together.
	gpuctl pipeline make plain.csv --sends >sends.csv
	run gpuctl pipeline check - <sends.csv
	assert_status 0
	sed 's/^\(.\)\(.*\)$/\1UNSHARD,\1\2,\1REDUCE_GRAD,\1RESHARD/' sends.csv >sharded.csv
	run gpuctl pipeline check sharded.csv
	assert_status 0
	printf '0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n' >joined.csv
	run gpuctl pipeline show joined.csv
	assert_status 0
	assert_match '^    0  \|F0\|F1\|\.\.\.\.\.\|F2&B0   \|'
}

@test "check names the first error by row and column, with exit status 5" {
	printf '0F0,0B0\n1F0,,1B1\n' >bad.csv
	run gpuctl pipeline check bad.csv
	assert_status 5
	assert_output 'gpuctl: pipeline: bad.csv: row 1 lacks 0F1'
	printf '0F0,0B0\n1B0,,1F0\n' >bad.csv
	run gpuctl pipeline check bad.csv
	assert_status 5
	assert_output 'gpuctl: pipeline: bad.csv: row 2, column 1: 1B0 needs 1F0 in an earlier cell of its row'
	# Both ranks send to each other first.
	printf '0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n' >stuck.csv
	run gpuctl pipeline show stuck.csv
	assert_status 5
	assert_match 'row 1, column 4: 0SEND_F1 waits for ever: it waits for row 2; there column 4, 1SEND_B0, waits for row 1$'
	printf '0F0,\0' >nul.csv
	run gpuctl pipeline check nul.csv
	assert_status 5
	head -c 17M /dev/zero | tr '\0' , >large.csv
	run gpuctl pipeline check large.csv
	assert_status 5
	assert_match 'large.csv: not a schedule: more than 16384 KiB$'
}

@test "every schedule that make writes is right, and is the same with its sends" {
	for name in gpipe 1f1b interleaved interleaved=3 zb-h1 zb-h2 zb-v; do
		gpuctl pipeline make "$name" -p 4 -m 8 -o plain.csv
		gpuctl pipeline make "$name" -p 4 -m 8 --sends >sends.csv
		gpuctl pipeline check plain.csv --json >a
		gpuctl pipeline check sends.csv --json >b
		diff a b
		diff sends.csv <(gpuctl pipeline make ./plain.csv --sends)
	done
}

@test "show prints the bubbles of the papers, and draws" {
	while read -r name bubble; do
		run gpuctl pipeline show "$name" -p 4 -m 8 --b 1.5 --w 0.5
		assert_status 0
		assert_match "bubble $bubble \\("
	done <<-'END'
		gpipe 9
		1f1b 9
		interleaved=2 9
		zb-h1 6
		zb-h2 4.5
	END
	for f in 0 1e-310 1e6; do # no length of a pass is too much
		run gpuctl pipeline show 1f1b -p 2 -m 2 --f $f --b 0 --w 0
		assert_status 0
		grep -qF "end $(awk -v f=$f 'BEGIN { printf "%g", 3 * f }'), " <<<"$output"
		gpuctl pipeline show 1f1b -p 2 -m 2 --f $f --b 0 --w 0 --svg | tail -n 1 | grep -qx '</svg>'
	done
	gpuctl pipeline show zb-v -p 4 -m 8 --svg >picture.svg
	assert_equal "$(grep -c '<title>rank' picture.svg)" $((4 * 2 * 8 * 3))
	gpuctl pipeline show 1f1b -p 4 -m 64 | head -n 4 >lines
	assert_equal "$(awk 'length > 120' lines)" ''
}

@test "show fits the terminal, in colours" {
	needs script
	TERM=xterm script -qec 'stty cols 60; gpuctl pipeline show zb-h1 -p 4 -m 8' /dev/null >shown </dev/null
	grep -q $'\e\[30;104mF' shown
	sed 's/\x1b\[[0-9;]*m//g' shown | tr -d '\r' | head -n 4 >lines
	assert_equal "$(awk 'length > 60' lines)" ''
	assert_equal "$(wc -l <lines)" 4
}

@test "search finds a smaller bubble with more memory, and says that none is smaller" {
	for memory in 4 5 6 7; do
		gpuctl pipeline search -p 4 -m 8 --memory $memory -o found.csv 2>said
		grep -q 'no schedule has a smaller bubble$' said
		gpuctl pipeline check found.csv --json >facts
		grep -q "\"bubble\":$((7 - memory))," facts
		grep -q "\"peak\":$memory," facts
	done
}

@test "pipeline refuses in one line" {
	while IFS='|' read -r line error; do
		# shellcheck disable=SC2086
		run gpuctl pipeline $line
		assert_status 2
		assert_equal "$output" "gpuctl: pipeline: $error"
	done <<-'END'
		draw x|must be check, show, make or search, not 'draw'
		check|check: a FILE is missing
		make|make: the name of a schedule is missing
		make 1f1b -p 4|1f1b: needs the numbers of ranks and microbatches
		make 2f2b -p 4 -m 8|'2f2b': no schedule and no file; the schedules are gpipe, 1f1b, interleaved=V, zb-h1, zb-h2, zb-v
		make interleaved -p 4 -m 6|interleaved: 6 microbatches: interleaved needs a multiple of its 4 ranks
		search -p 4|search: needs -p RANKS and -m MICROBATCHES
		search x -p 4 -m 8|search: unexpected operand 'x'
		search -p 128 -m 8|128 ranks and 8 microbatches: there are 1 to 64 ranks, and the product is 1 to 16384
	END
	run gpuctl pipeline check ./no-such.csv
	assert_status 1
	gpuctl pipeline make gpipe -p 2 -m 2 >two.csv
	run gpuctl pipeline check two.csv -p 4
	assert_status 2
	assert_output 'gpuctl: pipeline: two.csv: it has 2 ranks and 2 microbatches'
}
