# helper.bash - loaded by every .bats file:   load helper
#
# Each test gets its own folder $T (also its working directory and TMPDIR), the programs of $BUILD
# (default: build) in front of PATH, and a teardown that kills what `background` started and removes
# $T. A file with a setup of its own calls house_setup first; the same for teardown.
# shellcheck shell=bash disable=SC2154

bats_require_minimum_version 1.5.0

# Seconds in the tests are those of an idle machine. A test waits at most PATIENCE times as long for something that must
# happen, and no longer than it takes.
export PATIENCE=${PATIENCE:-5}
export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-$((60 * PATIENCE))} # where bats knows it

# Where a test picks at random it begins with RANDOM=$CHANCE and prints that: CHANCE=1234 bats ... picks the same again.
export CHANCE=${CHANCE:-$RANDOM}

house_setup() {
	ROOT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	BUILD=${BUILD:-build}
	case $BUILD in /*) ;; *) BUILD=$ROOT/$BUILD ;; esac
	T=$(mktemp -d /tmp/gs.XXXXXX) # short: socket paths end at 107 bytes
	BACKGROUND=()
	exec {TICK}<> <(:) # a descriptor that never has anything to read
	export ROOT BUILD T
	export PATH=$BUILD/bin:$PATH TMPDIR=$T
	export XDG_RUNTIME_DIR=$T # nobody else's coordinator
	export XDG_STATE_HOME=$T/state # reports of failures stay in it
	unset GPUSIM_COORD GPUSIM_NDEVICES GPUSIM_DIR GPUSIM_DEBUG GPUSIM_DEBUG_SUBSYS GPUSIM_DEBUG_FILE
	unset GPUSIM_ALGO GPUSIM_TUNER_CONFIG_FILE
	cd "$T" || return
}

house_teardown() {
	local pid
	for pid in "${BACKGROUND[@]}"; do
		kill -KILL -- "-$pid" "$pid" 2>/dev/null || true # its process group too
	done
	exec {TICK}>&-
	cd / && rm -rf "$T"
}

# Also processes without `background`: devices that were started again.
kill_all() {
	local pid
	for pid in $(pgrep -f "$T/"); do
		kill -KILL "$pid" 2>/dev/null || true
	done
}

setup() { house_setup; }
teardown() { house_teardown; }

# bounded CMD... - run for at most $LIMIT (default 20) seconds times PATIENCE; 124 when the time is over. Like the daemons
# it must not hold the descriptors that bats waits on.
bounded() { timeout -k 2 $((${LIMIT:-20} * PATIENCE)) "$@" 3>&-; }

# background CMD... - start CMD, as a shell's & does but with default signals, and in a session and
# process group of its own so that `kill -- -$PID` hits it alone. Sets PID; the group is ended at teardown.
background() {
	env --default-signal setsid "$@" <&0 3>&- & # without <&0 the shell gives it /dev/null
	PID=$!
	BACKGROUND+=("$PID")
}

# ready NAME CMD... - start the daemon CMD in the background, and wait until it is ready. Its messages go to NAME.log.
ready() {
	local fd
	rm -f "$1.ready"
	mkfifo "$1.ready"
	exec {fd}<>"$1.ready"
	background "${@:2}" -N 9 9>&"$fd" 2>>"$1.log"
	read -r -t $((20 * PATIENCE)) -u "$fd" _ || fail "$1: $(cat "$1.log")"
	exec {fd}>&-
}

# wait_until SECONDS CMD... - repeat CMD until it succeeds; fails after SECONDS times PATIENCE.
wait_until() {
	local _ end=$((SECONDS + $1 * PATIENCE + 1))
	shift
	until "$@" >/dev/null 2>&1; do
		if ((SECONDS >= end)); then
			echo "waited in vain for: $*" >&2
			return 1
		fi
		read -r -t 0.02 -u "$TICK" _ || true
	done
}

# gone PID... - none of them exists. A zombie does not count, unless threads of it have not ended: they hold its sockets
gone() {
	local pid
	for pid; do
		case $(ps -o stat= -p "$pid") in *l*) return 1 ;; '' | Z*) ;; *) return 1 ;; esac
	done
}

not() { ! "$@"; }

# needs TOOL... - skip the test where one of them is not installed, and name it: ./setup installs none of those that
# only some tests want
needs() {
	local tool
	for tool; do
		command -v "$tool" >/dev/null || skip "needs $tool (./setup --dev)"
	done
}

# namespaces - skip the test where no networks of its own can be made
namespaces() {
	needs ip
	unshare -n ip link add gs0 type veth peer name gs1 2>/dev/null ||
		skip 'no right to make network namespaces, or no veth'
}

# namespace - a network namespace that lives as long as its process. Sets PID.
namespace() {
	background unshare -n sleep infinity
	wait_until 10 apart_from_us "$PID"
	nsenter -t "$PID" -n ip link set lo up
}

apart_from_us() { [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }

# sanitizers - sets SANITIZE to the compiler's options without which nothing goes with what is in BUILD
sanitizers() {
	local symbols
	symbols=$(nm "$BUILD/libgpusim.a")
	SANITIZE=()
	[[ $symbols != *__asan_* ]] || SANITIZE+=('-fsanitize=address,undefined')
	[[ $symbols != *__tsan_* ]] || SANITIZE+=(-fsanitize=thread)
}

# compile ARG... - with the compiler of the build, which may be "ccache gcc"
compile() {
	local compiler
	read -ra compiler <<<"${CC:-cc}"
	command "${compiler[@]}" "$@"
}

# Assertions. They print the expected and the real value.
fail() {
	echo "$*" >&2
	return 1
}

# after `run`: assert_status N; assert_output TEXT (all of it); assert_match REGEX (a part of it)
assert_status() {
	((status == $1)) || fail "expected exit status $1, got $status; output: $output"
}

assert_output() {
	[[ $output == "$1" ]] || fail "expected output: $1"$'\n'"got: $output"
}

assert_match() {
	[[ $output =~ $1 ]] || fail "expected output to match: $1"$'\n'"got: $output"
}

assert_equal() {
	[[ $1 == "$2" ]] || fail "expected: $2"$'\n'"got: $1"
}

# Numbers, that may be fractions; what is empty is neither. close_to A B DIFFERENCE
at_least() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a >= b) }' || fail "$1 is below $2"; }

close_to() {
	awk -v a="$1" -v b="$2" -v d="$3" 'BEGIN { exit !(a != "" && b != "" && a - b <= d && b - a <= d) }' ||
		fail "$1 and $2 differ by more than $3"
}

assert_file() {
	[[ -e $1 ]] || fail "expected to exist: $1"
}

refute_file() {
	[[ ! -e $1 ]] || fail "expected not to exist: $1 ($(ls -ld "$1"))"
}

# No process whose arguments name a file of this test, no private folder of a launcher.
assert_nothing_left() {
	wait_until 5 not pgrep -f "$T/" || fail "still running: $(pgrep -af "$T/")"
	refute_file "$(echo "$T"/gpusim.*)"
}
