# Two network namespaces as two hosts, each with devices of its own and a name (GPUSIM_HOSTID); a process for each rank.
# shellcheck disable=SC2016,SC2030,SC2031
load nccl

setup() {
	nccl_setup
	namespaces
	namespace && A=$PID
	namespace && B=$PID
	ip link add gs0 netns "$A" type veth peer name gs0 netns "$B"
	nsenter -t "$A" -n ip addr add 10.78.1.1/24 dev gs0
	nsenter -t "$B" -n ip addr add 10.78.1.2/24 dev gs0
	nsenter -t "$A" -n ip link set gs0 up
	nsenter -t "$B" -n ip link set gs0 up
	export GPUSIM_COORD=tcp://10.78.1.1:7000
	background nsenter -t "$A" -n gpucoord --listen "$GPUSIM_COORD" --insecure --state none
	device "$A" a 10.78.1.1 0
	device "$A" a 10.78.1.1 1
	device "$B" b 10.78.1.2 2
	device "$B" b 10.78.1.2 3
	wait_until 20 ndevices 4
}

# device NAMESPACE HOST ADDRESS ORDINAL
device() {
	background nsenter -t "$1" -n env GPUSIM_HOSTID="$2" gpudev --insecure --listen "tcp://$3:71$4$4" \
		--data "tcp://$3:72$4$4" --ordinal "$4" -m 64M --mem-scratch "$T/mem$4"
}

ndevices() { [ "$(within a gpuctl devices | wc -l)" -eq $(($1 + 1)) ]; }

# within HOST CMD... - in the namespace of host a or b, under its name
within() {
	local pid=$A
	[ "$1" = a ] || pid=$B
	nsenter -t "$pid" -n env GPUSIM_HOSTID="$1" LD_LIBRARY_PATH="$NCCL_HOME_HERE/lib" "${@:2}"
}

# start PROGRAM - four processes, ranks 0 and 1 on host a, 2 and 3 on host b; the output of rank R goes to out.R. Sets RANKS
start() {
	local rank
	mkfifo id.1 id.2 id.3
	RANKS=()
	for rank in 0 1 2 3; do
		within "$([ $rank -lt 2 ] && echo a || echo b)" timeout -k 2 $((30 * PATIENCE)) \
			"$PROGRAMS/$1" 4 $rank $((rank % 2)) id >"out.$rank" 2>&1 3>&- &
		RANKS+=($!)
	done
}

@test "two network namespaces are two hosts: sockets between them, and each has its own two devices" {
	run within a gpuctl topo
	assert_status 0
	assert_match 'dev0  X     P2P   NET   NET'
	assert_match 'dev3  NET   NET   P2P   X'
	start home_hosts
	for rank in 0 1 2 3; do
		wait "${RANKS[rank]}" || fail "$(cat out.?)"
		assert_equal "$(cat out.$rank)" "rank $rank: 2 devices, all is right"
	done
}

@test "two hosts: a rank's process that is killed is an error for all others, and their streams continue after an abort" {
	start home_lost
	wait_until 20 test -s out.3
	kill -KILL "$(cat out.3)"
	for rank in 0 1 2; do
		wait "${RANKS[rank]}" || fail "$(cat out.?)"
		grep -q "^1 .*: rank 3's process $(head -n 1 out.3) (home_lost) has ended" out.$rank || fail "rank $rank: $(cat out.$rank)"
		assert_equal "$(tail -n 1 out.$rank)" 'goes on'
	done
}
