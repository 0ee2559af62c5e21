# gpuctl run: the launcher. Most tests use the programs of $BUILD; those about daemons that
# misbehave (and all, while there are no daemons in $BUILD) use fixtures/fake-daemon.
# shellcheck disable=SC2016,SC2030,SC2031
load helper

setup() {
	house_setup
	mkfifo never leave
	cp "$(command -v sleep)" idle # processes that assert_nothing_left recognises
	[[ -x $BUILD/bin/gpudev ]] || fake_daemons
}

# fake_daemons [NAME=MODE...] - let gpuctl find the fakes beside itself
fake_daemons() {
	mkdir -p bin
	ln -f "$BUILD/bin/gpuctl" bin/gpuctl 2>/dev/null || cp "$BUILD/bin/gpuctl" bin/gpuctl
	cp "$BATS_TEST_DIRNAME/fixtures/fake-daemon" bin/gpudev
	cp "$BATS_TEST_DIRNAME/fixtures/fake-daemon" bin/gpucoord
	export FAKE="$*"
	PATH=$T/bin:$PATH
}

gpurun() { bounded gpuctl run "$@"; }

# started ARGS... - `gpuctl run ARGS` in the background until its command has written `where`, which
# says the private folder and the pids. Sets FRONT KEEPER GUARDIAN COMMAND DIR.
started() {
	background gpuctl run "$@"
	wait_until 15 test -s where
	read -r DIR COMMAND GUARDIAN <where
	FRONT=$PID
	KEEPER=$(ps -o ppid= -p "$GUARDIAN" | tr -d ' ')
	assert_file "$DIR/coord.sock"
	assert_file "/dev/shm/gpusim-$(id -u)-$KEEPER-0"
}

# A command that says where it is, leaves an orphan behind, and waits.
TELL='echo $GPUSIM_DIR $$ $PPID >where.new; mv where.new where'
WAITING='(setsid "$T/idle" 1001 & ) ; ('"$TELL"') ; exec "$T/idle" 1000'

assert_cleaned() {
	wait_until 10 gone "$FRONT" "$KEEPER" "$GUARDIAN" "$COMMAND"
	wait_until 10 not pgrep -f "$T/"
	wait_until 10 test ! -e "$DIR"
	assert_nothing_left
	assert_no_memory "$KEEPER"
}

assert_no_memory() {
	refute_file "$(echo "/dev/shm/gpusim-$(id -u)-$1"-*)"
}

@test "the exit status is the command's" {
	run gpurun -n 1 -- true
	assert_status 0
	assert_output ''
	run gpurun -n 1 -- sh -c 'exit 3'
	assert_status 3
	assert_output ''
}

@test "a command killed by signal 9 gives 137" {
	run gpurun -n 1 -- sh -c 'kill -9 $$'
	assert_status 137
}

@test "a command that is not found gives 127, one not executable 126, each one line" {
	run -127 gpurun -n 1 -- ./no-such-command
	assert_status 127
	assert_output 'gpuctl: run: ./no-such-command: No such file or directory'
	: >plain
	run gpurun -n 1 -- ./plain
	assert_status 126
	assert_output 'gpuctl: run: ./plain: Permission denied'
}

@test "the command finds the coordinator in its environment" {
	run gpurun -n 3 -- sh -c 'echo "$GPUSIM_COORD|$GPUSIM_NDEVICES|$GPUSIM_DIR|${PATH%%:*}"
		stat -c %a "$GPUSIM_DIR"; ls "$GPUSIM_DIR" | grep -c "sock\$"'
	assert_status 0
	bin=$(dirname "$(readlink -f "$(command -v gpuctl)")")
	assert_match "^ipc://($T/gpusim\.[^/]*)/coord\.sock\|3\|($T/gpusim\.[^/]*)\|$bin"$'\n700\n4$'
	assert_equal "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
	assert_nothing_left
}

@test "TMPDIR and XDG_RUNTIME_DIR with a blank: sockets lie elsewhere, and all works" {
	mkdir "$T/a b"
	export TMPDIR="$T/a b" XDG_RUNTIME_DIR="$T/a b"
	seq 2 >in
	run gpurun -n 2 -- sh -c 'gpuctl allreduce <in; echo "$GPUSIM_DIR"'
	assert_status 0
	assert_match $'^3\n/tmp/gpusim\\.[A-Za-z0-9]*$'
	run bounded mnist-train --data "$ROOT/examples/data/iris.csv" --epochs 1 --devices 2 --sync ps
	assert_status 0
	run bounded mnist-train --data "$ROOT/examples/data/iris.csv" --epochs 1 --compare allreduce,ps --workers 1
	assert_status 0
	assert_equal "$(ls -A "$T/a b")" ''
	run gpuctl devices
	assert_status 3
	assert_match 'no coordinator at ipc:///tmp/gpusim-[0-9]*/gpucoord.sock'
}

