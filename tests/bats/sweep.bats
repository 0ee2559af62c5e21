# Random collectives through the C API on real daemons, each against an exact reference.
# shellcheck disable=SC2030,SC2031
load helper

sweep() { LIMIT=50 bounded gpuctl run -n 8 --mem 32M -- "$BUILD/e2e/sweep" "$@"; }

@test "two hundred random collectives over 1 to 8 devices are exact" {
	run sweep 200 1
	assert_status 0
	assert_output "200 cases from seed 1 are right"
}

@test "also when every message goes through a shaped link" {
	LIMIT=50 run bounded gpuctl run -n 8 --mem 32M --latency 1ms --bandwidth 1Gb -- \
		"$BUILD/e2e/sweep" 60 1000
	assert_status 0
	assert_output "60 cases from seed 1000 are right"
}
