#!/usr/bin/env bats
# Networks that swallow what is sent, without a word: between a device and the coordinator, and between
# two devices. Each is a network namespace, connected to the others by pairs of veth; a cut gives both
# ends of a pair a wrong address for the other, so that its frames go to nobody.
load helper

setup() {
	house_setup
	namespaces
	namespace && HUB=$PID
	namespace && A=$PID
	namespace && B=$PID
	join "$HUB" 10.77.1.1 "$A" 10.77.1.2
	join "$HUB" 10.77.2.1 "$B" 10.77.2.2
	join "$A" 10.77.3.1 "$B" 10.77.3.2
	export GPUSIM_P2P_DISABLE=1
}

within() { # PID CMD...
	local pid=$1
	shift
	nsenter -t "$pid" -n "$@"
}

# Interfaces are named by the address at the other end.
join() { # PID ADDRESS PID ADDRESS
	ip link add "v$4" netns "$1" type veth peer name "v$2" netns "$3"
	within "$1" ip addr add "$2/24" dev "v$4"
	within "$3" ip addr add "$4/24" dev "v$2"
	within "$1" ip link set "v$4" up
	within "$3" ip link set "v$2" up
}

cut() { # PID ADDRESS PID ADDRESS, as joined
	within "$1" ip neigh replace "$4" lladdr 02:00:00:00:00:99 dev "v$4" nud permanent
	within "$3" ip neigh replace "$2" lladdr 02:00:00:00:00:99 dev "v$2" nud permanent
}

ndevices() { # N
	[ "$(within "$HUB" gpuctl devices | wc -l)" -eq $(($1 + 1)) ]
}

# The coordinator in the hub, which devices reach at its address towards them; a device on each side.
# Lost after two seconds: ten heartbeats of 200 ms.
start_all() {
	export GPUSIM_COORD=tcp://10.77.1.1:7000
	background nsenter -t "$HUB" -n gpucoord --listen tcp://0.0.0.0:7000 --insecure \
		--state none --heartbeat 200ms --missed 10/12 --op-timeout 5s
	background nsenter -t "$A" -n gpudev --insecure --listen tcp://10.77.1.2:7001 \
		--data tcp://10.77.3.1:7002 --coordinator tcp://10.77.1.1:7000 --id 0xa --ordinal 0 -m 16M --mem-scratch "$T/a"
	background nsenter -t "$B" -n gpudev --insecure --listen tcp://10.77.2.2:7001 \
		--data tcp://10.77.3.2:7002 --coordinator tcp://10.77.2.1:7000 --id 0xb --ordinal 1 -m 16M --mem-scratch "$T/b"
	wait_until 20 ndevices 2
}

under_way() {
	within "$HUB" gpuctl status --json | grep -q '"progress":.{'
}

# Start a long bench; sets BENCH.
start_bench() {
	background nsenter -t "$HUB" -n gpuctl bench --algo ring -b 64K -e 64K --iters 1000000 2>err
	BENCH=$PID
	wait_until 20 under_way || fail "$(cat err)"
}

bench_ends() {
	wait_until 20 gone "$BENCH"
	cat err
}

@test "a device that the network cuts off from the coordinator is lost within the bound" {
	start_all
	start_bench
	cut "$HUB" 10.77.1.1 "$A" 10.77.1.2
	run bench_ends
	assert_match "rank 0 \(device 000000000000000a\) lost: no heartbeat for [23]\.[0-9]s"
	within "$HUB" gpuctl devices >listing
	grep -q '000000000000000a .* lost ' listing
	grep -q '000000000000000b .* free ' listing
}

@test "two devices cut off from each other, and not from the coordinator, are named" {
	start_all
	start_bench
	cut "$A" 10.77.3.1 "$B" 10.77.3.2
	run bench_ends
	assert_match "allreduce #[0-9]+ \(ring\), step [0-9]+ of [0-9]+: rank [01] \(device 000000000000000[ab]\) has received nothing from rank [01] \(device 000000000000000[ab]\) for [2-9]\.[0-9]s"
	within "$HUB" gpuctl devices >listing
	grep -q '000000000000000a .* free ' listing
	grep -q '000000000000000b .* free ' listing
}
