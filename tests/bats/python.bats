# The module gpusim: machines, arrays, communicators, failures.
load python

# unittests CLASS N - the tests of a class of test_core.py pass, all N
unittests() {
	run bounded python3 -W error::ResourceWarning "$ROOT/tests/python/test_core.py" -k "$1."
	assert_status 0
	assert_match "Ran $2 tests in .*OK$"
	assert_nothing_left
}

@test "gpusim: arrays in device memory, their views and types" { unittests Arrays 7; }

@test "gpusim: a handle for all ranks" { unittests OneHandle 6; }

@test "gpusim: a handle for each rank" { unittests Ranks 8; }

@test "gpusim: fork, Ctrl-C, gpuctl's verbs, a machine that is not there" { unittests Process 4; }

@test "gpusim: importing it loads nothing but NumPy's half, and no library" {
	run bounded python3 -c 'import sys, gpusim; print("numpy" in sys.modules, gpusim._lib._lib, gpusim.__version__)'
	assert_status 0
	assert_output "False None $(gpuctl --version | grep -o '[0-9.]*[0-9]' | head -n 1)"
}