@test "the private folder: XDG_RUNTIME_DIR first, /tmp when the path would be too long" {
	mkdir runtime
	XDG_RUNTIME_DIR=$T/runtime run gpurun -n 1 -- sh -c 'echo $GPUSIM_DIR'
	assert_match "^$T/runtime/gpusim\.......\$"
	long=$T/$(printf '%080d' 0)
	mkdir "$long"
	XDG_RUNTIME_DIR='' TMPDIR=$long run gpurun -n 1 -- sh -c 'echo $GPUSIM_DIR'
	assert_status 0
	assert_match '^/tmp/gpusim\.......$'
	refute_file "$output"
}

@test "10 MB pass unchanged from stdin to stdout" {
	head -c 10000000 /dev/urandom >in
	gpurun -n 1 -- cat <in | cat >out
	cmp in out
}

@test "a reader that stops early ends the pipe" {
	bounded bash -c 'yes | gpuctl run -n 1 -- head -1' >out
	assert_equal "$(cat out)" y
	assert_nothing_left
}

@test "a reader sees the end when the command closes its stdout, not when it exits" {
	bounded bash -c '
		gpuctl run -n 1 -- sh -c "echo y; exec >&-; until [ -e stop ]; do :; done" |
			{ cat; : >stop; }' >out
	assert_equal "$(cat out)" y
}

@test "a file a command leaves in the private folder goes, what a link there points to stays" {
	mkdir -p keep/deep
	run gpurun -n 1 -- sh -c 'mkdir -p "$GPUSIM_DIR/a/b"; echo >"$GPUSIM_DIR/a/b/c"
		ln -s "$T/keep" "$GPUSIM_DIR/a/link"; echo $GPUSIM_DIR'
	assert_status 0
	refute_file "$output"
	assert_file keep/deep
}

@test "the command keeps the user's descriptors and gets none of the launcher's" {
	gpurun -n 2 -- sh -c 'cd /proc/$$/fd && echo [0-9]*' >alone 8<&-
	bounded sh -c 'cd /proc/$$/fd && echo [0-9]*' >expected 8<&-
	assert_equal "$(cat alone)" "$(cat expected)"
	echo hello >eight
	run gpurun -n 1 -- sh -c 'cat <&8' 8<eight
	assert_output hello
	# with stdin closed the launcher's own pipes must not take its number
	gpurun -n 1 -- sh -c 'test ! -e /proc/$$/fd/0' <&-
}

@test "daemons have stdin /dev/null and only their pipes" {
	local fds
	fake_daemons
	run gpurun -n 2 -- true 8</dev/null
	assert_status 0
	for d in gpucoord gpudev0 gpudev1; do
		# 10 is the shell's own: its script
		fds='0 1 2 3 4'
		[[ $d != gpucoord ]] || fds+=' 5' # how devices have ended
		assert_equal "$(sed 's/ 10\>//' "seen/$d.fds")" "$fds"
		assert_equal "$(cat "seen/$d.stdin")" /dev/null
		assert_equal "$(cat "seen/$d.end")" TERM
	done
}

@test "daemons get their addresses, memory and extra arguments" {
	fake_daemons
	run gpurun -n 2 --mem 64M -- sh -c 'echo $GPUSIM_DIR'
	assert_status 0
	assert_equal "$(cat seen/gpucoord.args)" "--listen ipc://$output/coord.sock -N 3 --lifeline 4 --exits 5"
	got=$(sed 's/-[0-9]*-1 /-KEEPER-1 /' seen/gpudev1.args)
	assert_equal "$got" "--listen ipc://$output/dev1.sock --coordinator ipc://$output/coord.sock \
--ordinal 1 --mem-scratch /dev/shm/gpusim-$(id -u)-KEEPER-1 -m 67108864 -N 3 --lifeline 4"
}

@test "signals a caller ignores stay ignored, others are default" {
	run -0 bounded sh -c 'trap "" HUP; gpuctl run -n 1 -- grep SigIgn /proc/self/status'
	assert_match '[13579bdf]$'
	run gpurun -n 1 -- grep SigBlk /proc/self/status
	assert_match '0000000000000000$'
}

