# The checks of `make lint` that are ours: they pass on this tree and fail where they should.
load helper

# offends FILE INCLUDE - a tree with that one line in it is refused, by file and line
offends() {
	rm -rf tree
	mkdir -p "tree/$(dirname "$1")"
	printf '%s\n' '#include <stdio.h>' "#include $2" >"tree/$1"
	run "$ROOT/tests/lint/layers" tree
	assert_status 1
	assert_match "^$1:2: .* may not include "
}

allows() {
	rm -rf tree
	mkdir -p "tree/$(dirname "$1")"
	printf '%s\n' '#include <stdio.h>' "#include $2" >"tree/$1"
	run "$ROOT/tests/lint/layers" tree
	assert_status 0
	assert_output ''
}

@test "layers: this tree keeps to the rooms" {
	run "$ROOT/tests/lint/layers"
	assert_status 0
	assert_output ''
}

@test "layers: a higher room, another room's library, a way round are refused" {
	offends lib/base/x.c '"net/net.h"'
	offends lib/base/x.h '"wire/wire.h"'
	offends lib/transport/wire/x.c '"net/net.h"'
	offends lib/plan/coll/x.c '"net/net.h"'
	offends lib/coordinator/coord/x.c '"dev/device.h"'
	offends lib/clients/client/x.c '"dev/device.h"'
	offends lib/coordinator/coord/device/x.c '"coord/comm/comm.h"'
	offends lib/coordinator/coord/comm/x.c '"coord/run/run.h"'
	offends lib/coordinator/coord/run/x.c '"coord/persist/persist.h"'
	offends lib/coordinator/coord/run/x.c '"coord/comm/comm_impl.h"'
	offends lib/coordinator/coord/core/x.c '"coord/coord.h"'
	offends lib/training/nn/x.c '"train/task.h"'
	offends lib/training/train/x.c '"kern/kernel.h"'
	offends lib/device/dev/x.c '<nng/nng.h>'
	offends lib/device/mem/x.c '<cblas.h>'
	offends lib/device/dev/x.c '<png.h>'
	offends cmd/mnist-train/x.c '<jpeglib.h>'
	offends lib/transport/net/x.c '"../dev/device.h"'
	offends lib/transport/net/x.c '"nng/nng.h"'
	offends lib/training/nn/x.c '"gpu_sim.pb-c.h"'
	offends cmd/gpuctl/x.c '"wire/wire.h"'
	offends cmd/gpuctl/x.c '"client/client_impl.h"'
	offends cmd/mnist-train/x.c '"kern/kernel.h"'
	offends cmd/mnist-train/x.c '<mpi.h>'
	offends cmd/mnist-train/mpi/x.c '"client/ops.h"'
	offends cmd/gpudev/x.c '"coord/coord.h"'
	offends cmd/gpucoord/x.c '"dev/device.h"'
	offends examples/x.c '"base/rc.h"'
	offends include/x.h '"base/rc.h"'
}

@test "layers: what is below is allowed" {
	allows lib/transport/net/x.c '<nng/nng.h>'
	allows lib/coordinator/coord/run/x.c '"coord/comm/comm.h"'
	allows lib/coordinator/coord/run/x.c '"coord/run/run_impl.h"'
	allows lib/coordinator/coord/x.c '"coord/persist/persist.h"'
	allows lib/device/kern/x.c '<cblas.h>'
	allows lib/training/nn/x.c '<png.h>'
	allows lib/device/dev/x.c '"xport/xport.h"'
	allows lib/transport/net/x.c '"net/listener.h"'
	allows cmd/gpuctl/x.c '"mem/vectext.h"'
	allows cmd/mnist-train/mpi/x.c '<mpi.h>'
	allows cmd/mnist-train/mpi/x.c '"kern/kernel.h"'
	allows cmd/mnist-train/mpi/x.c '"mnist-train/report.h"'
	allows examples/x.c '<gpusim.h>'
}

@test "layers: a room that nobody placed is refused, and so is a tree without sources" {
	mkdir -p tree/lib/cellar
	echo 'int x;' >tree/lib/cellar/x.c
	run "$ROOT/tests/lint/layers" tree
	assert_status 1
	assert_match 'cellar is not in the table'
	mkdir empty
	run "$ROOT/tests/lint/layers" empty
	assert_status 1
}

@test "shell: finds what shellcheck finds, and looks at the bats files" {
	needs shellcheck
	printf '%s\n' '#!/usr/bin/env bash' 'rm $1' >bad.sh
	run "$ROOT/tests/lint/shell" "$T/bad.sh"
	assert_status 1
	assert_match 'SC2086'
	printf '%s\n' '@test "x" {' $'\trm $1' '}' >bad.bats
	run "$ROOT/tests/lint/shell" "$T/bad.bats"
	assert_status 1
	printf '%s\n' '#!/bin/sh' 'rm -- "$1"' >good
	run "$ROOT/tests/lint/shell" "$T/good"
	assert_status 0
}

