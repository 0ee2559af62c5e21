# Reports of failures: which failures get one, that it holds the records of all ranks, the dead one's too, and that a
# folder that cannot be used harms nobody.

load helper

# Sums four vectors over links of 20 Mb/s, and does $1 to device 2 in the middle.
four() {
	local x
	for x in 1 2 4 8; do
		printf "$x %.0s" {1..100000}
		echo
	done >vectors
	cat >hit <<END
gpuctl allreduce --type i32 <vectors | wc -w &
until gpuctl status --json | grep -q '"pending":1'; do :; done
kill -$1 \$(gpuctl devices | awk '\$1 == 2 { print \$7 }')
wait
END
	run bounded gpuctl run -n 4 --bandwidth 20Mb "${@:2}" -- sh hit
}

# has FILE - the report has the unfinished all-reduce of each of the four ranks.
has() {
	gpuctl trace --report "$1" -o timeline.json 2>/dev/null
	[ "$(grep -c '"ph":"X".*"name":"allreduce"' timeline.json)" -eq 4 ] || fail "$(cat timeline.json)"
	grep -q '"name":"gpu 2 (rank 2)"' timeline.json || fail "$(cat timeline.json)"
}

@test "a rank that is killed in a collective: the error line names a report with the records of all ranks" {
	four KILL
	# Who notices it first says how: its parent, or who was connected.
	LOST='lost: (killed by signal 9|its connection broke and nothing listens at [^;]*)'
	assert_match "rank 2 .* $LOST; [^;]*; report: $T/state/gpusim/report.1"
	has state/gpusim/report.1
	assert_equal "$(stat -c %a state/gpusim/report.1)" 600
	grep -q '"name":"comm-failed"' timeline.json
	grep -q 'draining --drained--> deciding' timeline.json
	run bounded env -u XDG_STATE_HOME HOME="$T" gpuctl run -n 2 -- sh -c '
		C=$(gpuctl comm-init -n 2); kill -9 $(gpuctl devices | awk "\$1 == 1 { print \$7 }")
		until gpuctl comm-status $C | grep failed; do :; done'
	assert_match " $LOST; report: ~/.local/state/gpusim/report.1\$"
	[ -s .local/state/gpusim/report.1 ]
}

@test "a rank that ends in order and removes its memory file is in the report as well" {
	four TERM --report-dir here
	assert_match "; report: $T/here/report.1"
	has here/report.1
}

@test "numbers count on, and the seventeenth report removes the first" {
	local i
	mkdir here
	for i in {1..16}; do echo "$i" >"here/report.$i"; done
	touch here/report here/report.x here/report.017 here/reports
	four KILL --report-dir here
	assert_match "; report: $T/here/report.17"
	assert_equal "$(cd here && echo report.? report.??)" "$(echo report.{2..9} report.x report.{10..17})"
	[ -e here/report ] && [ -e here/report.017 ] && [ -e here/reports ]
}

@test "a folder that cannot be used is reported once, and does no harm" {
	touch file
	four KILL --report-dir file/in
	assert_match 'gpuctl: allreduce: comm 1: .* lost: killed by signal 9; last progress [0-9.]*s ago'
	assert_match 'gpucoord: cannot write a failure report: .*/file/in: Not a directory'
	assert_equal "$(grep -c 'cannot write a failure report' <<<"$output")" 1
	four KILL --report-dir none
	[[ $output != *report* ]] || fail "$output"
}

@test "no report of what a client asked for, nor of a failure that was recovered from" {
	run bounded gpuctl run -n 2 --report-dir here -- sh -c '
		C=$(gpuctl comm-init -n 2); gpuctl comm-abort $C enough; gpuctl comm-status $C'
	assert_match 'failed: comm 1: enough'
	[[ $output != *report* ]] || fail "$output"
	four KILL --report-dir here --on-failure shrink
	assert_match $'\n''100000$'
	[ ! -e here ]
}

@test "a damaged report is refused, with the reason" {
	four KILL --report-dir here
	cp here/report.1 bad
	printf x | dd of=bad bs=1 seek=5000 conv=notrunc 2>/dev/null
	run gpuctl trace --report bad -o /dev/null
	assert_equal "$status" 5
	assert_match 'bad: .*checksum'
	head -c 3000 here/report.1 >bad
	run gpuctl trace --report bad -o /dev/null
	assert_equal "$status" 5
	assert_match 'bad: .*damaged'
	run gpuctl trace --report vectors -o /dev/null
	assert_equal "$status" 5
	assert_match 'not a report'
}
