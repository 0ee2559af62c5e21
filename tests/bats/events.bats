# gpuctl events: what has happened, over restarts of the coordinator, and as it happens.
# shellcheck disable=SC2016,SC2154
load helper

setup() {
	house_setup
	export GPUSIM_COORD=ipc://$T/c.sock
}

teardown() {
	kill_all
	house_teardown
}

answers() { gpuctl status; }

coordinator() {
	background gpucoord 2>>coord.log
	COORD=$PID
	wait_until 10 answers
}

killed() {
	kill -KILL "$COORD"
	wait_until 5 gone "$COORD"
}

# device K - start it, and wait until it has come
device() {
	background gpudev --id $(($1 + 1)) --ordinal "$1" --listen "ipc://$T/$1.sock" -m 16M --mem-scratch "$T/mem$1"
	DEV[$1]=$PID
	wait_until 10 has joined $(($1 + 1))
}

# has KIND DEVICE - there is such an event
has() { gpuctl events --json | perl -MJSON::PP -e 'local $/; my $v = decode_json(<STDIN>);
	exit !grep { $_->{kind} eq $ARGV[0] && ($_->{device} // "") eq sprintf "%016d", $ARGV[1] } @$v' "$1" "$2"; }
# happened KIND... - these events, in this order
happened() {
	gpuctl events >events.tmp
	[[ $(awk '{ print $4 }' events.tmp | xargs) == "$*" ]] || fail "expected: $*, got: $(cat events.tmp)"
}

@test "a story: joined, lost, back, failed, recovered; it continues after the coordinator was killed" {
	coordinator
	device 0 && device 1
	C=$(gpuctl comm-init -n 2 --on-failure shrink)
	kill -KILL "${DEV[1]}"
	wait_until 10 has lost 2
	gpuctl wait "$C"
	device 1
	wait_until 10 has restarted 2
	happened started joined joined lost recovered restarted
	gpuctl events >before
	seq 1 | gpuctl allreduce --comm "$C"
	seq 1 | gpuctl allreduce --comm "$C"
	gpuctl status --json | grep -o '"operations":[0-9]*' >operations
	killed
	coordinator
	wait_until 10 eval 'gpuctl events | head -6 | cmp - before'
	happened started joined joined lost recovered restarted started
	gpuctl status --json | grep -o '"operations":[0-9]*' | cmp - operations
	run gpuctl events
	assert_match '4  20[0-9]{2}-[0-9-]+ [0-9:]+  lost  *device 0000000000000002 [(]gpu 1[)], rank 1 of comm 1, lost: its connection broke'
	assert_match 'recovered  *comm 1 has recovered: rank 1 .* lost: .*; shrink, 1 rank at epoch 2'
}

@test "events can be followed, over a restart of the coordinator, until it ends permanently" {
	coordinator
	background gpuctl --timeout 20s events --follow --json >followed 2>followed.err
	follower=$PID
	device 0
	wait_until 10 grep joined followed
	killed
	coordinator
	wait_until 10 grep restarted followed
	kill -KILL "${DEV[0]}"
	wait_until 10 grep '"kind":"lost"' followed
	perl -MJSON::PP -ne 'decode_json($_)' followed
	assert_equal "$(grep -o '"number":[0-9]*' followed | cut -d: -f2 | xargs)" '1 2 3 4'
	kill -INT "$follower"
	wait_until 5 gone "$follower"
	run bounded env T="$T" sh -c 'gpuctl events --follow | head -1'
	assert_status 0
	assert_match '^ +1 .* started '
	background gpuctl --timeout 200ms events --follow >seen 2>last
	follower=$PID
	wait_until 5 grep -q started seen # so it is connected
	killed
	local status=0
	wait "$follower" || status=$?
	assert_equal "$status" 3
	assert_equal "$(cat last)" "gpuctl: events: $GPUSIM_COORD: no answer from there"
}

@test "a device that is killed while it is free: the signal, and what restarts it" {
	unset GPUSIM_COORD
	run bounded gpuctl run -n 2 --on-failure respawn -- sh -c '
		kill -9 $(gpuctl devices | awk "\$1 == 1 { print \$7 }")
		until gpuctl events | grep restarted; do :; done >/dev/null; gpuctl events'
	assert_status 0
	assert_match '(lost|ended)  *device [0-9a-f]{16} [(]gpu 1[)] (lost|ended): killed by signal 9'$'\n'
	assert_match 'restarted  *device [0-9a-f]{16} [(]gpu 1[)] was restarted by the coordinator, pid [0-9]+$'
}
