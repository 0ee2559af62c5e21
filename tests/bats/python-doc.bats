# The examples in the docstrings of the Python package.
load python

@test "the examples in the docstrings of every module run" {
	run bounded gpuctl run --nccl -n 4 -- python3 "$ROOT/tests/python/doctests.py"
	assert_status 0
	for module in machine comm nccl cuda; do
		assert_match "$module: [1-9][0-9]* examples, 0 failed"
	done
	assert_nothing_left
}

@test "an example that is wrong is told" {
	cp -r "$BUILD/python/gpusim" gpusim
	printf '"""\n>>> 1 + 1\n3\n"""\n' >gpusim/wrong.py
	echo '"""Nothing."""' >gpusim/empty.py
	export GPUSIM_LIBDIR=$BUILD PYTHONPATH=$T
	run bounded python3 "$ROOT/tests/python/doctests.py" wrong
	assert_status 1
	assert_match 'wrong: 1 examples, 1 failed'
	run bounded python3 "$ROOT/tests/python/doctests.py" empty
	assert_status 1
}
