# The flight recorder of devices: what is in their memory files, during and after.
# shellcheck disable=SC2016
load helper

records() { bounded "$BUILD/e2e/records" "$@"; }

# device [OPTION...] - start device 7 on its file; returns when it is ready, its process is PID.
device() {
	ready device gpudev --coordinator none --id 7 --listen "ipc://$T/7.sock" -m 1M --mem-file "$T/mem" "$@"
}

# killed - a device that was killed has left its process.
killed() { kill -KILL "$PID" && wait_until 5 gone "$PID"; }

# whole FILE - no record of it is bad, and no interval crosses another.
whole() {
	records "$1" >whole || fail "$(cat whole)"
	not grep -E '^ring.* [1-9][0-9]* bad$' whole
}

@test "operations are recorded on every rank, in order, with their waits; intervals nest" {
	cat >job <<-'E'
		printf '1 2\n3 4\n' | gpuctl allreduce
		gpuctl bench -b 8 -e 8 --iters 50 --warmup 0 --algo ring
		comm=$(gpuctl comm-init -n 2)
		a=$(gpuctl malloc --comm $comm --rank 0 1M)
		b=$(gpuctl malloc --comm $comm --rank 1 1M)
		gpuctl send --comm $comm --rank 0 --peer 1 --addr $a --count 262144 &
		gpuctl recv --comm $comm --rank 1 --peer 0 --addr $b --count 262144
		wait
	E
	run bounded gpuctl run -n 2 --mem-file "$T/m" -- sh job
	assert_status 0
	for i in 0 1; do
		whole "$T/m.$i"
		at_least "$(grep -c "^op allreduce .* 2 elements, rank $i of 2, rc 0" whole)" 101
		grep -qE "^op (send|recv) .* 262144 elements, rank $i of 2, rc 0" whole
		assert_equal "$(grep -c '^mark attach' whole)" 3
		assert_equal "$(tail -n 1 <(grep '^mark' whole))" 'mark end, comm 0, step 0: '
		# The ring of 50 operations counts from 0, without a gap.
		grep '^op allreduce .* of 2, 2 elements' whole | sed 's/.*#\([0-9]*\) .*/\1/' | head -n 50 >numbers
		assert_equal "$(cat numbers)" "$(seq 0 49)"
	done
}

@test "a device killed in the middle of an operation leaves its records whole, and the one at hand" {
	cat >job <<-'E'
		gpuctl bench -b 1M -e 1M --iters 1000000 2>/dev/null &
		until "$BUILD/e2e/records" "$T/m.0" | grep -q ", [1-9][0-9]* overwritten"; do :; done
		kill -KILL "$(gpuctl devices --json | perl -MJSON::PP -e 'print decode_json(join "", <STDIN>)->[0]{pid}')"
		wait
		exit 0
	E
	run bounded gpuctl run -n 2 --mem-file "$T/m" -- sh job
	assert_status 0
	whole "$T/m.0"
	grep -q '^ring stream 0 used' whole
	whole "$T/m.1"
	# The survivor's operation has failed, and says so.
	grep -qE '^op allreduce .* rank 1 of 2, rc [1-9]' whole
	grep -q '^mark abort' whole
}

@test "a restarted device appends to its records; with another number of records it starts over" {
	device
	killed
	device
	killed
	assert_equal "$(records mem | grep -c '^mark start')" 2
	device --recorder 1K
	assert_equal "$(records mem | grep -c '^mark start')" 1
	killed
	device --recorder 0
	run records mem
	assert_status 1
	assert_match 'its device does not record$'
	killed
	device
	assert_equal "$(records mem | grep -c '^mark start')" 1
	run bounded gpudev --recorder 100
	assert_status 2
	assert_match "^gpudev: .*--recorder.*'100' is neither 0 nor 256 to 1M records$"
}

@test "without room for records the device works, and reports it in one line" {
	limited() { ulimit -f $((67 << 10)) && exec "$@"; }
	export -f limited
	ready device bash -c 'limited "$@"' - gpudev --coordinator none --id 7 --listen "ipc://$T/7.sock" -m 1M --mem-file "$T/mem"
	grep -q 'recording is off: .*/mem: cannot have [0-9]* bytes' device.log
	assert_equal "$(wc -l <device.log)" 1
	run records mem
	assert_status 1
}

@test "faults with their step, and memory that was refused, are marked" {
	cat >job <<-'E'
		comm=$(gpuctl comm-init -n 2)
		a=$(gpuctl malloc --comm $comm --rank 0 256)
		b=$(gpuctl malloc --comm $comm --rank 1 256)
		gpuctl inject drop rank=0 n=1 at=allreduce#1.step2
		gpuctl allreduce --comm $comm --addr $a,$b --count 2 --algo ring
		gpuctl allreduce --comm $comm --addr $a,$b --count 2 --algo ring
		gpuctl malloc --device 0 1T || exit 0
	E
	run bounded gpuctl run -n 2 --mem-file "$T/m" --allow-inject --transport ipc -- sh job
	assert_status 0
	whole "$T/m.0"
	grep -q '^mark fault, comm [0-9]*, step 2: inject: drop at allreduce#1.step2' whole
	grep -q '^mark no memory, .*: no room for 1099511627776 bytes' whole
}
