# The coordinator is killed and restarted: it continues where it was, for devices and clients alike.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154
load helper

setup() {
	house_setup
	export GPUSIM_COORD=ipc://$T/c.sock
	LIMIT=40
	COORD='' DEVICES=()
}

teardown() {
	kill_all
	house_teardown
}

answers() { gpuctl status; }

# coordinator OPTION... - start it, and wait until it answers
coordinator() {
	background gpucoord -v "$@" 2>>coord.log
	COORD=$PID
	wait_until 10 answers || fail "$(cat coord.log)"
}

killed() {
	kill -KILL "$COORD"
	wait_until 5 gone "$COORD"
}

n_devices() { [[ $(gpuctl devices | grep -c "$T") == "$1" ]]; }

# devices N OPTION... - start N devices, and wait for them
devices() {
	local i
	for ((i = 0; i < $1; i++)); do
		background gpudev --id $((i + 1)) --ordinal $i --listen "ipc://$T/$i.sock" --mem 64M \
			--mem-scratch "$T/mem$i" "${@:2}"
		DEVICES+=("$PID")
	done
	wait_until 10 n_devices "$1"
}

# fill VALUE COUNT - COUNT u64
fill() { perl -e 'print pack("Q<", $ARGV[0]) x $ARGV[1]' "$1" "$2"; }

# buffers COMM N COUNT - a buffer a rank, 2**r everywhere. Sets A and ADDRS.
buffers() {
	local r
	A=()
	for ((r = 0; r < $2; r++)); do
		A[r]=$(gpuctl malloc --comm "$1" --rank "$r" $((8 * $3)))
		fill $((1 << r)) "$3" | gpuctl memcpy --comm "$1" - "$r:${A[r]}"
	done
	ADDRS=$(IFS=,; echo "${A[*]}")
}

# result COMM RANK VALUE COUNT - the rank has that sum
result() { cmp <(gpuctl memcpy --comm "$1" "$2:${A[$2]}:$((8 * $4))" -) <(fill "$3" "$4"); }

under_way() { gpuctl status | grep -q in-progress; }

# Requests that arrive while it ends are answered with that.
@test "a coordinator that ends cleanly and is started again finds its devices" {
	coordinator --heartbeat 50ms
	devices 6
	for _ in 1 2 3; do
		kill -STOP "$COORD"
		not gpuctl --timeout 300ms status # meanwhile heartbeats wait for it
		kill -TERM "$COORD"
		kill -CONT "$COORD"
		wait_until 5 gone "$COORD"
		coordinator --heartbeat 50ms
		wait_until 10 n_devices 6
	done
	for pid in "${DEVICES[@]}"; do kill -0 "$pid"; done
}

@test "devices are known again, communicators live on, graphs and memory with them" {
	coordinator
	devices 3
	gpuctl devices >before
	comm=$(gpuctl comm-init -n 3)
	buffers "$comm" 3 1000
	for _ in 1 2 3; do
		killed
		coordinator
	done
	n_devices 3
	run bounded gpuctl comm-status "$comm"
	assert_output success
	run bounded gpuctl allreduce --comm "$comm" --addr "$ADDRS" --count 1000 --type u64
	assert_status 0
	for r in 0 1 2; do result "$comm" $r 7 1000; done
	run bounded gpuctl comm-init 1 2
	assert_output 2
	grep -q 'restored 3 devices, 1 communicators' coord.log
}

@test "an operation under way ends, and its client gets the answer" {
	coordinator
	devices 2 --bandwidth 4Mb
	comm=$(gpuctl comm-init -n 2)
	buffers "$comm" 2 100000
	background gpuctl allreduce --comm "$comm" --addr "$ADDRS" --count 100000 --type u64 2>said
	client=$PID
	wait_until 10 under_way
	killed
	coordinator
	wait "$client" || fail "the client got exit status $?: $(cat said)"
	for r in 0 1; do result "$comm" $r 3 100000; done
	run bounded gpuctl status
	refute_line_with in-progress
}

