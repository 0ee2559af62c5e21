# Random collectives through the C API on real daemons, each against an exact reference.
# shellcheck disable=SC2030,SC2031
load helper

# sweep [--no-mapped] CASES SEED [OPTION of run...]
sweep() {
	local some=()
	[[ $1 != --no-mapped ]] || { some=("$1") && shift; }
	LIMIT=50 bounded gpuctl run -n 8 --mem 32M "${@:3}" -- "$BUILD/e2e/sweep" "${some[@]}" "$1" "$2"
}

@test "three hundred random collectives over 1 to 8 devices are exact" {
	run sweep 300 1
	assert_status 0
	assert_output "300 cases from seed 1 are right"
}

@test "the same by sockets, but for the algorithms that need peer memory" {
	export GPUSIM_P2P_DISABLE=1
	run sweep --no-mapped 200 1
	assert_status 0
	assert_output "200 cases from seed 1 are right"
	run sweep 60 1
	assert_status 1
	assert_match "needs peer memory between all ranks"
}

@test "also when every message goes through a shaped link" {
	run sweep --no-mapped 60 1000 --latency 1ms --bandwidth 1Gb
	assert_status 0
	assert_output "60 cases from seed 1000 are right"
}
