# Kernels of a user's own: gpudev --kernels, GPUSIM_KERNELS, gpuctl run --kernels.
# shellcheck disable=SC2016,SC2154
load helper

setup() {
	house_setup
	unset GPUSIM_KERNELS
	SAXPBY=$BUILD/examples/saxpby.so
}

teardown() {
	kill_all
	house_teardown
}

# A sanitized device has no use for a file without; the compiler's own flags then.
compiler() {
	sanitizers
	cc -shared -fPIC "${SANITIZE[@]}" -I"$ROOT/include" "$@"
}

# table NAME PARAMS KERNELS ABI COUNT - make NAME.so of such a table, whose run does nothing
table() {
	cat >"$1.c" <<-END
		#include <gpusim_kernel.h>
		static int run(const struct gpusim_kernel_memory *m, const union gpusim_kernel_value *v,
			       char *why, size_t n)
		{ (void)m; (void)v; (void)why; (void)n; return 0; }
		#define N {"n", GPUSIM_KERNEL_COUNT, 0, 0, "a count"}
		#define END {0, GPUSIM_KERNEL_END, 0, 0, 0}
		static const struct gpusim_kernel_param p[] = { $2 };
		static const struct gpusim_kernel k[] = { $3 };
		const struct gpusim_kernel_table gpusim_kernels = { $4, $5, k };
		int (*const used)(const struct gpusim_kernel_memory *, const union gpusim_kernel_value *,
				  char *, size_t) = run;
		const void *const also = p;
	END
	compiler -o "$1.so" "$1.c"
}

# refused STATUS REGEX FILE - by a device, in one line, before it registers
refused() {
	run --separate-stderr bounded gpudev -m 1M --listen "ipc://$T/d" --mem-file "$T/mem" --kernels "$3"
	assert_status "$1"
	assert_output ''
	[[ $stderr =~ ^gpudev:\ --kernels:\ [^$'\n']*$2 ]] || fail "expected $2, got: $stderr"
	[[ $(wc -l <<<"$stderr") == 1 ]] || fail "more than a line: $stderr"
	refute_file "$T/mem"
	refute_file "$T/d"
}

# refused_table REGEX PARAMS KERNELS [ABI COUNT] - a file of such a table is refused
refused_table() {
	table t "$2" "$3" "${4-GPUSIM_KERNEL_ABI}" "${5-1}"
	refused 5 "$1" t.so
}

@test "a kernel of one's own is launched by name as the others" {
	run bounded gpuctl run -n 2 --kernels "$SAXPBY" -- bash -euc '
		for d in 0 1; do
			y=$(gpuctl malloc --device $d 64) x=$(gpuctl malloc --device $d 64)
			perl -e "print pack q(f<3), 1, 2, 3" | gpuctl memcpy - $d:$x
			perl -e "print pack q(f<3), 10, 20, 30" | gpuctl memcpy - $d:$y
			gpuctl launch --device $d saxpby y=$y x=$x n=3 alpha=2 beta=-1
			gpuctl memcpy $d:$y:12 - | perl -e "local \$/; print join(q( ), unpack q(f<3), <>), qq(\n)"
			gpuctl launch --device $d saxpby y=$y x=$x n=3
			gpuctl memcpy $d:$y:12 - | perl -e "local \$/; print join(q( ), unpack q(f<3), <>), qq(\n)"
		done'
	assert_status 0
	assert_output $'-8 -16 -24\n-7 -14 -21\n-8 -16 -24\n-7 -14 -21'
	assert_nothing_left
}

@test "its bad arguments are refused as those of others, in one line" {
	run bounded gpuctl run -n 1 --kernels "$SAXPBY" -- bash -uc '
		y=$(gpuctl malloc --device 0 64)
		try() { gpuctl launch --device 0 saxpby "$@" 2>&1; echo $?; }
		try y=$y x=$y
		try y=$y x=$y n=1.5
		try y=$y x=$y n=1 gamma=2
		try y=$y x=$y n=1 n=1
		try y=$y x=0 n=1
		try y=$y x=$((y + 1)) n=1
		try y=$y x=$y n=$((1 << 62))
		try y=$y x=$y n=18446744073709551615
		try y=$y x=$((y + 4)) n=2'
	assert_equal "$(grep -c . <<<"$output")" 18
	assert_equal "$(sed -n 'n;p' <<<"$output" | sort -u)" 2
	while read -r line; do
		[[ $line =~ ^gpuctl:\ launch:.*saxpby:\ (n|x|y|no\ argument)[^$'\n']+ ]] || fail "$line"
		read -r line
	done <<<"$output"
	assert_match 'saxpby: n is missing \(number of elements\)'
	assert_match 'x and y overlap'
	assert_nothing_left
}