refute_line_with() { [[ $output != *"$1"* ]] || fail "not expected: $1 in $output"; }

@test "coordinator and device are killed together: the communicator continues without the rank" {
	coordinator
	devices 3 --bandwidth 4Mb
	comm=$(gpuctl comm-init -n 3 --on-failure shrink)
	buffers "$comm" 3 100000
	background gpuctl allreduce --comm "$comm" --addr "$ADDRS" --count 100000 --type u64 2>said
	client=$PID
	wait_until 10 under_way
	kill -KILL "$COORD" "${DEVICES[1]}"
	wait_until 5 gone "$COORD" "${DEVICES[1]}"
	coordinator
	wait "$client" || fail "the client got exit status $?: $(cat said)"
	grep -q 'note: .*rank 1 .*device 0000000000000002' said || fail "$(cat said)"
	A=("${A[0]}" "${A[2]}")
	for r in 0 1; do result "$comm" $r 5 100000; done
}

@test "a clean end leaves nothing; none stores nothing" {
	coordinator
	assert_file c.sock.state
	kill "$COORD"
	wait "$COORD"
	refute_file c.sock.state
	coordinator --state none
	refute_file c.sock.state
	kill "$COORD"
	wait "$COORD"
	coordinator --state "$T/mine"
	refute_file c.sock.state
	[[ $(stat -c %a mine) == 700 ]]
	killed
	coordinator --state "$T/mine"
	kill "$COORD"
	wait "$COORD"
	refute_file mine
}

@test "a state has one coordinator" {
	coordinator --state "$T/mine"
	run bounded gpucoord --listen "ipc://$T/other.sock" --state "$T/mine"
	assert_status 8
	assert_output "gpucoord: $T/mine: another process uses it"
	answers
}

@test "of tcp addresses the state is in the user's directory; of a port given by chance there is none" {
	export HOME=$T XDG_STATE_HOME=
	port=$((20000 + RANDOM % 12000))
	GPUSIM_COORD=tcp://127.0.0.1:$port coordinator
	assert_file "$T/.local/state/gpusim/127.0.0.1:$port/gpusim.journal"
	kill "$COORD"
	wait "$COORD"
	refute_file "$T/.local/state/gpusim/127.0.0.1:$port"
	mkfifo ready
	background bash -c 'exec gpucoord --listen tcp://127.0.0.1:0 -N 4 4>ready'
	read -r _ <ready
	[[ -z $(ls -A "$T/.local/state/gpusim") ]]
}

@test "a state that is damaged, foreign or out of reach is one line" {
	coordinator
	devices 2
	gpuctl comm-init -n 2
	killed
	printf x | dd of=c.sock.state/gpusim.journal bs=1 seek=80 conv=notrunc status=none
	run bounded gpucoord
	assert_status 5
	assert_match "^gpucoord: $T/c.sock.state/gpusim.journal: damaged at byte 32, .*--state none$"
	printf 'hello' >c.sock.state/gpusim.journal
	run bounded gpucoord
	assert_status 5
	assert_match "not a journal of gpusim"
	run bounded gpucoord --state "$T/no/where"
	assert_status 1
	assert_output "gpucoord: $T/no/where: cannot create it: No such file or directory"
	run bounded gpucoord --state etcd://127.0.0.1:1/x
	assert_status 3
	assert_output "gpucoord: etcd: 127.0.0.1:1: Connection refused"
	mkdir lib
	touch lib/libcurl.so.4 lib/libcurl-gnutls.so.4
	LD_LIBRARY_PATH=$T/lib run bounded gpucoord --state etcd://127.0.0.1:1/x
	assert_status 1
	assert_match '^gpucoord: etcd://127.0.0.1:1/x: etcd is reached through libcurl, which cannot be loaded .Debian: libcurl4.: '
	run bounded gpucoord --state ''
	assert_status 2
	mkdir open && chmod 777 open
	ln -s open beside.sock.state
	GPUSIM_COORD=ipc://$T/beside.sock coordinator
	grep -q 'beside.sock.state.*nothing is stored' coord.log
}

