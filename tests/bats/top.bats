#!/usr/bin/env bats
# gpuctl top: through a terminal of tmux, and as text; gpuctl status --watch.
load helper

setup() {
	house_setup
	printf '%s\n' 1 2 3 4 | while read -r x; do printf "$x %.0s" $(seq 200000) && echo; done >v
	unset TMUX GPUSIM_HTTP
}

teardown() {
	! command -v tmux >/dev/null || mux kill-server 2>/dev/null || true
	kill_all
	house_teardown
}

mux() { tmux -S "$T/tmux" -f /dev/null "$@"; }
screen() { mux capture-pane -p -t top; }
keys() { mux send-keys -t top "$@"; }
shows() { screen | grep -qE -e "$1"; }
# sees REGEX - the screen shows it within some seconds
sees() { wait_until 10 shows "$1" || fail "$(screen)"; }
# row K - the screen's line of device K
row() { screen | grep -E "^ +$1 "; }

# cluster - four devices, until the test ends
cluster() {
	mkfifo go end
	background gpuctl run -n 4 -- sh -c 'echo $GPUSIM_COORD >go; read -r _ <end' 2>run.log
	read -r GPUSIM_COORD <go
	export GPUSIM_COORD
}

# slow_cluster - the same with slow links; a device that is stopped is not lost for a minute
slow_cluster() {
	export GPUSIM_COORD=ipc://$T/c.sock
	ready coord gpucoord --heartbeat 5s --op-timeout 60s
	for k in 0 1 2 3; do
		ready "dev$k" gpudev --ordinal "$k" --listen "ipc://$T/$k.sock" -m 16M --bandwidth 5Mb
	done
}

# opened [SIZE...] - top in a terminal, 80 x 24 by default
opened() {
	needs tmux
	mux new-session -d -s top -x "${1:-80}" -y "${2:-24}" 'trap : INT; stty -a >before; gpuctl top -d 100ms; echo "ended $?"; stty -a >after; exec cat' 3>&-
	sees '^DEV +RANK +STATE'
}

pid_of() { gpuctl devices | awk -v k="$1" '$1 == k { print $7 }'; }
pending() { gpuctl status --json | grep -q '"pending":1'; }
lost_2() { gpuctl events | grep -q 'lost  *device [0-9a-f]* (gpu 2)'; }
# in_step K - the device is in the middle of an operation
in_step() { gpuctl top --once -d 1ms | grep -qE "^ +$1 .* [#-]*[1-9][0-9]*/[0-9]+[0-9:%]* .*allreduce"; }

# stop_rank_2 - in an all-reduce that takes long
stop_rank_2() {
	background gpuctl allreduce --type i32 --algo ring <v >sum 2>sum.err
	wait_until 10 in_step 2
	STOPPED=$(pid_of 2)
	kill -STOP "$STOPPED"
}

@test "top in 80 x 24: all wait for the stopped rank; keys sort, filter, freeze; the terminal is as it was" {
	slow_cluster
	opened
	sees '^4 devices: 4 free; 0 communicators  every 0.1 s'
	stop_rank_2
	sees '^  2 +1:2 stopped +allreduce #0 781K r.* [#-]+ [0-9]+/[0-9]+ .*<-'
	sees "^[1-3] waits? [0-9.]+ s for rank 1:2 \(device [0-9a-f]{16}, pid $STOPPED\): stopped in step"
	sees '^ +1 +4 +1 in-progress abort .* 2 -$'
	(($(screen | wc -L) <= 80))
	# The third row is the first device; the order is by index.
	assert_equal "$(screen | sed -n '4,7s/^ *\([0-9]\).*/\1/p' | xargs)" '0 1 2 3'
	keys r
	sees 'sort: DEV!'
	assert_equal "$(screen | sed -n '4,7s/^ *\([0-9]\).*/\1/p' | xargs)" '3 2 1 0'
	keys '>' '>'
	sees 'sort: STATE!'
	keys / s t o p Enter
	sees '/ filter: stop'
	assert_equal "$(screen | grep -cE '^ +[0-9] +1:')" 1
	keys / Escape f
	sees '^FROZEN  4 devices'
	kill -CONT "$STOPPED"
	kill -KILL "$STOPPED"
	wait_until 10 lost_2
	shows '2 +1:2 stopped'
	keys f
	sees '^  2 .*lost +its connection broke'
	keys '?'
	sees 'show or hide this help'
	keys h +
	sees 'every 0.2 s'
	keys q
	sees '^ended 0$'
	not shows 'DEV +RANK'
	wait_until 5 test -s after
	cmp before after
}

@test "top: a wide terminal shows more, a small one less; a size that changes is drawn at once" {
	cluster
	opened 140 30
	sees 'OPERATION +STEP.*OPS/s +PID +ID'
	mux resize-window -t top -x 60 -y 10
	sees '^q quit  h help'
	not shows PID
	mux resize-window -t top -x 60 -y 7
	sees '^1-3 of 4 devices  q quit'
	keys Down
	sees '^2-4 of 4 devices  q quit'
	mux resize-window -t top -x 20 -y 4
	sees '^q quit'
	mux resize-window -t top -x 80 -y 24
	sees ' WAITS *$'
	sees '^  3 +- free'
}

