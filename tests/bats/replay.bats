# Recordings, run again: gpuctl run --record, gpuctl replay.
# shellcheck disable=SC2016,SC2030,SC2031
load nccl

# record N [OPTION...] -- CMD... - into tape
record() { bounded gpuctl run -n "$1" --record tape "${@:2}"; }

# replayed - tape, which is the same
replayed() {
	run --separate-stderr bounded gpuctl replay tape
	assert_status 0
	[[ $output == *', 0 differ;'* ]] || fail "$output"
}

# number WORDS - the number before these words in what replay said
number() { grep -oE "[0-9]+ $1" <<<"$output" | head -1 | cut -d' ' -f1; }

@test "operations of runs and their results are the same to the bit" {
	record 3 --record-data -- bash -e -c '
		printf "1 2\n3 4\n5 6\n" | gpuctl allreduce
		printf "1 2\n3 4\n5 6\n" | gpuctl allreduce --type f16 --algo tree --op max
		printf "1 2 3\n4 5 6\n7 8 9\n" | gpuctl alltoall --type i32
		printf "1\n2 3\n4 5 6\n" | gpuctl allgatherv --counts 1,2,3 --type u8
		comm=$(gpuctl comm-init -n 3)
		addr=$(for d in 0 1 2; do gpuctl malloc --device $d 64; done | paste -sd,)
		gpuctl allreduce --comm $comm --addr $addr --count 8 --op premulsum --scalar 1,2,3' >out
	replayed
	assert_equal "$(number 'operations of ranks')" 15
	assert_equal "$(number 'succeeded again')" 15
}

@test "a program of NCCL: its queues are queues again" {
	record 2 --nccl --record-data -- "$PROGRAMS/nccl_premulsum"
	replayed
	at_least "$(number 'from queues')" 10
	assert_equal "$(number 'succeeded again')" "$(number 'from queues')"
}

@test "sends, receives and split communicators of NCCL" {
	record 4 --nccl -- "$PROGRAMS/nccl_split"
	run --separate-stderr bounded gpuctl replay --json tape
	assert_status 0
	[[ $output == *'"data":false,'*'"differ":0,'* ]] || fail "$output"
}

@test "a training's steps" {
	record 2 --record-data -- mnist-train --data "$ROOT/tests/data/iris.csv" --epochs 1 >out
	replayed
	at_least "$(number 'succeeded again')" 2
}

@test "chaos: faults take place at the same steps" {
	record 4 --record-data --allow-inject -- gpuctl chaos --ops 25 --seed 5 --rate 0.3/op --kinds slow,drop,corrupt,kill --on-failure shrink >out
	replayed
	at_least "$(number 'faults took place')" 1
	[[ $output =~ ([0-9]+)' of '([0-9]+)' faults' ]]
	assert_equal "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
	at_least "${BASH_REMATCH[1]}" 2
}

@test "a rank that kills itself in a step does so again" {
	record 3 --allow-inject -- bash -c '
		comm=$(gpuctl comm-init -n 3)
		addr=$(for d in 0 1 2; do gpuctl malloc --device $d 64; done | paste -sd,)
		gpuctl inject --comm $comm kill rank=1 at=allreduce#next.step2
		! gpuctl allreduce --comm $comm --addr $addr --count 8 --algo ring' >out 2>&1
	replayed
	[[ $output == *'1 of 1 faults'* ]] || fail "$output"
}