@test "a daemon that dies before it is ready: its number, exit 1, nothing left" {
	fake_daemons gpudev2=die
	run gpurun -n 4 -- touch ran
	assert_status 1
	assert_match '^gpudev2: cannot do it'$'\n''gpuctl: run: gpudev 2 did not start \(exit 3\)$'
	refute_file ran
	assert_nothing_left
}

@test "a daemon that closes its readiness descriptor without a newline has not started" {
	fake_daemons gpucoord=mute
	run gpurun -n 1 -- touch ran
	assert_status 1
	assert_output 'gpuctl: run: gpucoord did not start (still running, but not ready)'
	refute_file ran
	assert_nothing_left
}

@test "a daemon that never gets ready: exit 4 within the start timeout" {
	fake_daemons gpucoord=hang gpudev0=hang gpudev1=hang gpudev2=hang
	run gpurun -n 3 --start-timeout 300ms -- touch ran
	assert_status 4
	assert_output 'gpuctl: run: gpucoord and 3 more: not ready within 0.3 s'
	refute_file ran
	fake_daemons gpudev1=hang gpudev2=hang
	run gpurun -n 3 --start-timeout 3s -- touch ran
	assert_status 4
	assert_output 'gpuctl: run: gpudev 1 and 1 more: not ready within 3.0 s'
	refute_file ran
	assert_nothing_left
}

@test "a daemon that is not installed: named, exit 1" {
	fake_daemons
	rm bin/gpudev
	PATH=$T/bin:/usr/bin:/bin run gpurun -n 1 -- touch ran
	assert_status 1
	assert_output 'gpuctl: run: gpudev: No such file or directory
gpuctl: run: gpudev 0 did not start (exit 127)'
	refute_file ran
}

@test "a daemon that dies while the command runs is reported, the command continues" {
	fake_daemons gpudev0=leave
	run gpurun -n 2 -- sh -c 'kill -9 $(cat seen/gpudev1.pid); echo >leave
		while kill -0 $(cat seen/gpudev1.pid) || kill -0 $(cat seen/gpudev0.pid)
		do :; done 2>/dev/null; echo on; exit 7'
	assert_status 7
	assert_match 'gpuctl: run: gpudev 1 \(pid [0-9]+\) killed by signal 9'
	assert_match 'gpuctl: run: gpudev 0 \(pid [0-9]+\) ended with exit status 5'
	assert_match '(^|'$'\n'')on($|'$'\n'')'
	assert_nothing_left
}

@test "a daemon deaf to SIGTERM is killed, and its socket and memory file go" {
	fake_daemons gpudev0=stubborn
	run gpurun -n 2 -- sh -c 'ps -o ppid= -p $PPID'
	assert_status 0
	assert_nothing_left
	refute_file seen/gpudev0.end
	assert_no_memory "${output// /}"
}

@test "what the command leaves in the background is left alone" {
	run gpurun -n 1 -- sh -c '"$T/idle" 1000 >/dev/null 2>&1 & echo $!'
	assert_status 0
	kill "$output"
	assert_nothing_left
}

@test "^C to the group reaches the command; the launcher waits for it" {
	started -n 2 -- bash -c 'trap "echo caught >got; exit 9" INT; ('"$TELL"'); while :; do
		read -r -t 1 _ <> <(:); done'
	kill -INT -- "-$FRONT"
	wait "$FRONT" && st=0 || st=$?
	assert_equal "$st" 9
	assert_equal "$(cat got)" caught
	assert_cleaned
}

@test "^C ends a command that does not catch it: 130" {
	started -n 1 -- sh -c "$TELL; exec \$T/idle 1000"
	kill -INT -- "-$FRONT"
	wait "$FRONT" && st=0 || st=$?
	assert_equal "$st" 130
	assert_cleaned
}

@test "^C typed at a terminal arrives once, SIGQUIT to the launcher is handed on after it" {
	cat >catcher <<'END'
trap 'echo got >>got' INT
trap 'echo quit >>got; exit 12' QUIT
echo $GPUSIM_DIR $$ $PPID >where.new; mv where.new where
while :; do read -r -t 1 _ <> <(:); done
END
	mkfifo keys
	exec 9<>keys
	background script -qec "exec gpuctl run -n 1 -- bash '$T/catcher'" log <keys >/dev/null
	wait_until 15 test -s where
	read -r DIR COMMAND GUARDIAN <where
	KEEPER=$(ps -o ppid= -p "$GUARDIAN" | tr -d ' ')
	FRONT=$(ps -o ppid= -p "$KEEPER" | tr -d ' ')
	printf '\003' >&9
	wait_until 5 test -s got
	kill -QUIT "$FRONT"
	wait "$PID" && st=0 || st=$?
	exec 9>&-
	assert_equal "$st" 12
	assert_equal "$(cat got)" got$'\n'quit
	assert_cleaned
}

