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

# cluster - a coordinator and two devices with little patience, and communicator 1 of both
cluster() {
	local k
	export GPUSIM_COORD=ipc://$T/coord
	mkdir things things/dir
	mkfifo things/fifo
	ln -s /etc/passwd things/link
	background gpucoord --listen "$GPUSIM_COORD" --heartbeat 200ms --missed 5/5 --op-timeout 2s --state none
	PIDS=("$PID")
	for k in 0 1; do
		background gpudev --listen "ipc://$T/dev$k" --ordinal $k -m 32M --mem-scratch "$T/mem$k"
		PIDS+=("$PID")
	done
	wait_until 20 two_devices
	run bounded gpuctl comm-init -n 2
	assert_output 1
	DEVICE=$(gpuctl devices | awk 'NR == 3 { print $2 }')
}

# Freed memory that the address sanitizer keeps is not growth.
sanitized() { ldd "$BUILD/bin/gpudev" | grep -q libasan; }
two_devices() { [[ $(bounded gpuctl devices | wc -l) == 3 ]]; }

# corpus ROLE SOCKET CONTROL PID - all of the corpus; says how much that was
corpus() {
	sanitized && export CORPUS_RSS_MIB=100000
	LIMIT=100 run bounded "$BUILD/e2e/corpus" "$1" "ipc://$T/$2" "ipc://$T/$3" "$4" 1 1 "$DEVICE" "$T/things"
	assert_status 0
	echo "# ${lines[-1]}" >&3
}

# The three live, and work.
cluster_works() {
	kill -0 "${PIDS[@]}"
	wait_until 30 sums_up
}

# Some of the corpus is in order, and makes communicators, which may be ending by themselves.
sums_up() {
	local id
	for id in $(bounded gpuctl status | awk '$1 == "COMM" { t = 1; next } t { print $1 }'); do
		bounded gpuctl comm-destroy "$id" || true
	done
	[[ $(printf '1 2\n3 4\n' | bounded gpuctl --timeout 5s allreduce) == '4 6' ]]
}

setup() {
	house_setup
	export TICK
	export LIMIT=110
	BATS_TEST_TIMEOUT=$((120 * PATIENCE))
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

@test "the corpus, at the coordinator" {
	cluster
	corpus coord coord coord "${PIDS[0]}"
	cluster_works
}

@test "the corpus, at a device" {
	cluster
	corpus device dev0 dev0 "${PIDS[1]}"
	cluster_works
}

@test "the corpus, at a device's data socket: ranks that map each other, and ranks that do not" {
	cluster
	corpus data dev0.data dev0 "${PIDS[1]}"
	cluster_works
	kill -KILL "${PIDS[@]}"
	wait_until 10 gone "${PIDS[@]}"
	rm -rf things
	GPUSIM_P2P_DISABLE=1 cluster
	corpus data dev0.data dev0 "${PIDS[1]}"
	cluster_works
}

@test "a device whose client id another uses registers under a new one" {
	export GPUSIM_COORD=ipc://$T/coord
	ready coord gpucoord --listen "$GPUSIM_COORD" --state none
	background "$BUILD/e2e/replay" "$T/between" "$GPUSIM_COORD" >replay.log
	wait_until 10 test -S between
	background gpudev --coord "ipc://$T/between" --listen "ipc://$T/dev" -m 4M 2>dev.log
	wait_until 20 grep -q 'requests ahead' replay.log
	wait_until 20 grep -q 'registering under a new client id' dev.log
	kill -0 "$PID"
	run bounded gpuctl devices
	assert_match ' free .*ipc://.*/dev'
}