@test "a full disk: requests that must be stored are refused, all else continues" {
	coordinator
	devices 2
	prlimit --pid "$COORD" --fsize=1024:unlimited
	run bounded gpuctl comm-init -n 2
	assert_status 1
	assert_match 'cannot store its state: .*gpusim.journal: .*File too large$'
	run bounded gpuctl comm-init -n 2
	assert_status 1
	assert_match 'cannot store its state'
	run bounded gpuctl algo add mine "$ROOT/examples/algos/ring.algo"
	assert_status 1
	assert_match 'cannot store its state'
	n_devices 2
	prlimit --pid "$COORD" --fsize=unlimited:unlimited
	wait_until 10 gpuctl comm-init -n 2
	gpuctl algo add mine "$ROOT/examples/algos/ring.algo"
	grep -q 'the state is stored again' coord.log
	killed
	coordinator
	run bounded gpuctl status
	assert_match '2 devices, 1 communicator'
	run bounded gpuctl algo list
	assert_match $'\n'mine
}

# etcd on ports that nobody has; one that is taken ends it, then others are tried. Sets etcd and port.
start_etcd() {
	local try at peer
	for try in 1 2 3 4 5; do
		port=$((20000 + RANDOM % 12000))
		at=http://127.0.0.1:$port peer=http://127.0.0.1:$((port + 1))
		background etcd --data-dir "$T/etcd$try" --listen-client-urls $at --advertise-client-urls $at \
			--listen-peer-urls $peer --initial-advertise-peer-urls $peer \
			--initial-cluster "default=$peer" 2>etcd.log
		etcd=$PID
		wait_until 60 etcd_decided
		if etcd_serves; then return; fi
	done
	fail "$(tail -n 5 etcd.log)"
}

etcd_serves() { grep -q 'serving insecure client requests\|ready to serve client requests' etcd.log; }
etcd_decided() { etcd_serves || gone "$etcd"; }

@test "in etcd: the same" {
	needs etcd
	start_etcd
	state=etcd://127.0.0.1:$port/test
	coordinator --state "$state"
	devices 2
	comm=$(gpuctl comm-init -n 2)
	killed
	coordinator --state "$state"
	run bounded gpuctl comm-status "$comm"
	assert_output success
	kill -STOP "$etcd"
	run bounded gpuctl comm-destroy "$comm"
	assert_status 1
	assert_match 'cannot store its state: etcd: .*Timed out'
	kill -CONT "$etcd"
	wait_until 20 gpuctl comm-init -n 2
	gpuctl algo add mine "$ROOT/examples/algos/ring.algo"
	kill "$COORD"
	wait "$COORD"
	refute_file c.sock.state
	coordinator --state "$state"
	run bounded gpuctl status --json
	assert_match '"comms":\[\]'
	gpuctl algo remove mine
}

is_lost() { gpuctl devices | grep -q lost; }

# Each try to reach it is a socket of the coordinator's, and many a second would be too many.
@test "where a device has died the coordinator does not keep calling" {
	coordinator
	devices 1
	kill -KILL "${DEVICES[0]}"
	wait_until 5 is_lost
	rm "$T/0.sock"
	# Whoever answers there, shakes hands and hangs up is called again while somebody calls at all.
	run bounded perl -MIO::Socket::UNIX -MIO::Select -e '
		my $s = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 64) or die "$!";
		my $calls = IO::Select->new($s);
		while ($calls->can_read(2)) {
			my $c = $s->accept;
			syswrite $c, "\0SP\0\0\x31\0\0";
			sysread $c, my $hello, 8;
		}' "$T/0.sock"
	assert_status 0
}
