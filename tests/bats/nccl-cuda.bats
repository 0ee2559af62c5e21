# The CUDA runtime over simulated devices: libcudart.so.12 of build/nccl.
load nccl

# in_cluster N PROGRAM [ARG...] - as nccl does, with the exit status of the program in $status and stderr in $output
in_cluster() { run --separate-stderr nccl "$@"; }

@test "cuda: devices, memory, copies, streams, events" {
	in_cluster 2 cu_basic
	assert_status 0
	assert_output 'all is well'
	assert_equal "$(grep -c -v 'kernels cannot access memory of cudaHostRegister' <<<"$stderr")" 0
}

@test "cuda: capture and graphs" {
	run nccl 2 cu_graph
	assert_status 0
	assert_output 'all is well'
}

@test "cuda: threads side by side" {
	run nccl 2 cu_threads
	assert_status 0
	assert_output 'all is well'
}

@test "cuda: kernels in graphs, on pinned, managed and another device's memory" {
	need_cuda
	run nccl 2 cu_kernels
	assert_status 0
	assert_output 'all is well'
}

# bounds N WAY - run k_bounds; its messages are in $stderr
bounds() {
	in_cluster "$1" k_bounds "${@:2}"
	assert_status 0
	assert_equal "${lines[-1]}" well
}

@test "cuda: a kernel's illegal address changes nothing of others, is named, and the error stays until a reset" {
	need_cuda
	bounds 2 others
	[[ $stderr == *'kernel poke, block (0,0,0) thread (3,0,0): an illegal address, 0x'*', 262144 bytes after the 262144-byte allocation at 0x'* ]]
	[[ $stderr == *', 4096 bytes before the 262144-byte allocation at 0x'* ]]
	[[ $stderr == *'kernel sweep, '*', 0 bytes after the 65536-byte allocation at 0x'* ]]
	bounds 2 sticky
	[[ $stderr == *', 972 bytes after the 40000-byte allocation at 0x'* ]]
	bounds 2 peers
	[[ $stderr == *', memory of device 1, to which peer access is not enabled'* ]]
	bounds 2 late
	[[ $stderr == *', 5 bytes into 50000 freed bytes at 0x'* ]]
}

@test "cuda: small allocations fill a device; memory in a stream's order, and pools" {
	in_cluster 1 --mem=4M k_bounds small
	assert_status 0
	assert_output $'full\nwell'
	bounds 1 many
	in_cluster 2 --mem=64M cu_pools
	assert_status 0
	assert_output well
}

@test "cuda: memory and events of another process, until it frees them or ends" {
	need_cuda
	in_cluster 1 k_ipc
	assert_status 0
	assert_output well
}

# checked WAY SENTENCE - k_memcheck WAY has this one finding
checked() {
	in_cluster 1 --memcheck k_memcheck "$1"
	assert_status 1
	[[ $stderr == *"memcheck: $2"* ]] || { printf '%s\n' "$1: $stderr" && false; }
	[[ $stderr == *'memcheck: 1 finding'* ]] || { printf '%s\n' "$1: $stderr" && false; }
}