@test "^C during the start: 130 and nothing left" {
	fake_daemons gpudev0=hang
	background gpuctl run -n 1 -- touch ran
	wait_until 10 test -s seen/gpudev0.pid
	kill -INT -- "-$PID"
	wait "$PID" && st=0 || st=$?
	assert_equal "$st" 130
	refute_file ran
	assert_nothing_left
}

@test "SIGTERM to the launcher ends the command and its orphans: 143" {
	started -n 2 -- sh -c "$WAITING"
	kill -TERM "$FRONT"
	wait "$FRONT" && st=0 || st=$?
	assert_equal "$st" 143
	assert_cleaned
}

@test "SIGTERM is handed on: a command that catches it chooses the status" {
	started -n 1 -- bash -c 'trap "exit 11" TERM; ('"$TELL"'); while :; do
		read -r -t 1 _ <> <(:); done'
	kill -TERM "$FRONT"
	wait "$FRONT" && st=0 || st=$?
	assert_equal "$st" 11
	assert_cleaned
}

@test "a command deaf to SIGHUP is killed after the grace" {
	started -n 1 -- sh -c "trap '' HUP; $WAITING"
	kill -HUP "$FRONT"
	wait "$FRONT" && st=0 || st=$?
	assert_equal "$st" 137
	assert_cleaned
}

@test "kill -9 of the launcher leaves nothing" {
	started -n 2 -- sh -c "$WAITING"
	kill -KILL "$FRONT"
	assert_cleaned
}

@test "kill -9 of the keeper leaves nothing" {
	started -n 2 -- sh -c "$WAITING"
	kill -KILL "$KEEPER"
	wait "$FRONT" && st=0 || st=$?
	assert_equal "$st" 137
	assert_cleaned
}

@test "kill -9 of the guardian leaves nothing" {
	started -n 2 -- sh -c "$WAITING"
	kill -KILL "$GUARDIAN"
	wait "$FRONT" && st=0 || st=$?
	assert_equal "$st" 137
	assert_cleaned
}

@test "kill -9 of any two of the three, and of the whole group, leaves nothing" {
	for who in 'FRONT KEEPER' 'FRONT GUARDIAN' GROUP; do
		rm -f where
		started -n 2 -- sh -c "$WAITING"
		case $who in
		'FRONT KEEPER') kill -KILL "$FRONT" "$KEEPER" ;;
		'FRONT GUARDIAN') kill -KILL "$FRONT" "$GUARDIAN" ;;
		GROUP) kill -KILL -- "-$FRONT" ;;
		esac
		assert_cleaned
	done
}

@test "kill -9 of keeper and guardian: the launcher removes the files, no daemon stays" {
	started -n 2 -- sh -c "$TELL; exec \$T/idle 1000"
	kill -KILL "$KEEPER" "$GUARDIAN"
	wait "$FRONT" && st=0 || st=$?
	assert_equal "$st" 137
	assert_cleaned
}

@test "kill -9 of all three: no command, daemon, socket or memory stays" {
	started -n 2 -- sh -c "$TELL; exec \$T/idle 1000"
	kill -KILL "$FRONT" "$KEEPER" "$GUARDIAN"
	wait_until 10 not pgrep -f "$T/"
	refute_file "$(echo "$DIR"/*.sock)"
	assert_no_memory "$KEEPER"
}

@test "kill -9 of all at once: the next launch removes the folder and the memory, and no other's" {
	started -n 1 -- sh -c "$TELL; exec \$T/idle 1000"
	left=$DIR keeper=$KEEPER
	kill -KILL "$FRONT" "$KEEPER" "$GUARDIAN" "$COMMAND" $(pgrep -P "$GUARDIAN")
	wait_until 10 not pgrep -f "$T/"
	assert_file "$left/owner"
	wait_until 10 flock -n "$left/owner" true # a process that ends has no command line before it has no files
	rm where
	started -n 1 -- sh -c "$WAITING"
	refute_file "$left"
	assert_no_memory "$keeper"
	run gpurun -n 1 -- true
	assert_status 0
	assert_file "$DIR/coord.sock" # it lives
	kill -KILL "$FRONT"
	assert_cleaned
}

