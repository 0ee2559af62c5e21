# The home of NCCL's interface: where it lies, the environment of gpuctl run --nccl, programs that are compiled with it.
# shellcheck disable=SC2016,SC2030,SC2031
load nccl

# house_make TARGET [VARIABLE=VALUE...] - without the options of the make that runs these tests
house_make() {
	local mpi=0
	[ ! -e "$BUILD/bin/mnist-train-mpi" ] || mpi=1
	env -u CC -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES make -s -C "$ROOT" BUILD="$BUILD" MPI=$mpi "$@"
}

# assert_home FOLDER - it has everything that makefiles look for
assert_home() {
	local file
	for file in include/{nccl,cuda_runtime}.h lib/lib{nccl.so{,.2},cudart.so{,.12}} lib64/libnccl.so; do
		assert_file "$1/$file"
	done
}

@test "nccl-home: the build's; a copy of the tree has its own" {
	assert_equal "$NCCL_HOME_HERE" "$(realpath "$BUILD")/nccl"
	assert_home "$NCCL_HOME_HERE"
	assert_equal "$(gpuctl nccl-home --json)" "{\"home\":\"$NCCL_HOME_HERE\"}"
	mkdir -p copy/bin
	cp "$BUILD/bin/gpuctl" copy/bin
	run copy/bin/gpuctl nccl-home
	assert_status 1
	assert_output "gpuctl: nccl-home: no libnccl.so.2 in $T/copy/bin/../nccl/lib, or ../share/gpusim/nccl/lib next to it; \`make\` builds it"
	run copy/bin/gpuctl run --nccl -n 1 -- true
	assert_status 1
	assert_match '^gpuctl: run: no libnccl.so.2'
	cp -a "$NCCL_HOME_HERE" copy
	assert_equal "$(copy/bin/gpuctl nccl-home)" "$T/copy/nccl"
	ln -s copy/bin/gpuctl linked
	assert_equal "$(./linked nccl-home)" "$T/copy/nccl"
}

@test "nccl-home: installed, wherever LIBDIR is, and after a move; no file of it lies in a global place" {
	house_make install DESTDIR="$T/dest" PREFIX=/usr LIBDIR=/usr/lib/some-where
	assert_equal "$(dest/usr/bin/gpuctl nccl-home)" "$T/dest/usr/lib/some-where/gpusim/nccl"
	assert_home "$T/dest/usr/lib/some-where/gpusim/nccl"
	mv dest moved
	assert_equal "$(moved/usr/bin/gpuctl nccl-home)" "$T/moved/usr/lib/some-where/gpusim/nccl"
	run find moved '(' -name '*nccl.*' -o -name '*cuda*' -o -name '*nvcc*' ')' \
		! -path '*/gpusim/nccl/*' ! -path '*/man/*' ! -path '*/dist-packages/gpusim/*' ! -name gpusim-nccl.pc
	assert_output ''
	house_make uninstall DESTDIR="$T/moved" PREFIX=/usr LIBDIR=/usr/lib/some-where
	assert_equal "$(find moved -mindepth 1)" ''
}

@test "run --nccl: the command finds libraries and headers; without it nothing is set" {
	run bounded gpuctl run -n 1 -- sh -c 'echo "$NCCL_HOME$CUDA_HOME$CUDA_PATH$LD_LIBRARY_PATH"'
	assert_output ''
	LD_LIBRARY_PATH=/x:/y run bounded gpuctl run --nccl -n 1 -- sh -c 'echo "$LD_LIBRARY_PATH $NCCL_HOME $CUDA_HOME $CUDA_PATH $PATH"'
	assert_status 0
	assert_match "^$NCCL_HOME_HERE/lib:/x:/y $NCCL_HOME_HERE $NCCL_HOME_HERE $NCCL_HOME_HERE "
	assert_match "[ :]$NCCL_HOME_HERE/bin:"
	run bounded gpuctl run --nccl -n 1 -- gpuctl devices --json
	assert_match '"max_addr":4295032832,'
	run bounded gpuctl run --nccl --mem 1M -n 1 -- gpuctl devices --json
	assert_match '"max_addr":1114112,'
}

