# Costs of messages: measured, and used.
load helper

@test "tune --calibrate distinguishes a link's latency from its bandwidth" {
	run bounded gpuctl run -n 2 --latency 5ms --bandwidth 1Gb -- gpuctl tune --calibrate --iters 3
	assert_status 0
	assert_match '^cost,net,alpha_us=[0-9.]+,host_us=[0-9.e-]+,beta_ns=[0-9.]+$'
	echo "$output" >costs.csv
	# 5 ms, and 8 ns a byte; a busy machine adds to both
	awk -F '[=,]' '{ exit !($4 > 4500 && $4 < 25000 && $8 > 4 && $8 < 40) }' costs.csv || fail "$output"
	GPUSIM_TUNER_CONFIG_FILE=$T/costs.csv run bounded gpuctl simulate broadcast -n 4 --json
	assert_match "\"alpha_us\":$(sed 's/.*alpha_us=\([0-9]*\).*/\1/' costs.csv)"
	# A link's latency is in them already.
	GPUSIM_TUNER_CONFIG_FILE=$T/costs.csv run bounded gpuctl simulate broadcast -n 4 --json --latency 500ms
	assert_match "\"alpha_us\":$(sed 's/.*alpha_us=\([0-9]*\).*/\1/' costs.csv)"
	run bounded gpuctl run -n 1 -- gpuctl tune --calibrate
	assert_status 2
	assert_output "gpuctl: tune: --calibrate: needs at least two devices"
	run bounded gpuctl tune --calibrate broadcast
	assert_status 2
}
