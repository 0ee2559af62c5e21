# Memory that outlives its device, however that ends.
# shellcheck disable=SC2016
load helper

# device - start device 7 on its file; returns when it is ready, its process is PID.
device() {
	background gpudev --id 7 --listen "ipc://$T/7.sock" -m 64M "$@" -N 4 4>ready
	wait_until 10 test -s ready
}

coordinator() {
	export GPUSIM_COORD=ipc://$T/c.sock
	background gpucoord -N 4 4>ready
	wait_until 10 test -s ready
}

# said KEY - what the coordinator says of the device.
said() {
	bounded gpuctl devices --json |
		perl -MJSON::PP -e 'my $k = shift; print decode_json(join "", <STDIN>)->[0]{$k}' "$1"
}

restarted() { [ "$(said pid)" != "$1" ] && [ "$(said state)" = free ]; }

@test "a device that is killed and started again has its allocations and contents" {
	coordinator
	device --mem-file "$T/mem"
	head -c 3000001 /dev/urandom >in
	a=$(bounded gpuctl malloc --device 0 1M)
	b=$(bounded gpuctl malloc --device 0 4M)
	bounded gpuctl free --device 0 "$a"
	bounded gpuctl memcpy in "0:$b"
	pid=$PID
	kill -KILL "$PID" && wait_until 5 gone "$PID"
	device --mem-file "$T/mem"
	wait_until 5 restarted "$pid"
	assert_equal "$(said used_bytes)" $((4 << 20))
	bounded gpuctl memcpy "0:$b:3000001" - | cmp - in
	GPUSIM_P2P_DISABLE=1 bounded gpuctl memcpy "0:$b:3000001" - | cmp - in
	assert_equal "$(bounded gpuctl malloc --device 0 1M)" "$a"
	bounded gpuctl free --device 0 "$b"
	run bounded gpuctl free --device 0 "$b"
	assert_status 2
}

@test "a file is copied whole, or refused: not its beginning" {
	coordinator
	device --mem-file "$T/mem"
	a=$(bounded gpuctl malloc --device 0 1M)
	printf '1 2 3\n4 5 6\n7 8 9\n' >in
	for wrong in "in 0:$a:16 5 in has 18 bytes, but 16 are needed" "in 0:$a:0 5 in has 18 bytes, but 0 are needed" \
		"in 0:$a:24 5 in has 18 bytes, but 24 are needed"; do
		read -r src dst status text <<<"$wrong"
		run bounded gpuctl memcpy "$src" "$dst"
		assert_status "$status"
		assert_output "gpuctl: memcpy: $text"
	done
	bounded gpuctl memcpy in "0:$a:18"
	printf '1 2 3\n4 5 6\n7 8 9\nmore' | bounded gpuctl memcpy - "0:$a:18" # a pipe may have more
	bounded gpuctl memcpy "0:$a:18" - | cmp - in
}

@test "a table of allocations with something else in it is one line and exit 5" {
	coordinator
	device --mem-file "$T/mem"
	bounded gpuctl malloc --device 0 1M >a
	kill -KILL "$PID" && wait_until 5 gone "$PID"
	printf x | dd of=mem bs=1 seek=$((4096 + 2 * (64 << 20) + 3)) conv=notrunc 2>/dev/null
	run bounded gpudev --id 7 --listen "ipc://$T/7.sock" -m 64M --mem-file "$T/mem"
	assert_status 5
	assert_match "^gpudev: .*$T/mem: the table of allocations is damaged at 0x10000: remove the file"
	assert_equal "${#lines[@]}" 1
}

@test "memory without a name is there again under the device's id" {
	coordinator
	device
	file=$(said mem_path)
	bounded gpuctl malloc --device 0 1M >a
	kill -KILL "$PID" && wait_until 5 gone "$PID"
	assert_file "$file"
	pid=$PID
	device
	wait_until 5 restarted "$pid"
	assert_equal "$(said used_bytes)" $((1 << 20))
	kill "$PID" && wait_until 5 gone "$PID"
	refute_file "$file"
}

# memory_of PID - its memory file
memory_of() { find /proc/"$1"/fd -lname '/dev/shm/gpusim-*' -printf '%l\n' | head -n 1; }

# alone NAME - a device that nobody launched; sets PID and FILE
alone() {
	ready "$1" gpudev -m 1M --listen "ipc://$T/$1"
	FILE=$(memory_of "$PID")
	assert_file "$FILE"
}

@test "the memory of a device that was killed is removed by whoever comes next" {
	unset GPUSIM_COORD
	alone a --coordinator none
	first=$FILE
	kill -KILL "$PID"
	wait_until 10 gone "$PID"
	alone b
	refute_file "$first"
	second=$FILE
	kill -KILL "$PID"
	wait_until 10 gone "$PID"
	run bounded gpuctl run -n 1 -- true
	refute_file "$second"
	alone c
	assert_file "$FILE"
	run bounded gpuctl run -n 1 -- true
	assert_file "$FILE" # it lives
}

@test "a coordinator removes the memory of a device that nobody waits for" {
	coordinator
	alone a
	kill -KILL "$PID"
	wait_until 10 test ! -e "$FILE"
}

@test "memory that was given a file is never removed" {
	ready dev gpudev -m 1M --listen "ipc://$T/d" --coordinator none --mem-file "/dev/shm/gpusim-$(id -u)-$$.kept"
	kill -KILL "$PID"
	wait_until 10 gone "$PID"
	run bounded gpuctl run -n 1 -- true
	assert_file "/dev/shm/gpusim-$(id -u)-$$.kept"
	rm "/dev/shm/gpusim-$(id -u)-$$.kept"
}
