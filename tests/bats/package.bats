# make deb: a package that dpkg installs and removes, into a root of its own.
# shellcheck disable=SC2154
load helper

setup_file() {
	house_setup
	DEB=$BATS_FILE_TMPDIR/gpusim.deb
	export DEB
	! command -v dpkg-shlibdeps >/dev/null || make_deb "$DEB"
	house_teardown
}

setup() {
	house_setup
	needs dpkg-shlibdeps
	sanitizers
	[[ -z ${SANITIZE[*]} ]] || skip 'a package without sanitizers'
	ROOT_DIR=$T/root
	mkdir -p "$ROOT_DIR"/var/lib/dpkg/{info,updates}
	: >"$ROOT_DIR/var/lib/dpkg/status"
}

# make_deb FILE - without the options of the make that runs these tests; nobody waits for a compressor.
make_deb() {
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES DPKG_DEB_COMPRESSOR_TYPE=none \
		"$ROOT/tools/deb" "$BUILD" "$1" >/dev/null
}

package() {
	dpkg --root="$ROOT_DIR" --force-depends --force-not-root --force-script-chrootless --log=log "$@" >said 2>&1 ||
		fail "dpkg $*: $(cat said)"
}

@test "make deb: installs, runs, and leaves nothing when it is removed" {
	LD_LIBRARY_PATH=$ROOT_DIR/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
	export LD_LIBRARY_PATH
	package -i "$DEB"
	seq 3 >in
	PATH=$ROOT_DIR/usr/bin:/usr/bin:/bin run bounded gpuctl run -n 3 -- gpuctl allreduce <in
	assert_status 0
	assert_output 6
	echo '#include <gpusim.h>
		int main(void) { return GPUSIM_OK; }' >program.c
	export PKG_CONFIG_SYSROOT_DIR=$ROOT_DIR PKG_CONFIG_LIBDIR=$LD_LIBRARY_PATH/pkgconfig
	# shellcheck disable=SC2046
	compile program.c $(pkg-config --cflags --libs gpusim) && ./a.out
	home=$("$ROOT_DIR/usr/bin/gpuctl" nccl-home)
	assert_equal "$home" "$LD_LIBRARY_PATH/gpusim/nccl"
	assert_file "$home/lib/libcudart.so.12"
	assert_equal "$(gzip -dc "$ROOT_DIR/usr/share/man/man1/gpuctl.1.gz")" "$(cat "$ROOT/man/gpuctl.1")"
	assert_equal "$(grep -rlI -e "$T" -e "$ROOT" "$ROOT_DIR/usr")" ''
	package -i "$(dirname "$DEB")/python3-gpusim.deb"
	assert_equal "$(cd "$ROOT_DIR" && find . -name '*.py' ! -path './usr/lib/python3/dist-packages/gpusim/*' ! -path '*/examples/*')" ''
	assert_equal "$(tail -n 1 "$ROOT_DIR/usr/share/gpusim/python/gpusim/_where.py")" 'BINDIR = "/usr/bin"'
	package --purge python3-gpusim gpusim
	assert_equal "$(cd "$ROOT_DIR" && find . -mindepth 1 ! -path './var*')" ''
}

@test "make deb: it depends on what its programs are linked with; the same build gives the same bytes" {
	make_deb "$T/again.deb"
	cmp again.deb "$DEB"
	cmp python3-again.deb "$(dirname "$DEB")/python3-gpusim.deb"
	depends=$(dpkg-deb -f "$DEB" Depends)
	for library in libc6 libmbedtls14 libprotobuf-c1 libopenblas0 zlib1g; do
		[[ $depends == *"$library"* ]] || fail "depends on $depends, not on $library"
	done
	[[ $depends != *openmpi* ]]
	assert_equal "$(dpkg-deb --ctrl-tarfile "$DEB" | tar -xO ./triggers)" 'activate-noawait ldconfig'
}

@test "make deb: lintian finds no error" {
	needs lintian
	run lintian --allow-root --fail-on error --suppress-tags \
		uses-no-compression-for-control-tarball,uses-no-compression-for-data-tarball "$DEB" "$(dirname "$DEB")/python3-gpusim.deb"
	assert_status 0
}
