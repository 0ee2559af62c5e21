# python.bash - loaded by the files that run Python:   load python
#
# python3 is the interpreter $PYTHON, or Debian's, which has NumPy and the others; gpusim is that of the build.
# shellcheck shell=bash disable=SC2034,SC2154
load helper

python_setup() {
	house_setup
	PYTHON=${PYTHON:-/usr/bin/python3}
	[ -x "$PYTHON" ] || PYTHON=$(command -v python3) || skip 'needs python3 (./setup --dev)'
	export USE_LIBUV=0 # Debian 13's torch was built without it
	export PYTHON PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$BUILD/python HYPOTHESIS_STORAGE_DIRECTORY=$T/hypothesis
	mkdir "$T/path"
	ln -s "$PYTHON" "$T/path/python3"
	PATH=$T/path:$PATH
	unset GPUSIM_TIMEOUT GPUSIM_DETERMINISTIC GPUSIM_UNIFIED GPUSIM_LIBDIR LD_LIBRARY_PATH PYTEST_ADDOPTS
	needs_modules numpy
	sanitizers
	[ ${#SANITIZE[@]} -eq 0 ] || skip 'a sanitizer is loaded with the program, not late'
	LIMIT=60
}

setup() { python_setup; }

# needs_modules NAME... - skip the test where Python lacks one of them, and name it
needs_modules() {
	local name
	for name; do
		python3 -c "import $name" 2>/dev/null || skip "needs Python's $name (./setup --dev)"
	done
}

# after run of pytest: passes N - all tests passed, and they were at least N
passes() {
	[[ $output =~ ([0-9]+)' passed' ]] || fail "no test passed: $output"
	((BASH_REMATCH[1] >= $1)) || fail "only ${BASH_REMATCH[1]} tests passed, of at least $1: $output"
	[[ ! $output =~ [0-9]+' '(failed|error|skipped) ]] || fail "not all passed: $output"
}
