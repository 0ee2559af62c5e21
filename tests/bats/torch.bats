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
	assert_equal "$(grep -c ': as it should be$' <<<"$output")" 17
	assert_nothing_left
}

@test "a rank that ends without destroy_process_group: what it has sent arrives, and who waits for more is told" {
	cat >program.py <<'END'
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
x = torch.zeros(3)
if dist.get_rank() == 0:
    for i in range(100):  # more than a ring has room for
        dist.send(x + i, 1)
else:
    for i in range(100):
        dist.recv(x, 0)
        assert x.tolist() == [i] * 3, x
    try:
        dist.recv(x, 0)
    except RuntimeError as e:
        print(type(e).__name__, e.rank, e)
END
	run bounded gpuctl run --report-dir none --torch -n 2 -- python3 -W ignore program.py
	assert_status 0
	assert_output 'Aborted 0 rank 1: recv: rank 0 has left the group without a message of tag 0'
}
