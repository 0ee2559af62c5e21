# NVML over simulated devices: libnvidia-ml.so.1 of build/nccl.
# shellcheck disable=SC2016
load nccl

@test "nvml: devices as the CUDA runtime has them, memory, utilization, processes, what is refused" {
	run nccl 2 nvml_calls
	assert_status 0
	assert_output 'all is well'
	CUDA_VISIBLE_DEVICES=1 run nccl 2 nvml_calls
	assert_status 0
	assert_output 'all is well'
}

@test "nvml: ids and memory are those of gpuctl devices" {
	run bounded gpuctl run --nccl -n 3 -- bash -c "
		'$PROGRAMS/nvml_calls' list
		gpuctl devices --json | grep -oE '\"(index|id|min_addr|max_addr|used_bytes)\":\"?[0-9a-f]+' | sed 's/.*:\"*//' | paste - - - - - |
			while read -r index id min max used; do echo \"\$index \$id \$((max - min)) \$used\"; done"
	assert_status 0
	assert_equal "$(head -n 3 <<<"$output")" "$(tail -n 3 <<<"$output")"
	assert_equal "$(wc -l <<<"$output")" 6
}

@test "nvml: without a coordinator it says so; the header declares what the library has" {
	run "$PROGRAMS/nvml_calls" list
	assert_status 1
	assert_match 'Driver Not Loaded$'
	echo '#include <nvml.h>' | compile -E -P -I"$NCCL_HOME_HERE/include" - | grep -oE '\bnvml\w+ ?\(' | tr -d ' (' | sort -u >declared
	nm -D --defined-only "$NCCL_HOME_HERE/lib/libnvidia-ml.so.1" | awk '{ print $3 }' | sort -u >defined
	diff declared defined
}