@test "launch --list lists all kernels with their arguments, those of --kernels as well" {
	run bounded gpuctl launch --list
	assert_status 0
	assert_match $'\n''axpy: [^'$'\n'']*'$'\n''    y=address +'
	assert_match $'\n''    \[dtype=type\] +any type \(default f32\)'
	[[ $output != *saxpby* ]]
	run bounded gpuctl run -n 1 --kernels "$SAXPBY" -- gpuctl launch --list --json
	assert_status 0
	perl -MJSON::PP -e 'local $/; my %k = map { $_->{name} => $_ } @{decode_json(<>)};
		die unless $k{axpy} && $k{saxpby} && $k{saxpby}{arguments}[0]{name} eq "y";' <<<"$output"
	run bounded gpuctl launch --list axpy
	assert_status 2
}

@test "a mistyped kernel or argument is answered with the nearest" {
	run bounded gpuctl run -n 1 -- sh -c 'gpuctl launch --device 0 axpi; gpuctl launch --device 0 axpy alpa=1'
	assert_match "no kernel 'axpi', did you mean 'axpy'\?"
	assert_match "axpy: no argument is named 'alpa', did you mean 'alpha'\?"
}

@test "GPUSIM_KERNELS is a list with colons, and a file that is named twice counts once" {
	table other N,END '{"other", "nothing", p, run}' GPUSIM_KERNEL_ABI 1
	GPUSIM_KERNELS=$SAXPBY::other.so:$SAXPBY: run bounded gpuctl run -n 1 --kernels "$SAXPBY" -- \
		gpuctl launch --device 0 other n=1
	assert_status 0
	GPUSIM_KERNELS=$T/none.so run bounded gpudev -m 1M --listen "ipc://$T/d"
	assert_status 2
	assert_output "gpudev: GPUSIM_KERNELS: $T/none.so: No such file or directory"
}

@test "a file that is not a kernel file is rejected in one line" {
	refused 2 'none.so: No such file' ./none.so
	refused 5 'not a regular file' "$T"
	mkfifo pipe
	refused 5 'not a regular file' pipe
	echo 'int main' >text
	refused 5 'not a shared object' text
	: >empty
	refused 5 'not a shared object' empty
	refused 5 'no symbol gpusim_kernels' "$BUILD/libgpusim.so"
	head -c 300 "$SAXPBY" >short.so
	refused 5 'damaged or truncated' short.so
	local size
	size=$(stat -c %s "$SAXPBY")
	for part in 2 3 4; do
		head -c $((size / part)) "$SAXPBY" >cut.so
		refused 5 'cut.so: .' cut.so
	done
	echo 'int missing(void); int gpusim_kernels(void) { return missing(); }' >undefined.c
	compiler -o undefined.so undefined.c
	refused 5 'undefined symbol: missing' undefined.so
}

@test "a table that breaks the header's rules is rejected in one line" {
	local good='{"mine", "nothing", p, run}'
	refused_table 'version 2; this device takes version 1' N,END "$good" 2 1
	refused_table '0 kernels: must be 1 to 64' N,END "$good" GPUSIM_KERNEL_ABI 0
	refused_table '100000 kernels: must be 1 to 64' N,END "$good" GPUSIM_KERNEL_ABI 100000
	refused_table 'a kernel named gemm already' N,END '{"gemm", "nothing", p, run}'
	refused_table 'two kernels are named mine' N,END "$good, $good" GPUSIM_KERNEL_ABI 2
	refused_table 'kernel 0 has no valid name' N,END '{0, "nothing", p, run}'
	refused_table 'kernel 0 has no valid name' N,END '{"my kernel", "nothing", p, run}'
	refused_table 'mine: no valid summary' N,END '{"mine", "two\nlines", p, run}'
	refused_table 'mine: no function to run' N,END '{"mine", "nothing", p, 0}'
	refused_table 'mine: no parameters' N,END '{"mine", "nothing", 0, run}'
	refused_table 'mine: no parameters' END "$good"
	refused_table 'mine: two parameters are named n' N,N,END "$good"
	refused_table 'mine: n: 9 is no kind' '{"n", 9, 0, 0, "a count"},END' "$good"
	refused_table 'mine: n: 0.5 is no default' '{"n", GPUSIM_KERNEL_COUNT, 1, 0.5, "a count"},END' "$good"
	refused_table 'mine: n: 2 is no default' '{"n", GPUSIM_KERNEL_FLAG, 1, 2, "a flag"},END' "$good"
	refused_table 'mine: n: no valid help' '{"n", GPUSIM_KERNEL_COUNT, 0, 0, ""},END' "$good"
	local many='' i
	for i in {1..17}; do many+="{\"n$i\", GPUSIM_KERNEL_COUNT, 0, 0, \"a count\"},"; done
	refused_table 'mine: more than 16 parameters' "$many END" "$good"
}

