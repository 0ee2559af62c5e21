# make install and uninstall, and a program outside the tree against what was installed.
load helper

setup() {
	house_setup
	unset PYTHONPATH # pip would find the caller's package installed
	DEST=$T/dest PREFIX=/opt/gpusim
	INSTALLED=$DEST$PREFIX
	sanitizers
}

# Without the options of the make that runs these tests.
house_make() {
	local mpi=0
	[ ! -e "$BUILD/bin/mnist-train-mpi" ] || mpi=1
	env -u CC -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES \
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
	struct gpusim_comm *comm;

	if (gpusim_open(NULL, &g) || gpusim_comm_init_all(g, 2, NULL, NULL, &comm)) {
		fprintf(stderr, "program: %s\n", gpusim_error());
		return 1;
	}
	printf("gpusim %s, %u ranks\n", GPUSIM_VERSION, gpusim_comm_count(comm));
	gpusim_comm_free(comm);
	gpusim_close(g);
	return 0;
}
END
}

@test "install puts everything under DESTDIR and PREFIX" {
	house_make install
	for file in bin/{gpudev,gpucoord,gpuctl,mnist-train} include/gpusim{,_lab,_kernel}.h lib/libgpusim.a \
		lib/libgpusim.so lib/pkgconfig/gpusim.pc share/gpusim/data/iris.csv \
		share/bash-completion/completions/{gpuctl,mnist-train} share/zsh/site-functions/_gpuctl \
		share/fish/vendor_completions.d/{gpuctl,gpudev}.fish lib/python3/dist-packages/gpusim/_where.py \
		share/gpusim/python/gpusim/hook/sitecustomize.py; do
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
}

# symbols FILE - of its functions, as a debugger would have them
symbols() { nm "$1" 2>/dev/null | grep -c ' t ' || true; }

