# gRPC: the lab's services, called with a library that nobody here wrote, Debian's python3-grpcio.
# shellcheck disable=SC2154
load helper

setup_file() {
	house_setup
	export STUBS=$BATS_FILE_TMPDIR/stubs
	mkdir -p "$STUBS"
	/usr/bin/python3 -c 'import grpc, grpc_tools' 2>/dev/null || return 0
	/usr/bin/python3 -m grpc_tools.protoc -I"$ROOT/proto" --python_out="$STUBS" --grpc_python_out="$STUBS" \
		gpu_sim.proto grpc/health/v1/health.proto grpc/reflection/v1/reflection.proto
}

setup() {
	[ -e "$STUBS/gpu_sim_pb2.py" ] || skip 'no python3-grpcio, or no python3-grpc-tools'
	house_setup
}

teardown() {
	kill_all
	house_teardown
}

client() { bounded env STUBS="$STUBS" /usr/bin/python3 "$BATS_TEST_DIRNAME/fixtures/grpc_client.py" "$@"; }

# coordinator [OPTION...] - sets AT to where it serves gRPC
coordinator() {
	export GPUSIM_COORD=ipc://$T/coord
	ready coord gpucoord --grpc 127.0.0.1:0 -v "$@"
	COORD=$PID
	wait_until 10 grep -q 'gRPC at' coord.log
	AT=$(sed -n 's/.*gRPC at //p' coord.log | tail -1)
}

devices() {
	local i
	for ((i = 0; i < $1; i++)); do
		ready "dev$i" gpudev --listen "ipc://$T/dev$i" --ordinal "$i" -m 16M --grpc 127.0.0.1:0
	done
}

machine() {
	coordinator
	devices "$1"
}

@test "lab_part_a.py: the lab's pseudo-code, and a transfer between two devices" {
	coordinator
	devices 3
	run bounded "$ROOT/examples/lab_part_a.py" "$AT" 3
	assert_output '3 devices, 1000 doubles each: 0 wrong'
	run bounded "$ROOT/examples/lab_part_a.py" "$AT" 9
	assert_output 'lab_part_a: NOT_FOUND: needs 9 devices; 3 exist'
}

@test "gpuctl run --grpc: device K has the port 1+K above the coordinator's" {
	local port
	for port in 24100 24200 24300 24400; do
		run bounded gpuctl run -n 2 --grpc "127.0.0.1:$port" -- env STUBS="$STUBS" /usr/bin/python3 -c "
import os, sys, grpc
sys.path.insert(0, os.environ['STUBS'])
import gpu_sim_pb2 as pb, gpu_sim_pb2_grpc as rpc
c = rpc.GPUCoordinatorStub(grpc.insecure_channel('127.0.0.1:$port'))
print(*(d.grpcAddress for d in c.CommInit(pb.CommInitRequest(numDevices=2), timeout=100).devices))"
		[[ $output != *'in use'* ]] || continue
		break
	done
	assert_output "127.0.0.1:$((port + 1)) 127.0.0.1:$((port + 2))"
	run gpuctl run -n 2 --grpc 127.0.0.1:65534 -- true
	assert_status 2
	assert_output 'gpuctl: run: --grpc: the last device would have port 65536'
	run gpuctl run -n 1 --grpc nowhere -- true
	assert_status 2
}

@test "addresses: loopback alone, IPv6, what is taken" {
	coordinator
	run bounded gpucoord --listen "ipc://$T/c" --state none --grpc 0.0.0.0:0
	assert_status 2
	assert_match '^gpucoord: --grpc: .* is reachable from other hosts'
	run bounded gpucoord --listen "ipc://$T/c" --state none --grpc "$AT"
	assert_match "^gpucoord: --grpc: $AT: Address already in use"
	run bounded gpudev --listen "ipc://$T/d" --coordinator '' --grpc nonsense
	assert_match '^gpudev: --grpc: .*nonsense'
	ready six gpucoord --listen "ipc://$T/six" --state none --grpc '[::1]:0' -v
	grep 'gRPC at \[::1\]:[1-9]' six.log
}

@test "Memcpy: every size up to the largest message, and the error beyond it" {
	machine 1
	run client "$AT" memcpy
	assert_match '^too large a request: RESOURCE_EXHAUSTED: message of 41943[0-9]* bytes: the limit is 4194304'$'\n'
	assert_match $'\n''too large an answer: RESOURCE_EXHAUSTED: memcpy of 4194304 bytes: the limit of a message is 4194240'
	assert_match $'\n''outside: INVALID_ARGUMENT: device [0-9a-f]{16}: .*outside'
	assert_match $'\n''no direction: INVALID_ARGUMENT: memcpy: no direction given$'
}

@test "50 calls of 4 MiB each way, and 300 small ones, at once on one channel" {
	machine 1
	run client "$AT" many
	assert_output 'many: OK'
}

@test "a failure has a status code and a message" {
	machine 2
	run client "$AT" errors
	assert_output 'no such comm: NOT_FOUND: no communicator 77
no devices: INVALID_ARGUMENT: 0 devices requested: a communicator needs at least one
all taken: RESOURCE_EXHAUSTED: busy: needs 1 device; 0 of 2 are free: comm 1 has 2
not a message: INVALID_ARGUMENT: 2 bytes: not a gpu_sim.CommInitRequest
no such method: UNIMPLEMENTED: no such method
no such service: UNIMPLEMENTED: no such method
compressed: UNIMPLEMENTED: compressed messages are not supported
no such rank: INVALID_ARGUMENT: recv: no peer rank 5 in 2 ranks
no such stream: NOT_FOUND: no stream 12345 on this device'
}