@test "gpuctl run reports once that a file is missing, and fails when a device refuses one" {
	run bounded gpuctl run -n 2 --kernels none.so -- true
	assert_status 2
	assert_output 'gpuctl: run: --kernels: none.so: No such file or directory'
	echo text >text.so
	run bounded gpuctl run -n 1 --kernels text.so -- true
	[[ $status != 0 ]]
	assert_match 'text.so: not a shared object'
	assert_nothing_left
}

@test "a run's message is one line, whatever it contains" {
	cat >loud.c <<-'END'
		#include <gpusim_kernel.h>
		#include <string.h>
		static int run(const struct gpusim_kernel_memory *m, const union gpusim_kernel_value *v,
			       char *why, size_t n)
		{
			(void)m;
			if (v[0].u == 1)
				memset(why, 'x', n);
			else if (v[0].u == 2)
				strcpy(why, "two\nlines");
			return v[0].u == 3 ? GPUSIM_KERNEL_BADDATA : 77;
		}
		static const struct gpusim_kernel_param p[] = {
			{"how", GPUSIM_KERNEL_COUNT, 0, 0, "which"}, {0, GPUSIM_KERNEL_END, 0, 0, 0}};
		static const struct gpusim_kernel k[] = {{"loud", "fails", p, run}};
		const struct gpusim_kernel_table gpusim_kernels = {GPUSIM_KERNEL_ABI, 1, k};
	END
	compiler -o loud.so loud.c
	run bounded gpuctl run -n 1 --kernels ./loud.so -- bash -uc '
		for how in 1 2 3 4; do gpuctl launch --device 0 loud how=$how 2>&1; echo $?; done'
	assert_match 'loud: x{255}'$'\n''1'
	assert_match 'loud: two lines'$'\n''1'
	assert_match 'loud: failed with 5'$'\n''5'
	assert_match 'loud: failed with 77'$'\n''1'
	assert_equal "$(wc -l <<<"$output")" 8
}

@test "the header is C++ as well" {
	needs c++
	cat >plus.cc <<-'END'
		#include <gpusim_kernel.h>
		static int run(const gpusim_kernel_memory *m, const gpusim_kernel_value *v, char *why, size_t n)
		{
			auto *x = static_cast<unsigned char *>(gpusim_kernel_at(m, "x", v[0].u, v[1].u, 1, why, n));
			if (!x)
				return GPUSIM_KERNEL_INVAL;
			for (uint64_t i = 0; i < v[1].u; i++)
				x[i] = static_cast<unsigned char>(x[i] ^ 0x20);
			return GPUSIM_KERNEL_OK;
		}
		static const gpusim_kernel_param p[] = {{"x", GPUSIM_KERNEL_ADDR, 0, 0, "[n] bytes"},
			{"n", GPUSIM_KERNEL_COUNT, 0, 0, "bytes"}, {nullptr, GPUSIM_KERNEL_END, 0, 0, nullptr}};
		static const gpusim_kernel k[] = {{"swapcase", "letters from case to case", p, run}};
		const gpusim_kernel_table gpusim_kernels = {GPUSIM_KERNEL_ABI, 1, k};
	END
	compiler -x c++ -Wall -Wextra -Wpedantic -Werror -fvisibility=hidden -o plus.so plus.cc
	run bounded gpuctl run -n 1 --kernels plus.so -- bash -euc '
		x=$(gpuctl malloc --device 0 5); printf Hallo | gpuctl memcpy - 0:$x
		gpuctl launch --device 0 swapcase x=$x n=5; gpuctl memcpy 0:$x:5 -'
	assert_status 0
	assert_output hALLO
}

respawned() { gpuctl devices | awk -v old="$1" 'NR > 1 && $7 != old && !/lost/ { n++ } END { exit n != 1 }'; }

# A coordinator, a device with kernels in a communicator that respawns, and the device's death.
die_with_kernels() {
	export GPUSIM_COORD=ipc://$T/coord
	ready coord gpucoord --listen "$GPUSIM_COORD"
	ready one gpudev --listen "ipc://$T/one" -m 1M --kernels "$1" --mem-file "$T/one.mem"
	gpuctl comm-init -n 1 --on-failure respawn
	kill -KILL "$PID"
}

@test "a device that is started again has its kernels" {
	cp "$SAXPBY" own.so
	chmod 755 own.so
	die_with_kernels ./own.so
	wait_until 15 respawned "$PID"
	wait_until 15 gpuctl launch --device 0 saxpby y=0x10000 x=0x10000 n=4
	kill_all
}

@test "a device is not started again with kernels that others can write" {
	cp "$SAXPBY" own.so
	chmod 777 own.so
	die_with_kernels ./own.so
	wait_until 15 grep -q "cannot be started again: $T/own.so: .*other users can write to it" coord.log
}