@test "daemons end at the lifeline's EOF even without a signal" {
	fake_daemons
	started -n 1 -- sh -c "$TELL; exec \$T/idle 1000"
	daemon=$(cat seen/gpudev0.pid)
	assert_equal "$(ps -o pgid= -p "$daemon" | tr -d ' ')" "$daemon"
	kill -KILL "$GUARDIAN"
	wait_until 10 gone "$daemon"
	assert_file seen/gpudev0.end
}

# cpus_of [run options] - the CPUs each device may use, a line each, in order of devices
cpus_of() {
	gpurun "$@" -- sh -c 'gpuctl devices | awk "NR > 1 { print \$(NF - 1) }" | while read -r pid; do
		sed -n "s/^Cpus_allowed_list:\s*//p" /proc/$pid/status; done'
}

@test "--pin auto: a CPU for each device where there are enough; else, and with none, the caller's" {
	all=$(taskset -pc $$ | sed 's/.*: //')
	cpus=$(awk -v l="$all" 'BEGIN { n = split(l, r, ","); for (i = 1; i <= n; i++) {
		split(r[i] "-" r[i], e, "-"); for (c = e[1]; c <= e[2]; c++) print c } }' | head -2)
	[[ $(wc -l <<<"$cpus") == 2 ]] || skip 'one CPU'
	pair=$(paste -sd, <<<"$cpus") first=$(head -1 <<<"$cpus")
	taskset -pc "$pair" $BASHPID >/dev/null
	both=$(sed -n 's/^Cpus_allowed_list:\s*//p' /proc/self/status)
	assert_equal "$(cpus_of -n 2 --pin auto)" "$cpus"
	assert_equal "$(cpus_of -n 1 --pin auto)" "$first"
	assert_equal "$(cpus_of -n 2 --pin none)" "$both"$'\n'"$both"
	assert_equal "$(cpus_of -n 1)" "$both"
	assert_equal "$(cpus_of -n 2 --pin auto --threads 2)" "$both"$'\n'"$both"
	assert_equal "$(cpus_of -n 3 --pin auto)" "$both"$'\n'"$both"$'\n'"$both"
	background gpudev -m 1M --listen "ipc://$T/dev" --pin "$first" -N 4 4>ready
	wait_until 10 test -s ready
	assert_equal "$(sed -n 's/^Cpus_allowed_list:\s*//p' "/proc/$PID/status")" "$first"
	kill "$PID"
	wait_until 5 gone "$PID"
	run --separate-stderr bounded gpudev -m 1M --pin 1023 -N 1 </dev/null
	assert_status 1
	[[ $stderr == 'gpudev: cannot pin to CPU 1023: '* ]] || fail "$stderr"
	for bad in x -1 1024 ''; do
		run --separate-stderr bounded gpudev -m 1M --pin "$bad" -N 1 </dev/null
		assert_status 2
		[[ $stderr == 'gpudev: --pin: '* ]] || fail "$stderr"
	done
	run --separate-stderr gpurun -n 1 --pin 0 -- true
	assert_status 2
	[[ $stderr == "gpuctl: run: --pin: '0': must be one of auto, none" ]] || fail "$stderr"
}

@test "--spares: more devices, which do not count in the command's number of devices" {
	fake_daemons
	run gpurun -n 2 --spares 1 -- sh -c 'echo $GPUSIM_NDEVICES'
	assert_status 0
	assert_output 2
	grep -q -- '--ordinal 2 .*--spare' seen/gpudev2.args
	not grep -q -- --spare seen/gpudev1.args
	refute_file seen/gpudev3.args
	run gpurun -n 1000 --spares 25 -- true
	assert_status 2
	assert_output 'gpuctl: run: --spares: 25 spares and 1000 devices exceed the limit of 1024'
}

@test "a device with its socket in the private folder ends with the others, whoever started it" {
	[[ -x $BUILD/bin/gpudev ]]
	run gpurun -n 1 -- sh -c 'setsid gpudev --listen ipc://$GPUSIM_DIR/dev9.sock --ordinal 9 -m 1M 3>&- &
		until gpuctl devices | grep -q dev9; do :; done; pgrep -f dev9.sock >pid'
	assert_status 0
	gone "$(cat pid)"
	assert_nothing_left
}

@test "192 devices, one sum over all of them, and nobody is lost" {
	seq 192 >numbers
	LIMIT=60 run bounded gpuctl run -n 192 --mem 1M --start-timeout 60s -- sh -c '
		gpuctl --timeout 60s allreduce <numbers; gpuctl devices | grep -c free'
	assert_status 0
	assert_output $'18528\n192'
}