@test "what is installed is stripped, unless STRIP=:" {
	((${#SANITIZE[@]} == 0)) || skip 'sanitizers keep symbols of their own'
	objects=(bin/{gpudev,gpucoord,gpuctl,mnist-train} lib/libgpusim.so lib/gpusim/nccl/lib/lib{cudart,nccl}.so
		lib/gpusim/nccl/bin/nvcc)
	house_make install
	for file in "${objects[@]}" lib/libgpusim.a; do
		run readelf -WS "$INSTALLED/$file"
		assert_status 0
		[[ $output != *.debug_info* ]]
	done
	for file in "${objects[@]}"; do
		assert_equal "$file $(symbols "$INSTALLED/$file")" "$file 0"
	done
	house_make install STRIP=:
	for file in "${objects[@]}" lib/libgpusim.a; do
		(($(symbols "$INSTALLED/$file") > 0))
	done
}

# The way of the installed script, offline: from a mirror that is a folder, whose files are not MNIST's.
@test "the fetcher is installed, and messages name it" {
	house_make install
	run env -C "$T" -u GPUSIM_DATA "$INSTALLED/bin/mnist-train"
	assert_status 1
	assert_match "run 'gpusim-fetch-mnist data/mnist'"
	assert_equal "$(grep -rlE 'make data|tools/fetch-[mf]' "$INSTALLED")" ''
	mkdir stubs
	ln -s /bin/false stubs/npm
	run --separate-stderr env PATH="$T/stubs:$INSTALLED/bin:/usr/bin:/bin" GPUSIM_DATA_MIRRORS="file://$ROOT/tests/data" \
		gpusim-fetch-mnist data/mnist
	assert_status 1
	[[ $stderr == 'gpusim-fetch-mnist: data/mnist: no source has train-images-idx3-ubyte: '*'wrong SHA-256'* ]]
	[[ ! -e data/mnist ]]
	for name in mnist fashion; do
		run "$BUILD/bin/gpusim-fetch-$name" -h
		assert_status 0
		assert_match "^gpusim-fetch-$name DIR - "
		run "$INSTALLED/bin/gpusim-fetch-$name"
		assert_status 2
		assert_output "usage: gpusim-fetch-$name DIR"
	done
}

# listing - all below $T, directories too
listing() { find "$T" -printf '%y %P\n' | LC_ALL=C sort; }

# comes_and_goes MAKE-ARGUMENT... - install twice, then uninstall: all is as it was
comes_and_goes() {
	listing >"$BATS_TEST_TMPDIR/before"
	house_make install "$@"
	house_make install "$@"
	assert_equal "$(find "$T" -name gpuctl -path '*/bin/*' | wc -l)" 1
	house_make uninstall "$@"
	listing >"$BATS_TEST_TMPDIR/after"
	run diff "$BATS_TEST_TMPDIR/before" "$BATS_TEST_TMPDIR/after"
	assert_status 0
}

@test "uninstall leaves what was there before, and no directory of its own" {
	PREFIX=/usr/local
	comes_and_goes
	DEST=$T/not/there/yet
	PREFIX=/opt/a/b comes_and_goes
	PREFIX=/usr comes_and_goes LIBDIR=/usr/lib/x86_64-linux-gnu
	DEST=
	PREFIX=$T/home/.local comes_and_goes
	mkdir -p home/.local/{include,lib/pkgconfig,share/man/man1,bin} # empty, or somebody's
	touch home/.local/bin/mine
	PREFIX=$T/home/.local comes_and_goes
}

@test "the Python package names what it is installed with; uninstall takes what Python compiled of it" {
	python=/usr/bin/python3
	needs $python
	PREFIX=$T/usr DEST=
	before=$(listing)
	house_make install
	run env -u PYTHONDONTWRITEBYTECODE $python -c 'import sys; sys.path.insert(0, sys.argv[1]); import gpusim._where as w; print(w.LIBDIR, w.BINDIR)' \
		"$T/usr/share/gpusim/python"
	assert_status 0
	assert_output "$T/usr/lib $T/usr/bin"
	assert_file "$(echo "$T"/usr/lib/python3/dist-packages/gpusim/__pycache__/_where.*.pyc)"
	PYTHONPATH=$T/usr/share/gpusim/python run $python -c 'import importlib.metadata as m; print(m.version("gpusim"))'
	assert_output "$("$T/usr/bin/gpuctl" version | sed 's/gpuctl //')"
	house_make uninstall
	assert_equal "$(listing)" "$before"
	PREFIX=$T/usr house_make install PYTHONDIR="$T/usr/lib/python3.99/site-packages"
	assert_file "$T/usr/share/gpusim/python/gpusim/_where.py"
	assert_equal "$(find "$T/usr" -name _where.py)" "$T/usr/lib/python3.99/site-packages/gpusim/_where.py"
}

@test "pip installs the package offline, and it names the build it was made in" {
	/usr/bin/python3 -m venv --system-site-packages venv >said 2>&1 || skip 'needs python3-venv'
	/usr/bin/python3 -c 'import numpy' 2>/dev/null || skip 'needs python3-numpy'
	run env BUILD="$BUILD" venv/bin/pip install --no-build-isolation --no-index "$ROOT/lib/python"
	assert_status 0
	run venv/bin/python3 -c 'import gpusim._where as w, importlib.metadata as m; print(w.LIBDIR, w.BINDIR)
print(m.version("gpusim"), [e.value for e in m.entry_points(group="pytest11") if e.value == "gpusim.pytest"][0])'
	assert_status 0
	assert_output "$BUILD $BUILD/bin
$("$BUILD/bin/gpuctl" version | sed 's/gpuctl //') gpusim.pytest"
	venv/bin/pip uninstall -q -y gpusim
	assert_equal "$(find venv -name 'gpusim*')" ''
	run venv/bin/pip install --no-build-isolation --no-index -e "$ROOT/lib/python"
	assert_status 0
	run venv/bin/python3 -c 'import gpusim.hook; print(*gpusim.hook.__path__)'
	assert_output "$ROOT/lib/python/gpusim/hook"
	assert_equal "$(find "$ROOT/lib/python" -name '*.egg-info' -o -name '*.whl')" ''
}

@test "uninstall where nothing is installed, and a relative PREFIX, are refused" {
	run house_make uninstall
	assert_status 2
	assert_match "make uninstall: nothing is installed: $INSTALLED"
	PREFIX=opt run house_make install
	assert_status 2
	assert_match 'make install: .*absolute'
	assert_equal "$(find "$T" -type f)" ''
}

@test "a program outside, linked statically and shared, runs under the installed gpuctl" {
	house_make install
	write_program
	read -ra cflags < <(outside_pkg_config --cflags)
	read -ra shared < <(outside_pkg_config --libs)
	read -ra static < <(outside_pkg_config --static --libs)
	archive=("${static[@]/#-lgpusim/-l:libgpusim.a}")
	compile "${SANITIZE[@]}" "${cflags[@]}" -o with-so program.c "${shared[@]}"
	compile "${SANITIZE[@]}" "${cflags[@]}" -o with-a program.c "${archive[@]}"
	version=$("$INSTALLED/bin/gpuctl" version)

	PATH=/usr/bin:/bin run bounded "$INSTALLED/bin/gpuctl" run -n 2 -- ./with-a
	assert_status 0
	assert_output "gpusim ${version#gpuctl }, 2 ranks"
	LD_LIBRARY_PATH=$INSTALLED/lib PATH=/usr/bin:/bin \
		run bounded "$INSTALLED/bin/gpuctl" run -n 2 -- ./with-so
	assert_status 0
	assert_output "gpusim ${version#gpuctl }, 2 ranks"
	assert_equal "$(outside_pkg_config --modversion)" "${version#gpuctl }"
	[[ -z ${SANITIZE[*]} ]] || return 0 # sanitizers want shared libraries
	compile -static "${cflags[@]}" -o all-static program.c "${static[@]}" 2>said
	run readelf -d all-static
	assert_match 'no dynamic section'
	PATH=/usr/bin:/bin run bounded "$INSTALLED/bin/gpuctl" run -n 2 -- ./all-static
	assert_status 0
	assert_output "gpusim ${version#gpuctl }, 2 ranks"
	assert_nothing_left
}

# As root, with an /etc and a /usr/local of its own; ldconfig must not touch any other directory.
@test "in /usr/local a program linked with pkg-config's flags runs at once" {
	unshare -m true 2>/dev/null || skip 'no right to make mount namespaces'
	[[ /lib -ef /usr/lib ]] || skip '/lib is not /usr/lib'
	write_program
	export -f house_make
	export SANITIZE_FLAGS=${SANITIZE[*]} DEST='' PREFIX=/usr/local
	run bounded unshare -m bash -e -c '
		mount --bind /usr /usr
		mount -o remount,ro,bind /usr
		mount -t tmpfs tmpfs /usr/local
		mount -t tmpfs tmpfs /var/cache
		mkdir /usr/local/lib etc
		mount -t tmpfs tmpfs etc
		cp -a /etc/. etc
		mount --bind etc /etc
		find /usr/local >before
		house_make install >said
		PATH=/usr/local/bin:/usr/bin:/bin
		cc $SANITIZE_FLAGS $(pkg-config --cflags gpusim) program.c $(pkg-config --libs gpusim)
		gpuctl run -n 2 -- ./a.out
		house_make uninstall >>said
		find /usr/local | diff before -
		cat said
		/sbin/ldconfig -p | grep gpusim || true'
	assert_status 0
	assert_equal "${output/#gpusim [0-9].[0-9].[0-9], }" '2 ranks'
}

@test "where the dynamic linker does not search, install prints how programs find the library" {
	DEST='' PREFIX=$T/home
	run house_make install
	assert_status 0
	assert_match "LD_LIBRARY_PATH=$T/home/lib .*PKG_CONFIG_PATH=$T/home/lib/pkgconfig"
	write_program
	export PKG_CONFIG_PATH=$T/home/lib/pkgconfig
	# shellcheck disable=SC2046
	compile "${SANITIZE[@]}" program.c $(pkg-config --cflags --libs gpusim) "-Wl,-rpath,$T/home/lib"
	PATH=$T/home/bin:/usr/bin:/bin run bounded gpuctl run -n 2 -- ./a.out
	assert_status 0
}

# shown NM-ARGUMENT... - what a library shows, but gpusim_* and the sanitizers'.
shown() {
	nm --defined-only "$@" | awk 'NF == 3 { print $3 }' | grep -v -e '^gpusim_' -e '^GPUSIM_[0-9.]*' -e '^__[a-z]*san'
}

@test "the libraries show gpusim_* and nothing else" {
	assert_equal "$(shown -D "$BUILD/libgpusim.so")" ''
	assert_equal "$(shown -g "$BUILD/libgpusim.a")" ''
}

# The program has nng of its own, the shared one, and it has a message of it on its way while it asks our coordinator.
@test "a program that uses the shared nng has that to itself" {
	house_make install
	cat >two.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <gpusim.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <stdio.h>
#include <string.h>

/* The library that the rest of the program gets the name from. */
static const char *
from(const char *name)
{
	void *symbol = dlsym(RTLD_DEFAULT, name);
	Dl_info i;

	if (!symbol || !dladdr(symbol, &i))
		return "?";
	return strrchr(i.dli_fname, '/') + 1;
}

int
main(int argc, char **argv)
{
	nng_socket rep, req;
	struct gpusim *g;
	char text[16];
	size_t n = sizeof text;

	if (argc != 2 || nng_rep0_open(&rep) || nng_listen(rep, argv[1], NULL, 0) ||
	    nng_req0_open(&req) || nng_dial(req, argv[1], NULL, 0) || nng_send(req, "ping", 5, 0))
		return 2;
	if (gpusim_open(NULL, &g)) {
		fprintf(stderr, "two: %s\n", gpusim_error());
		return 1;
	}
	if (nng_recv(rep, text, &n, 0) || nng_send(rep, "pong", 5, 0) || (n = sizeof text) == 0 ||
	    nng_recv(req, text, &n, 0))
		return 3;
	gpusim_close(g);
	nng_close(req);
	nng_close(rep);
	printf("%s %s %s %s\n", text, from("nng_stream_recv"), from("listen"), from("epoll_ctl"));
	return 0;
}
END
	read -ra cflags < <(outside_pkg_config --cflags)
	read -ra shared < <(outside_pkg_config --libs)
	read -ra static < <(outside_pkg_config --static --libs)
	compile "${cflags[@]}" -o two-so two.c "${shared[@]}" -lnng
	compile "${SANITIZE[@]}" "${cflags[@]}" -o two-a two.c "${static[@]/#-lgpusim/-l:libgpusim.a}" -lnng
	for program in two-so two-a; do
		[[ -z ${SANITIZE[*]} || $program != two-so ]] || continue
		LD_LIBRARY_PATH=$INSTALLED/lib PATH=/usr/bin:/bin \
			run bounded "$INSTALLED/bin/gpuctl" run -n 1 -- "./$program" "ipc://$T/own.$program"
		assert_status 0
		[[ -n ${SANITIZE[*]} ]] || assert_output 'pong libnng.so.1 libc.so.6 libc.so.6'
		assert_match '^pong libnng.so.1'
	done
}

@test "the installed header is C11 and C++ without warnings" {
	echo '#include <gpusim.h>' >header.c
	compile -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$ROOT/include" header.c
	needs c++
	c++ -Wall -Wextra -Werror -fsyntax-only -x c++ -I"$ROOT/include" header.c
}