@test "abi: the C interface is as listed; a change that breaks programs is reported" {
	run "$ROOT/tests/lint/abi"
	assert_status 0
	assert_output ''
	mkdir -p tree/tests/lint
	cp "$ROOT/tests/lint/abi" tree/tests/lint
	cp -r "$ROOT/include" tree
	sed -i 's/GPUSIM_BARRIER = 8,/GPUSIM_BARRIER = 18,/; s/^	uint32_t wait_ms;/	uint64_t wait_ms;/' tree/include/gpusim.h
	run tree/tests/lint/abi
	assert_status 1
	assert_match '-enumerator GPUSIM_BARRIER 8'
	assert_match '\+size struct gpusim_comm_config'
	assert_match 'abi: the C interface differs from include/gpusim.abi'
}

@test "names: this tree's pages name what is there, and are as short as they should be" {
	run "$ROOT/tests/lint/names"
	assert_status 0
	assert_output ''
}

@test "words: this tree's texts are plain" {
	run "$ROOT/tests/lint/words"
	assert_status 0
	assert_output ''
}

@test "words: an old phrase" {
	mkdir -p tree/lib
	echo '/* It waits for n devices. */' >tree/lib/good.c
	run "$ROOT/tests/lint/words" tree
	assert_status 0
	echo '/* It is none of these; a f32 */' >tree/lib/bad.c
	run "$ROOT/tests/lint/words" tree
	assert_status 1
	assert_match "lib/bad.c:1: 'is none of': write: must be one of"
	assert_match "lib/bad.c:1: 'a [(]f8e4m3.*': write: an f64"
}

@test "tidy: a line that is too long, a torn declaration, a function that is too long, one that nobody else uses" {
	run "$ROOT/tests/lint/tidy"
	assert_status 0
	assert_output ''
	mkdir -p tree/lib/a
	{
		printf 'struct x {\n\tuint64_t\n\t    a; /* one */\n};\n/* %0130d */\nvoid\nlong_one(void)\n{\n' 0
		yes '	;' | head -n 71
		printf '}\n'
	} >tree/lib/a/a.c
	printf '%s\n' 'void long_one(void);' 'int used(int x);' '#define own(x) used(x)' >tree/lib/a/a.h
	run "$ROOT/tests/lint/tidy" tree
	assert_status 1
	assert_match 'lib/a/a.c:3: a torn declaration'
	assert_match 'lib/a/a.c:5: more than 120 columns'
	assert_match 'lib/a/a.c:8: a function of 71 lines'
	assert_match 'lib/a/a.h:1: long_one is used in its own file alone'
	[[ $output != *'used is used'* ]]
}

@test "python: a line that is too long, a function that is too long, what does not compile" {
	needs python3
	run "$ROOT/tests/lint/python"
	assert_status 0
	assert_output ''
	mkdir -p tree/lib/python
	{
		printf '# %0130d\ndef one():\n    """doc\n    """\n' 0
		yes '    x = 1' | head -n 71
		printf 'def two():\n    """doc\n    """\n'
		yes '    x = 1' | head -n 70
	} >tree/lib/python/a.py
	echo 'return 1' >tree/lib/python/b.py
	run "$ROOT/tests/lint/python" tree
	assert_status 1
	assert_output "lib/python/a.py:1: more than 120 columns
lib/python/a.py:2: a function of 71 lines: more than 70
lib/python/b.py:1: 'return' outside function"
}

@test "names: a file, a message, a target that is not there, a page that is too long" {
	mkdir -p tree/lib/transport/net tree/proto
	touch tree/lib/transport/net/there.c
	echo 'message RunRequest {' >tree/proto/x.proto
	printf '%s\n' '.PHONY: check' 'check:' >tree/Makefile
	echo '`there.c` `net/there.c` RunRequest `make check`' >tree/HACKING.md
	run "$ROOT/tests/lint/names" tree
	assert_status 0
	echo '`gone.c` GoneRequest `make gone`' >>tree/HACKING.md
	seq 250 >>tree/HACKING.md
	run "$ROOT/tests/lint/names" tree
	assert_status 1
	assert_match 'HACKING.md: gone.c: no such file'
	assert_match 'HACKING.md: GoneRequest: no such message'
	assert_match 'HACKING.md: make gone: no such target'
	assert_match 'HACKING.md: more than 250 lines'
}

@test "only programs end because memory is out: daemons and libraries have nothing of base/must.h" {
	run nm "$BUILD/bin/gpuctl"
	assert_match ' must_fail'
	for f in bin/gpucoord bin/gpudev libgpusim.so nccl/lib/libcudart.so.12 nccl/lib/libnccl.so.2; do
		run nm "$BUILD/$f"
		[[ $output != *' must_'* ]] || fail "$f has must_..."
	done
}

@test "circles: no files of this tree call each other in a circle; two that do are found" {
	[ -d "$BUILD/obj/lib" ] || skip 'no objects'
	run "$ROOT/tests/lint/circles" "$BUILD" 0 0
	assert_status 0
	mkdir -p tree/tests/lint tree/lib/a build/obj/lib/a build/obj/cmd
	cp "$ROOT/tests/lint/circles" tree/tests/lint
	echo 'void two(void); void one(void); void one(void) { two(); }' >tree/lib/a/one.c
	echo 'void two(void); void one(void); void two(void) { one(); }' >tree/lib/a/two.c
	read -ra cc <<<"${CC:-cc}"
	for f in one two; do "${cc[@]}" -c -o build/obj/lib/a/$f.o tree/lib/a/$f.c; done
	run tree/tests/lint/circles build 0 0
	assert_status 1
	assert_match '2: lib/a/(one lib/a/two|two lib/a/one)'
}