@test "a changed recording differs, and the first difference is named" {
	needs python3
	record 2 --record-data -- bash -c 'seq 2 | gpuctl allreduce --type i32'
	cat >change <<-'PY'
		import struct
		def crc(b):
		    c = 0xffffffff
		    for x in b:
		        c ^= x
		        for _ in range(8):
		            c = c >> 1 ^ (0x82f63b78 if c & 1 else 0)
		    return c ^ 0xffffffff
		b = bytearray(open('tape/device-1.rec', 'rb').read())
		at = 64
		while at < len(b):
		    n, = struct.unpack_from('<I', b, at)
		    body = b[at + 12:at + 12 + n]
		    if body[0] == 0x2a:  # TapeEnd: outCrc is its last but one field
		        k = body.index(0x20)
		        body[k + 1] ^= 1
		        b[at + 12:at + 12 + n] = body
		        struct.pack_into('<I', b, at + 4, crc(body))
		        struct.pack_into('<I', b, at + 8, crc(b[at:at + 8]))
		    at += 12 + n
		open('tape/device-1.rec', 'wb').write(b)
	PY
	python3 change
	run bounded gpuctl replay tape
	assert_status 1
	[[ $output == *'first difference: allreduce #0 (oneshot) of communicator 1 epoch 1, rank 1 (device 1): recorded output checksum '* ]] || fail "$output"
}

@test "a damaged recording is refused, an incomplete one is reported" {
	record 2 --record-data -- bash -c 'seq 2 | gpuctl allreduce --type i32'
	cp -r tape whole
	truncate -s -5 tape/device-1.rec
	run bounded gpuctl replay tape
	assert_status 0
	[[ $output == *'the recording is incomplete'* ]] || fail "$output"
	cp whole/device-1.rec tape/
	printf 'X' | dd of=tape/device-1.rec bs=1 seek=100 conv=notrunc status=none
	run bounded gpuctl replay tape
	assert_status 5
	[[ $output == *'device-1.rec: damaged at byte '* ]] || fail "$output"
	rm tape/device-1.rec
	run bounded gpuctl replay tape
	assert_status 5
	[[ $output == *"no recording of rank 1's device"* ]] || fail "$output"
	rm -r tape && mkdir tape
	run bounded gpuctl replay tape
	assert_status 1
	[[ $output == *'not a recording'* ]] || fail "$output"
	run bounded gpuctl replay nowhere
	assert_status 1
}

@test "a recording whose disk was full is replayed as far as it goes: no device is killed for it, and it is exit 5" {
	mkfifo in
	record 2 -- bash -c '
		gpuctl allreduce --stream <in >out &
		exec 4>in
		printf "1 2 3\n1 2 3\n" >&4
		until [ -s out ]; do :; done # it has allocated what it needs
		for pid in $(gpuctl devices | grep -o " [0-9]* *ipc" | cut -d " " -f 2); do prlimit --pid "$pid" --fsize=8192; done
		yes "1 2 3" | head -n 400 >&4
		exec 4>&-
		wait' 2>said
	assert_equal "$(uniq out)" '2 4 6'
	assert_equal "$(grep -c 'recording stops here' said)" 2
	run --separate-stderr bounded gpuctl replay tape
	assert_status 5
	[[ $output == *', 0 were in operations that failed again '*', 0 differ;'* ]] || fail "$output"
	assert_equal "$stderr" 'gpuctl: replay: tape: the recording is incomplete: writing it failed, as on a full disk; only the recorded part was replayed'
}

@test "a folder with a recording is not written to" {
	record 1 -- true
	run record 1 -- true
	assert_status 8
	[[ $output == *'already has a recording' ]] || fail "$output"
	run bounded gpuctl run -n 1 --record-data -- true
	assert_status 2
}

@test "a failing chaos run leaves a recording, and prints the command that replays it" {
	run bounded gpuctl --timeout 300ms chaos -n 3 --record tape --ops 20 --seed 1 --kinds stop --rate 1/op
	assert_status 1
	[[ $output == *'replay this run with: gpuctl replay tape'* ]] || fail "$output"
	replayed
	run bounded gpuctl chaos -n 2 --record other --ops 5
	assert_status 0
	[ ! -e other ]
}

# traces - standard input as execution traces job.0.et ...
traces() {
	needs python3
	cat >spec
	rm -f job.*.et
	"$ROOT/tests/e2e/make-et" job spec
}

