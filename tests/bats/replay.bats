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
	assert_equal "$(number 'ended well again')" 15
}

@test "a program of NCCL: its queues are queues again" {
	record 2 --nccl --record-data -- "$PROGRAMS/nccl_premulsum"
	replayed
	at_least "$(number 'from queues')" 10
	assert_equal "$(number 'ended well again')" "$(number 'from queues')"
}

@test "sends, receives and split communicators of NCCL" {
	record 4 --nccl -- "$PROGRAMS/nccl_split"
	replayed
	run bounded gpuctl replay --json tape
	assert_status 0
	[[ $output == *'"data":false,'*'"differ":0,'* ]] || fail "$output"
}

@test "a training's steps" {
	record 2 --record-data -- mnist-train --data "$ROOT/tests/data/iris.csv" --epochs 1 >out
	replayed
	at_least "$(number 'ended well again')" 2
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
	[[ $output == *'first difference: allreduce #0 (oneshot) of communicator 1 epoch 1, rank 1 (device 1): its result has the checksum '* ]] || fail "$output"
}

@test "a damaged recording is refused, an incomplete one says so" {
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
	[[ $output == *"no file is of rank 1's device"* ]] || fail "$output"
	rm -r tape && mkdir tape
	run bounded gpuctl replay tape
	assert_status 1
	[[ $output == *'no recording'* ]] || fail "$output"
	run bounded gpuctl replay nowhere
	assert_status 1
}

@test "a folder with a recording is not written to" {
	record 1 -- true
	run record 1 -- true
	assert_status 8
	[[ $output == *'there is a recording in it already' ]] || fail "$output"
	run bounded gpuctl run -n 1 --record-data -- true
	assert_status 2
}

@test "a failing chaos run leaves a recording, and prints the command that replays it" {
	run bounded gpuctl --timeout 300ms chaos -n 3 --record tape --ops 20 --seed 1 --kinds stop --rate 1/op
	assert_status 1
	[[ $output == *'to run it again: gpuctl replay tape'* ]] || fail "$output"
	replayed
	run bounded gpuctl chaos -n 2 --record other --ops 5
	assert_status 0
	[ ! -e other ]
}
