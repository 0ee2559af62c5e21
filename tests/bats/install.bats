# make install and uninstall, and a program outside the tree against what was installed.
load helper

setup() {
	house_setup
	DEST=$T/dest PREFIX=/opt/gpusim
	INSTALLED=$DEST$PREFIX
	sanitizers
}

# Without the options of the make that runs these tests.
house_make() {
	local mpi=0
	[ ! -e "$BUILD/bin/mnist-train-mpi" ] || mpi=1
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES \
		make -s -C "$ROOT" BUILD="$BUILD" DESTDIR="$DEST" PREFIX="$PREFIX" MPI=$mpi "$@"
}

outside_pkg_config() {
	PKG_CONFIG_SYSROOT_DIR=$DEST PKG_CONFIG_LIBDIR=$INSTALLED/lib/pkgconfig pkg-config "$@" gpusim
}

write_program() {
	cat >program.c <<'END'
#include <gpusim.h>
#include <stdio.h>

int
main(void)
{
	struct gpusim *g;
	struct gpusim_comm comm;

	if (gpusim_open(NULL, &g) || gpusim_comm_init(g, 2, NULL, NULL, &comm)) {
		fprintf(stderr, "program: %s\n", gpusim_error());
		return 1;
	}
	printf("gpusim %s, %u ranks\n", GPUSIM_VERSION, comm.nranks);
	gpusim_comm_fini(&comm);
	gpusim_close(g);
	return 0;
}
END
}

@test "install puts everything under DESTDIR and PREFIX, uninstall leaves nothing" {
	house_make install
	for file in bin/{gpudev,gpucoord,gpuctl,mnist-train} include/gpusim{,_kernel}.h lib/libgpusim.a \
		lib/libgpusim.so lib/pkgconfig/gpusim.pc share/gpusim/data/iris.csv \
		share/bash-completion/completions/gpuctl; do
		assert_file "$INSTALLED/$file"
	done
	[ ! -e "$BUILD/bin/mnist-train-mpi" ] || assert_file "$INSTALLED/bin/mnist-train-mpi"
	for page in "$ROOT"/man/*.[1-9]; do
		assert_file "$INSTALLED/share/man/man${page##*.}/${page##*/}"
	done
	for config in "$ROOT"/examples/config/*.ini; do
		assert_file "$INSTALLED/share/gpusim/config/${config##*/}"
	done
	assert_equal "$(find "$DEST" ! -type d ! -path "$INSTALLED/*")" ''
	assert_equal "$(grep -rlI -e "$T" -e "$ROOT" "$INSTALLED")" ''
	house_make uninstall
	assert_equal "$(find "$DEST" ! -type d)" ''
}

@test "a program outside, linked statically and shared, runs under the installed gpuctl" {
	house_make install
	write_program
	read -ra cflags < <(outside_pkg_config --cflags)
	read -ra shared < <(outside_pkg_config --libs)
	read -ra static < <(outside_pkg_config --static --libs)
	static=("${static[@]/#-lgpusim/-l:libgpusim.a}")
	"${CC:-cc}" "${SANITIZE[@]}" "${cflags[@]}" -o with-so program.c "${shared[@]}"
	"${CC:-cc}" "${SANITIZE[@]}" "${cflags[@]}" -o with-a program.c "${static[@]}"
	version=$("$INSTALLED/bin/gpuctl" version)

	PATH=/usr/bin:/bin run bounded "$INSTALLED/bin/gpuctl" run -n 2 -- ./with-a
	assert_status 0
	assert_output "gpusim ${version#gpuctl }, 2 ranks"
	LD_LIBRARY_PATH=$INSTALLED/lib PATH=/usr/bin:/bin \
		run bounded "$INSTALLED/bin/gpuctl" run -n 2 -- ./with-so
	assert_status 0
	assert_output "gpusim ${version#gpuctl }, 2 ranks"
	assert_equal "$(outside_pkg_config --modversion)" "${version#gpuctl }"
	assert_nothing_left
}

# shown NM-ARGUMENT... - what a library shows, but gpusim_* and the sanitizers'.
shown() {
	nm --defined-only "$@" | awk 'NF == 3 { print $3 }' | grep -v -e '^gpusim_' -e '^__[a-z]*san'
}

@test "the libraries show gpusim_*, and nothing of the house but what stands in for nng's" {
	local ours=$'nng_stream_recv\nnng_stream_send'
	assert_equal "$(shown -D "$BUILD/libgpusim.so")" "$ours"
	assert_equal "$(shown -g "$BUILD/libgpusim.a")" "$ours"
}

@test "the installed header is C11 and C++ without warnings" {
	echo '#include <gpusim.h>' >header.c
	"${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$ROOT/include" header.c
	command -v c++ >/dev/null || skip 'no C++ compiler'
	c++ -Wall -Wextra -Werror -fsyntax-only -x c++ -I"$ROOT/include" header.c
}