@test "StreamSend: to the only receive that has begun, in chunks of any size" {
	machine 2
	run client "$AT" stream_send
	assert_output 'wrong length: INVALID_ARGUMENT: the chunks are 100 bytes, but the receive expects 200
FAILED: recv: the chunks are 100 bytes, but the receive expects 200
wrong length: INVALID_ARGUMENT: the chunks are more than 200 bytes, but the receive expects 200
FAILED: recv: the chunks are more than 200 bytes, but the receive expects 200
none: FAILED_PRECONDITION: no receive waits for a chunk: call BeginReceive first
nothing: FAILED_PRECONDITION: no receive waits for a chunk: call BeginReceive first
several: FAILED_PRECONDITION: 2 receives have begun, and a chunk without a stream id could be for any
SUCCESS'
}

@test "BeginSend, BeginReceive, GetStreamStatus: two devices move the data themselves" {
	machine 2
	run client "$AT" between
	assert_output 'SUCCESS SUCCESS'
}

@test "StreamSend of what the sending device has sent already: the same is success, once" {
	machine 2
	run client "$AT" both_ways
	assert_output 'again: FAILED_PRECONDITION: no receive waits for a chunk: call BeginReceive first
SUCCESS
other data: FAILED_PRECONDITION: the only receive has ended, with other data from its rank
SUCCESS
fewer: INVALID_ARGUMENT: the chunks are 1048575 bytes, but the receive expects 1048576'
}

@test "silent connections, or ones that send nonsense, block nobody" {
	machine 1
	run client "$AT" crowd
	assert_output 'HTTP/1.1 400 Bad Request
closed
closed
served'
}

@test "deadlines and cancelled calls: the server continues, an abandoned receive fails" {
	machine 2
	run client "$AT" deadline cancel_send
	assert_output 'deadline: DEADLINE_EXCEEDED
cancelled: yes
SUCCESS
IN_PROGRESS
FAILED: recv: the client of StreamSend disconnected'
}

@test "reflection, as grpcurl asks, and the health check" {
	local all='grpc.health.v1.Health grpc.reflection.v1.ServerReflection grpc.reflection.v1alpha.ServerReflection gpu_sim.GPUCoordinator
gpu_sim.proto 2
gpu_sim.proto 2
gpu_sim.proto 2
gpu_sim.proto 2
grpc/health/v1/health.proto 1
5 not found in the files of this server'
	machine 0
	run client "$AT" reflection
	assert_output "$all"$'\n'"$all"$'\n''1
1
health: NOT_FOUND: no such service'
}

@test "a device dies during AllReduceRing: the status says so, and what follows is refused" {
	machine 2
	run client "$AT" lost
	assert_output 'SUCCESS
FAILED True
FAILED_PRECONDITION'
}

@test "a client that is killed: what it leased is free again" {
	machine 2
	client "$AT" leave || true
	run client "$AT" take
	assert_output taken
}

@test "a coordinator that is started again: the channel comes back, the communicator is there" {
	coordinator --state "$T/state"
	devices 2
	mkfifo go
	exec {GO}<>go
	client "$AT" survive <go >said &
	local waits=$!
	wait_until 20 grep -q made said
	kill -KILL "$COORD"
	wait_until 5 gone "$COORD"
	ready coord2 gpucoord --grpc "$AT" --state "$T/state"
	echo >&"$GO"
	wait "$waits"
	assert_equal "$(cat said)" 'made
SUCCESS'
	exec {GO}>&-
}

@test "gpuctl run --on-failure respawn: a device that is started again is where it was" {
	local port
	for port in 24500 24600 24700; do
		run bounded gpuctl run -n 2 --grpc "127.0.0.1:$port" --on-failure respawn -- env STUBS="$STUBS" \
			/usr/bin/python3 "$BATS_TEST_DIRNAME/fixtures/grpc_client.py" "127.0.0.1:$port" respawned
		[[ $output == *'in use'* ]] || break
	done
	assert_match 'SUCCESS [1-9] True$'
}

# part_b POLICY VICTIM WHEN - its output
part_b() {
	local port
	for port in 24800 24900 25000; do
		run bounded gpuctl run -n 3 --spares 1 --grpc "127.0.0.1:$port" --on-failure "$1" -- env STUBS="$STUBS" VICTIM="$2" \
			WHEN="$3" /usr/bin/python3 "$BATS_TEST_DIRNAME/fixtures/grpc_client.py" "127.0.0.1:$port" part_b
		[[ $output == *'in use'* ]] || break
	done
	output=$(grep -v '^gpuctl: run: gpudev' <<<"$output")
}

@test "a client without a policy uses that of gpuctl run, whichever device dies" {
	local all='SUCCESS 111 3' policy
	for policy in respawn spare; do
		part_b "$policy" 0 0
		assert_output "$all"$'\n'"$all"$'\n'"$all"$'\n'"$all"
		part_b "$policy" 2 1
		assert_output "$all"$'\n'"$all"$'\n'"$all"$'\n'"$all"
	done
	part_b shrink 0 1
	assert_output "$all"$'\n''SUCCESS 110 2'$'\n''SUCCESS 110 2'$'\n''SUCCESS 110 2'
	part_b shrink 1 0
	assert_output $'SUCCESS 101 2\nSUCCESS 101 2\nSUCCESS 101 2\nSUCCESS 101 2'
}