@test "cuda: --memcheck finds each wrong use of memory, and nothing in a right program" {
	need_cuda
	checked reduce 'out-of-bounds: recvbuff of ncclAllReduce: 16 bytes at offset 0 of a 4-byte allocation, 12 too many'
	checked sent 'uninitialised: sendbuff of ncclAllReduce: 16 bytes of a 100-byte allocation'
	checked copy 'out-of-bounds: the destination of a copy: 104 bytes at offset 0 of a 100-byte allocation, 4 too many'
	checked memset 'out-of-bounds: a memset: 100 bytes at offset 4 of a 100-byte allocation, 4 too many'
	checked fresh 'uninitialised: a copy to the host: 48 bytes of a 100-byte allocation, from offset 52 on'
	checked computed 'uninitialised: a copy to the host: 15 numbers'
	checked kernel 'out-of-bounds: kernel put wrote behind a 100-byte allocation, 4 bytes after its end'
	checked freed 'use-after-free: the source of a copy: 0x'
	checked touched 'kernel: kernel put, block (0,0,0) thread (0,0,0): an illegal address, 0x'
	checked twice 'double-free: 0x'
	checked inside 'invalid-free: 0x'
	checked leak 'leak: 3 allocations, 1200 bytes, not freed'
	if command -v addr2line >/dev/null; then
		[[ $stderr == *', allocated at k_memcheck.cu:'[0-9]* ]]
	fi
	in_cluster 1 --memcheck k_memcheck clean
	assert_status 0
	[[ $stderr == *'memcheck: 0 findings'* ]]
	# A program's own failure keeps its status; --json prints the findings.
	in_cluster 1 --memcheck --json k_memcheck kernel 5
	assert_status 5
	[[ $output =~ ^\{.*\"kind\":\ *\"out-of-bounds\".*\"message\":\ *\".*kernel\ put.*\}$ ]] || fail "$output"
	[[ $output =~ \"pid\":\ *[1-9] ]]
}

@test "cuda: a program's own touch of device memory faults, of managed and pinned memory does not" {
	in_cluster 1 cu_touch device
	assert_status 139
	in_cluster 1 cu_touch freed
	assert_status 139
	in_cluster 1 cu_touch managed
	assert_status 0
	in_cluster 1 cu_touch pinned
	assert_status 0
	GPUSIM_UNIFIED=1 in_cluster 1 cu_touch device
	assert_status 0
	assert_output touched
}

@test "cuda: CUDA_VISIBLE_DEVICES, by number and by UUID" {
	local all last
	all=$(gpuctl run -n 3 -- bash -c "
		'$PROGRAMS/cu_devices' | sed -n '1p;4p'
		last=\$('$PROGRAMS/cu_devices' | tail -n 1)
		CUDA_VISIBLE_DEVICES=2,0 '$PROGRAMS/cu_devices' | sed -n '1p;2p' | sed \"s/\$last/the last/\"
		CUDA_VISIBLE_DEVICES=\$last,1 '$PROGRAMS/cu_devices' | sed \"s/\$last/the last/\" | sed -n 1,2p
		CUDA_VISIBLE_DEVICES= '$PROGRAMS/cu_devices'
		CUDA_VISIBLE_DEVICES=-1 '$PROGRAMS/cu_devices'
		CUDA_VISIBLE_DEVICES=1,7,0 '$PROGRAMS/cu_devices' | head -n 1")
	last=$(sed -n 2p <<<"$all")
	assert_equal "$all" "3
$last
2
the last
2
the last
cudaErrorNoDevice
cudaErrorNoDevice
1"
}

@test "cuda: no coordinator, or one without devices of this host, is reported" {
	run "$PROGRAMS/cu_devices"
	assert_status 0
	assert_match 'no coordinator at .*gpucoord.sock: start gpucoord'
	assert_match 'cudaErrorNoDevice$'
	ready coord gpucoord --listen "ipc://$T/coord.sock"
	GPUSIM_COORD=ipc://$T/coord.sock run "$PROGRAMS/cu_devices"
	assert_status 0
	assert_match 'no device of this host has joined'
}

@test "cuda: a child of fork can do nothing, and harms nothing" {
	run nccl 2 cu_fork
	assert_status 0
	assert_output 'all is well'
}

@test "cuda: GPUSIM_TIMEOUT bounds waits" {
	GPUSIM_TIMEOUT=20ms in_cluster 1 cu_wait
	assert_status 0
	assert_output 'all is well'
	assert_equal "${stderr%%:*}" 'libcudart (gpusim)'
}

# used_bytes - of the coordinator's only device
used_bytes() { gpuctl devices --json | grep -o '"used_bytes":[0-9]*' | cut -d: -f2; }
holds_much() { [ "$(used_bytes)" -ge $((11 << 20)) ]; }
holds_nothing() { [ "$(used_bytes)" -eq 0 ]; }

@test "cuda: a program that is killed leaves no memory behind, in the device or in /dev/shm" {
	ready coord gpucoord --listen "ipc://$T/coord.sock"
	export GPUSIM_COORD=ipc://$T/coord.sock
	ready dev gpudev -m 64M --listen "ipc://$T/dev.sock"
	background "$PROGRAMS/cu_hold" "$T/holds"
	wait_until 10 test -s "$T/holds"
	wait_until 10 holds_much
	kill -KILL "$PID"
	wait_until 10 holds_nothing
	[ -z "$(find /dev/shm -name "gpusim*-$PID-*")" ]
	memory=$(gpuctl devices --json | grep -o '/dev/shm/gpusim[^"]*')
	[ -e "$memory" ]
	kill_all
	gpuctl run -n 1 -- true # sweeps what killed devices left
	[ ! -e "$memory" ]
}

@test "cuda: what the library exports has CUDA's version, and the rest its own" {
	local symbols
	symbols=$(objdump -T "$NCCL_HOME_HERE/lib/libcudart.so.12" | awk '$4 == ".text" { print $6, $7 }')
	grep -q '^libcudart.so.12 cudaMemcpyAsync$' <<<"$symbols"
	grep -q '^libcudart.so.12 cudaGetDeviceProperties_v2$' <<<"$symbols"
	grep -q '^GPUSIM_PRIVATE cmdq_append$' <<<"$symbols"
	assert_equal "$(grep -v -e '^libcudart.so.12 _*cuda' -e '^libcudart.so.12 cu\(Init\|DriverGetVersion\|GetProcAddress\)' -e '^libcudart.so.12 __gpusim_' \
		-e '^GPUSIM_PRIVATE \(gpusim\|cmdq\)_' <<<"$symbols")" ''
	objdump -p "$NCCL_HOME_HERE/lib/libcudart.so.12" | grep -q 'SONAME *libcudart.so.12$'
}

@test "cuda: a program that another nvcc has built hears what to do, once" {
	in_cluster 1 cu_foreign driver
	assert_status 0
	assert_output 'CUDA_ERROR_NOT_SUPPORTED'
	assert_equal "$stderr" "libcudart (gpusim): the program calls CUDA's driver, which is not simulated: build the program with bin/nvcc of \`gpuctl nccl-home\`, not with NVIDIA's"
	in_cluster 1 cu_foreign kernel
	assert_status 0
	assert_output 'cudaErrorNoKernelImageForDevice'
	[[ $stderr == "libcudart (gpusim): NVIDIA's nvcc has compiled the program's kernels, for GPUs: build"* ]]
}

# traced JQ - a value of the trace's events
traced() { python3 -c "import json; t = [e for e in json.load(open('nv.json'))]; print($1)"; }

@test "cuda: NVTX's ranges, marks and names are in the trace" {
	needs python3
	run nccl 1 --trace=nv.json cu_nvtx
	assert_status 0
	assert_match 'all is well'
	python3 "$BATS_TEST_DIRNAME/fixtures/trace_check.py" nv.json
	ranges="e in t if e.get('cat') == 'range'"
	assert_equal "$(traced "sorted({e['name'] for $ranges})")" \
		"['between threads', 'crosses', 'deep', 'here', 'inner \"quoted\"', 'net: layer', 'other thread', 'outer', 'registered', 'wide, cut after thirty-one byte']"
	assert_equal "$(traced "[e['args'] for $ranges and e['name'] == 'net: layer']" | tr -d ' ')" \
		"[{'category':7,'colour':'#00ff80'},{'category':7,'colour':'#00ff80'}]"
	assert_equal "$(traced "[e['ph'] for $ranges and e['name'] in ('between threads', 'crosses')]")" "['b', 'e', 'b', 'e']"
	assert_equal "$(traced "len([1 for $ranges and e['name'] == 'deep'])")" 64
	assert_equal "$(traced "len({e['tid'] for $ranges})")" 2
	inside=$(traced "[(a['ts'] <= b['ts'] and b['ts'] + b['dur'] <= a['ts'] + a['dur'] and a['tid'] == b['tid']) for a in t for b in t if a.get('name') == 'outer' and b.get('name') == 'inner \"quoted\"']")
	assert_equal "$inside" '[True]'
	assert_equal "$(traced "[e['args']['name'] for e in t if e['name'] == 'thread_name' and 'copies' in e['args']['name']]")" \
		"['copies (queue 2)']"
}
