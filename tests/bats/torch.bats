# gpusim.torch, the backend gpusim of torch.distributed. tools/try-torch runs PyTorch's own tests.
load python

setup() {
	python_setup
	needs_modules torch
	sanitizers
	[ ${#SANITIZE[@]} -eq 0 ] || skip 'a sanitizer is loaded with the program, not late'
}

@test "every operation gives what it should, at 2 and 3 ranks; groups leave nothing" {
	for n in 2 3; do
		run bounded gpuctl run --report-dir none -n $n -- python3 -W ignore "$ROOT/tests/python/torch_ops.py" $n
		assert_status 0
		assert_output 'all as it should be'
	done
	assert_nothing_left
}

@test "the same bits with GPUSIM_DETERMINISTIC=1" {
	GPUSIM_DETERMINISTIC=1 run bounded gpuctl run --report-dir none -n 4 -- python3 -W ignore "$ROOT/tests/python/torch_ops.py" 4
	assert_status 0
	assert_output 'all as it should be'
}

@test "every failure is told to each rank, with the rank that caused it" {
	run bounded gpuctl run --report-dir none -n 3 -- python3 -W ignore "$ROOT/tests/python/torch_failures.py"
	assert_status 0
	assert_equal "$(grep -c ': as it should be$' <<<"$output")" 16
	assert_nothing_left
}
