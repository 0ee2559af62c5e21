# tests/tap, which runs every file of `make check`.
load helper

setup() {
	house_setup
	test='@test' # which bats would take for one of this file's
	echo "$test 'one' { echo 'nobody hears this'; }" >good.bats
	cat >bad.bats <<-END
		$test "fine" { echo "nor this"; }
		$test "two and two" { echo "they make four"; [ four = five ]; }
		$test "three" { :; }
	END
	cat >program <<-'END'
		#!/bin/sh
		echo "ok 1 - first"
		echo "not ok 2 - second"
		echo "#   at t_x.c:7"
		echo "ok 3 - third"
		echo "1..3"
		echo "a sanitizer's report" >&2
		exit 1
	END
	printf '%s\n' '#!/bin/sh' 'exec sleep infinity' >hangs
	chmod +x program hangs
}

# As in `make check`, but for what this bats has put into the environment, its own folder in PATH too.
prove_files() {
	local ours=("${!BATS_@}")
	run --separate-stderr env "${ours[@]/#/-u}" -C "$ROOT" PATH="${PATH//$BATS_LIBEXEC:/}" prove -j2 -e tests/tap "$@"
}

@test "a failure shows its tests with their diagnostics, together; success shows nothing" {
	prove_files "$T/good.bats"
	assert_status 0
	assert_equal "$stderr" ''
	prove_files "$T/good.bats" "$T/bad.bats" "$T/program"
	assert_status 1
	[[ $stderr == *'not ok 2 two and two'*'[ four = five ]'*'they make four'* ]] || fail "$stderr"
	[[ $stderr == *$'not ok 2 - second\n#   at t_x.c:7\na sanitizer'* ]] || fail "$stderr"
	[[ $stderr != *'nor this'* && $stderr != *'nobody hears'* && $stderr != *third* ]] || fail "$stderr"
}

@test "a file that hangs is ended, and has failed" {
	TEST_SECONDS=1 prove_files "$T/hangs"
	assert_status 1
	assert_match 'status: 124'
	[[ $stderr == *"hangs, exit status 124"* ]] || fail "$stderr"
}

# The worlds of tests/sim.
@test "the digest of simulated worlds is repeatable, however many processes play them" {
	run "$BUILD/sim/sim" -d -n 20 -s 100
	assert_status 0
	[[ $output =~ ^[0-9a-f]{16}' 20 worlds from seed 100'$ ]] || fail "$output"
	local first=$output
	run "$BUILD/sim/sim" -d -n 20 -s 100 -j 3
	assert_equal "$output" "$first"
}

@test "other worlds have another digest" {
	run "$BUILD/sim/sim" -d -n 1 -s 1
	local one=${output%% *}
	run "$BUILD/sim/sim" -d -n 1 -s 2
	[ "${output%% *}" != "$one" ] || fail "$output"
	run "$BUILD/sim/sim" -d -n 2 -s 1
	[ "${output%% *}" != "$one" ] || fail "$output"
}