@test "a program is compiled by pkg-config's flags, and runs without a variable" {
	sanitizers
	house_make install DESTDIR='' PREFIX="$T/home"
	export PKG_CONFIG_PATH=$T/home/lib/pkgconfig
	assert_equal "$(pkg-config --variable=nccl_home gpusim-nccl)" "$(home/bin/gpuctl nccl-home)"
	# shellcheck disable=SC2046
	compile "${SANITIZE[@]}" -o versions "$ROOT/tests/nccl/home_versions.c" $(pkg-config --cflags --libs gpusim-nccl)
	run ./versions
	assert_status 0
	assert_output '22707 22707 12040 12040'
	ldd versions >libraries
	grep -qF "libnccl.so.2 => $T/home/lib/gpusim/nccl/lib/libnccl.so.2" libraries
	grep -qF "libcudart.so.12 => $T/home/lib/gpusim/nccl/lib/libcudart.so.12" libraries
	run nccl 1 home_versions
	assert_output '22707 22707 12040 12040'
}

# calls HEADER EXPRESSION - the functions whose names the header declares, those for --default-stream per-thread among them
calls() {
	for own in '' -DCUDA_API_PER_THREAD_DEFAULT_STREAM; do
		echo "#include <$1>" | compile -E -P $own -I"$NCCL_HOME_HERE/include" - | tr -s '\n\t ' ' ' |
			grep -oE "\b$2 ?\(" | tr -d ' ('
	done | sort -u
}

@test "nccl.h and cuda_runtime_api.h declare what the libraries have, NCCL's calls under their second name too" {
	calls nccl.h 'p?nccl[A-Z]\w*' >declared
	at_least "$(wc -l <declared)" 100
	nm -D --defined-only "$NCCL_HOME_HERE/lib/libnccl.so.2" | awk '{ sub(/@.*/, "", $3); print $3 }' | grep -E '^p?nccl' | sort -u >defined
	diff declared defined
	{ calls cuda_runtime_api.h 'cuda[A-Z]\w*' && calls cuda_profiler_api.h 'cudaProfiler\w*'; } | sort -u >declared
	at_least "$(wc -l <declared)" 200
	nm -D --defined-only "$NCCL_HOME_HERE/lib/libcudart.so.12" | awk '{ sub(/@.*/, "", $3); print $3 }' | grep -E '^cuda[A-Z]' | sort -u >defined
	diff declared defined
}

# late - skip under a sanitizer, which must be loaded first
late() {
	sanitizers
	[ ${#SANITIZE[@]} -eq 0 ] || skip 'a sanitizer is loaded with the program, not late'
}

# need_python - sets PYTHON, or skips
need_python() {
	PYTHON=$(command -v /usr/bin/python3 || command -v python3) || skip 'no python3'
}

@test "the libraries can be loaded late: no thread-local variable needs a place from the program's start" {
	local library
	late
	cat >late.c <<-'END'
		#include <dlfcn.h>
		#include <stdio.h>

		int
		main(int argc, char **argv)
		{
			for (int i = 1; i < argc; i++)
				if (!dlopen(argv[i], RTLD_NOW))
					return puts(dlerror()), 1;
			return argc < 4;
		}
	END
	compile -o late late.c -ldl
	for library in "$NCCL_HOME_HERE"/lib/lib{cudart.so.12,nccl.so.2} "$BUILD/libgpusim.so"; do
		readelf -dW "$library" >dynamic
		grep -q 'SONAME' dynamic
		run grep STATIC_TLS dynamic
		assert_output ''
	done
	run ./late "$NCCL_HOME_HERE"/lib/lib{cudart.so.12,nccl.so.2} "$BUILD/libgpusim.so"
	assert_output ''
	assert_status 0
}

@test "Python loads them by ctypes" {
	late
	need_python
	run "$PYTHON" -c 'import ctypes, sys
for name in sys.argv[1:]: ctypes.CDLL(name)
version = ctypes.c_int()
print(ctypes.CDLL(sys.argv[2]).ncclGetVersion(ctypes.byref(version)), version.value)' \
		"$NCCL_HOME_HERE"/lib/lib{cudart.so.12,nccl.so.2} "$BUILD/libgpusim.so"
	assert_output '0 22707'
}

@test "Python imports a pybind11 module that nvcc compiled: its kernel runs, ncclAllReduce sums" {
	local include
	late
	need_cuda
	need_python
	include=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("include"))')
	[ -e "$include/Python.h" ] || skip 'no python3-dev'
	[ -e /usr/include/pybind11/pybind11.h ] || skip 'no pybind11-dev'
	"$NCCL_HOME_HERE/bin/nvcc" -shared -Xcompiler -fPIC -o late.so "$BATS_TEST_DIRNAME/fixtures/late.cu" -I"$include" -lnccl
	readelf -dW late.so >dynamic
	run grep STATIC_TLS dynamic
	assert_output ''
	run bounded gpuctl run --nccl -n 1 -- "$PYTHON" -c 'import sys; sys.path.insert(0, "."); import late; print(late.sum())'
	assert_output 8064.0
}