@test "execution traces: collectives, groups, sends and receives in the order of their dependencies" {
	traces <<-'T'
		ranks 4
		* 1 comp us=500
		* 2 all_reduce 1 size=65536
		* 3 all_gather 2 size=1000
		0 4 reduce_scatter 2 size=4096 group=left
		1 4 reduce_scatter 2 size=4096 group=left
		2 4 broadcast dep=2 size=77 group=right root=1
		3 4 broadcast dep=2 size=77 group=right root=1
		0 5 send 4 size=8192 dst=3 tag=1
		3 5 recv size=8192 src=0 tag=1
		* 6 barrier 5
		* 7 all_to_all 6 size=4000
	T
	sed -i '/^\* 6 /d; s/^\* 7 all_to_all 6/* 7 all_to_all 3/' spec
	"$ROOT/tests/e2e/make-et" job spec
	run bounded gpuctl replay job --compute-scale 2
	assert_status 0
	[[ $output == *$'\n       65536  allreduce           4  all '*' all_reduce2'* ]] || fail "$output"
	[[ $output == *$'\n        4000  allgather           4  all '* ]] || fail "$output"
	[[ $output == *$'\n        4096  reduce-scatter      2  left '* ]] || fail "$output"
	[[ $output == *$'\n          77  broadcast           2  right '* ]] || fail "$output"
	[[ $output == *$'\n        8192  sendrecv            2  all '* ]] || fail "$output"
	[[ $output == *'4 ranks, 22 nodes;'*'compute nodes 1000.0 us on the rank that computed most' ]] || fail "$output"
	run bounded gpuctl replay job.0.et job.1.et job.2.et job.3.et --json --transport tcp
	assert_status 0
	[[ $output == *'"coll":"alltoall"'*'"ranks":4,"nodes":22,'*'"compute_us":500.0}' ]] || fail "$output"
}

@test "execution traces: all ranks of a ring send before they receive" {
	traces <<-'T'
		ranks 3
		0 1 send size=100000 dst=1
		0 2 recv 1 size=100000 src=2
		1 1 send size=100000 dst=2
		1 2 recv 1 size=100000 src=0
		2 1 send size=100000 dst=0
		2 2 recv 1 size=100000 src=1
	T
	run bounded gpuctl replay job
	assert_status 0
}

# refused SENTENCE STATUS - the traces of standard input
refused() {
	traces
	run bounded gpuctl replay job
	assert_status "$2"
	[[ $output == *"$1"* ]] || fail "$output"
}

@test "execution traces that make no sense are refused" {
	refused 'comp1 (node 1 of rank 0) waits for itself: dependencies form a cycle' 5 <<<$'ranks 1\n0 1 comp 2\n0 2 comp 1'
	refused 'node 1 of rank 0) depends on node 9, which does not exist' 5 <<<$'ranks 1\n0 1 comp 9'
	refused 'two nodes have the id 1' 5 <<<$'ranks 1\n0 1 comp\n0 1 comp'
	refused 'has no counterpart on rank 1' 5 <<<$'ranks 2\n0 1 all_reduce size=8\n1 1 comp'
	refused 'is allreduce of 8 bytes, but all_reduce1 (node 1 of rank 1) is allreduce of 16 bytes' 5 <<<$'ranks 2\n0 1 all_reduce size=8\n1 1 all_reduce size=16'
	refused 'has no counterpart with its tag and size' 5 <<<$'ranks 2\n0 1 send size=8 dst=1 tag=3\n1 1 recv size=8 src=0 tag=4'
	refused 'has a comm_dst that is not another rank' 5 <<<$'ranks 2\n0 1 send size=8 dst=2\n1 1 comp'
	refused 'no progress: ' 1 <<<$'ranks 2\n0 1 recv size=8 src=1\n0 2 send 1 size=8 dst=1\n1 1 recv size=8 src=0\n1 2 send 1 size=8 dst=0'
	printf 'no trace' >job.0.et
	run bounded gpuctl replay job.0.et
	assert_status 5
	[[ $output == *'job.0.et: byte 0: damaged length' ]] || fail "$output"
}
