#!/usr/bin/env bats
# No daemon dies, hangs, or keeps what is thrown at it, whatever bytes come.
load helper

# The pid of device K, in the cluster we run under.
device_pid() { gpuctl devices | awk -v k="$1" 'NR == k + 2 { print $7 }'; }
coord_pid() { gpuctl status | sed -n '1s/.*pid \([0-9]*\),.*/\1/p'; }

# descriptors PID: how many it has open
descriptors() { find "/proc/$1/fd" -mindepth 1 2>/dev/null | wc -l; }

# The body of each test: attack, then see that all is as before. Runs inside `gpuctl run`.
attack() { # SOCKET KIND PID ROUNDS
	local before seed
	before=$(descriptors "$3")
	for seed in 1 2 3; do
		"$BUILD/e2e/hostile" "ipc://$GPUSIM_DIR/$1" "$2" "$seed" "$4"
	done
	kill -0 "$3"
	# The daemon answers, and gives back what the attackers held.
	[ "$(gpuctl --timeout 20s devices | wc -l)" = 3 ]
	[ "$(printf '1 2\n3 4\n' | gpuctl --timeout 20s allreduce)" = '4 6' ]
	wait_until 40 fewer_descriptors "$3" $((before + 20))
}
fewer_descriptors() { (($(descriptors "$1") <= $2)); }
export -f attack device_pid coord_pid descriptors fewer_descriptors wait_until

setup() {
	house_setup
	export TICK
	export LIMIT=110
	BATS_TEST_TIMEOUT=120
}

# under_attack SOCKET KIND PIDCMD
under_attack() {
	run bounded gpuctl run -n 2 --mem 32M -- bash -euc \
		"exec {TICK}<> <(:); pid=\$($3); attack $1 $2 \"\$pid\" 150"
	assert_status 0
}

@test "garbage on the coordinator's socket" {
	under_attack coord.sock rep coord_pid
}

@test "garbage on a device's control socket" {
	under_attack dev0.sock rep 'device_pid 0'
}

@test "garbage on a device's data socket" {
	under_attack dev0.sock.data frames 'device_pid 0'
}