@test "top: a signal restores the terminal; the coordinator's end is reported" {
	cluster
	opened
	sees '4 free'
	kill -KILL "$(gpuctl status | sed -n 's/.*pid \([0-9]*\),.*/\1/p')"
	sees '^.*no coordinator at|^.*coord.sock: '
	shows '^  3 +- free'
	keys C-c
	sees '^ended 130$'
	wait_until 5 test -s after
	cmp before after
}

@test "top --batch: columns of words, n tables; --once" {
	slow_cluster
	gpuctl top -n 2 -d 10ms >two
	assert_equal "$(grep -c '^DEV  RANK STATE' two)" 2
	assert_equal "$(sed -n 4p two | xargs)" 'DEV RANK STATE STEP IN/s OUT/s MEM BUSY WAITS OPS/s PID ID OPERATION'
	assert_equal "$(grep -cE '^  [0-3] +- free +- +- +- +- +0% - +0.0 +[0-9]+ [0-9a-f]{16} -$' two)" 8
	stop_rank_2
	told() { gpuctl top --once >once && sed -n 2p once | grep -q 'for rank 1:2 (device '; }
	wait_until 10 told
	assert_equal "$(awk '$1 == 2 && $2 == "1:2" { print $3, $11, $13, $14 }' once)" "stopped $STOPPED allreduce #0"
	assert_equal "$(awk '$1 == 1 && $2 == 4 { print $4, $9 }' once)" 'in-progress 2'
	kill -CONT "$STOPPED"
	kill -KILL "$STOPPED"
	wait_until 10 lost_2
	gpuctl top --once >once
	grep -qE '^  2 .* lost .* its connection broke' once || fail "$(cat once)"
}

@test "top: rates of a device that works" {
	cluster
	background gpuctl bench allreduce -n 2 -b 1M -e 1M --iters 100000
	works() { gpuctl top -n 1 -d 50ms | awk '$2 ~ /:/ && $8 + 0 > 0 && $10 + 0 > 0' | wc -l | grep -qx 2; }
	wait_until 10 works
}

@test "top: over a slow link, the rate and the percentage of a step under way" {
	slow_cluster
	background gpuctl allreduce --type i32 --algo ring <v >sum 2>sum.err
	under_way() { gpuctl top --once -d 100ms | awk '$4 ~ "^[0-9]+/[0-9]+:[0-9]+%$" && $5 ~ /^[4-7][0-9][0-9]K$/ && $6 ~ /^[4-7][0-9][0-9]K$/' | grep -q .; }
	wait_until 10 under_way
}

@test "top without a cluster, a terminal or a known one is one line" {
	run bounded gpuctl --coordinator "ipc://$T/none" top
	assert_status 3
	assert_equal "${#lines[@]}" 1
	assert_match "^gpuctl: top: .*ipc://$T/none"
	cluster
	run bounded gpuctl top
	assert_status 2
	assert_output 'gpuctl: top: standard input and output must be a terminal; --batch prints text'
	terminal() { TERM=$1 LIMIT=2 bounded script -qec 'gpuctl top' /dev/null </dev/null | tr -d '\r'; }
	needs script
	run terminal nothing
	assert_output "gpuctl: top: TERM: unknown terminal 'nothing'; --batch needs no terminal"
	run terminal dumb
	assert_output "gpuctl: top: TERM: terminal 'dumb' cannot move its cursor; --batch needs no terminal"
	run terminal ''
	assert_output "gpuctl: top: TERM: not set; --batch needs no terminal"
}

@test "status --watch: again when something happens, and each interval" {
	cluster
	background gpuctl status --watch --interval 60s >seen
	wait_until 10 grep -q '^4 devices' seen
	kill -KILL "$(pid_of 3)"
	wait_until 10 grep -q 'lost at .*: killed by signal 9' seen
	assert_equal "$(grep -c $'\033' seen)" 0
	background gpuctl status --watch --interval 1ms --json >fast
	wait_until 10 eval 'test "$(wc -l <fast)" -gt 3'
	assert_equal "$(sed -n 2p fast | cut -c 1-11)" '{"version":'
}

@test "status --watch: a device is lost, and then its parent tells why" {
	cluster
	background gpuctl status --watch --interval 60s >seen
	wait_until 10 grep -q '^4 devices' seen
	pid=$(pid_of 3)
	parent=$(ps -o ppid= -p "$pid" | tr -d ' ')
	kill -STOP "$parent"
	kill -KILL "$pid"
	wait_until 10 grep -q 'lost at .*: its connection broke' seen
	kill -CONT "$parent"
	wait_until 10 grep -q 'lost at .*: killed by signal 9' seen
	run gpuctl events
	assert_match ' ended  *device [0-9a-f]{16} [(]gpu 3[)] ended: killed by signal 9$'
}
