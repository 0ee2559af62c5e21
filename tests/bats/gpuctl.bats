# gpuctl's verbs, end to end.
# shellcheck disable=SC2001,SC2016,SC2030,SC2031
load helper
load verbs

# machine N [OPTION...] SCRIPT - run a bash script with N devices. In it:
#	try CMD...	run it, then print its exit status
#	f32 DEVICE:ADDR:BYTES	print memory as floats
machine() {
	bounded gpuctl run -n "$1" "${@:2:$#-2}" -- bash -c '
		try() { "$@"; echo "$?"; }
		f32() { gpuctl memcpy "$1" - | od -An -v -tf4 | xargs; }
		'"${*: -1}"
}

is_json() { perl -MJSON::PP -e 'local $/; decode_json(<STDIN>)'; }

@test "help, version and completion come from one table" {
	run gpuctl help all
	assert_status 0
	assert_equal "$(grep -c '^[A-Z].*:$' <<<"$output")" 6
	listed=$(sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p' <<<"$output")
	run bash -c 'gpuctl completion | cut -f 1'
	assert_output "$listed"
	[[ $(wc -w <<<"$output") -gt 30 && ! $output =~ completion ]]
	for verb in $listed; do
		run gpuctl help "$verb"
		assert_status 0
		assert_match "^usage: gpuctl $verb"
		assert_equal "$(gpuctl "$verb" -h)" "$output"
		for option in $(gpuctl completion -- "$verb" - | cut -f 1); do
			assert_match $'\n'"  (-[A-Za-z], )?${option}[ ,]"
		done
	done
	# The short form: ten verbs first, then the names of all, on one screen.
	run gpuctl help
	assert_status 0
	assert_equal "$(gpuctl -h)" "$output"
	[[ $(wc -l <<<"$output") -le 48 ]]
	first=$(sed -n '/^To begin with:/,/^$/p' <<<"$output" | sed -n 's/^  \([a-z-]*\)  .*/\1/p')
	assert_equal "$(wc -w <<<"$first") $(head -n 1 <<<"$first")" '10 run'
	for verb in $listed; do
		sed '1,/^Run commands/d' <<<"$output" | grep -qwe "$verb" || fail "help does not name $verb"
	done
	run gpuctl -V
	assert_match '^gpuctl [0-9]+\.[0-9]+\.[0-9]+$'
	assert_equal "$(gpuctl version)" "$output"
}

# on_terminal CMD - what CMD prints on a terminal
on_terminal() {
	local text
	text=$(SHELL=/bin/sh /usr/bin/script -qec "$1" /dev/null </dev/null)
	echo "${text//$'\r'/}"
}

starts() { [[ $2 == "$1"* ]] || fail "expected $1"$'\n'"got: $2"; }

@test "help VERB opens the verb's page on a terminal that has man, else prints the verb's options" {
	# As in the tree: the pages lie beside the folder of the programs.
	mkdir -p fake tree/build/bin
	cp "$BUILD/bin/gpuctl" tree/build/bin
	ln -s "$ROOT/man" tree/man
	local bin=$T/tree/build/bin
	PATH=$bin:$PATH
	printf '#!/bin/sh\necho "man $*"\n' >fake/man
	chmod +x fake/man
	for verb in simulate synth tune chaos replay bench; do
		page=$(PATH=$T/fake:$PATH on_terminal "gpuctl help $verb")
		[[ $page =~ ^man\ -l\ (/.*/gpuctl-$verb\.1)$ ]] || fail "$page"
		assert_file "${BASH_REMATCH[1]}"
		# No terminal, --help, and a terminal without man: the options.
		starts "usage: gpuctl $verb" "$(PATH=$T/fake:$PATH gpuctl help "$verb")"
		starts "usage: gpuctl $verb" "$(PATH=$T/fake:$PATH on_terminal "gpuctl $verb --help")"
		starts "usage: gpuctl $verb" "$(PATH=$bin on_terminal "gpuctl help $verb")"
	done
	# A verb of gpuctl(1) has no page of its own.
	assert_equal "$(PATH=$T/fake:$PATH on_terminal 'gpuctl help malloc')" "$(gpuctl malloc -h)"
	needs man
	[[ $(MANPAGER='cat' on_terminal 'gpuctl help bench') == *'GPUCTL-BENCH(1)'* ]]
}

@test "daemons' help and version are seen to arrive, too" {
	for program in gpudev gpucoord; do
		for option in -h -V; do
			run sh -c "$program $option >/dev/full"
			assert_status 1
			assert_match "^$program: --(help|version): standard output: No space left on device\$"
		done
	done
}

@test "too few descriptors for a machine are reported" {
	for n in 8 24 75; do
		run bash -c "ulimit -n $n; gpuctl run -n 4 -- true"
		assert_status 1
		assert_output "gpuctl: run: the limit of open files is $n (ulimit -n), but 76 are needed"
	done
	for daemon in "gpucoord --listen ipc://$T/c" "gpudev -m 1M --coordinator none --listen ipc://$T/d"; do
		run bounded bash -c "ulimit -n 24; exec $daemon"
		assert_status 1
		assert_output "${daemon%% *}: the limit of open files is 24 (ulimit -n), but 64 are needed"
	done
	run bounded bash -c 'ulimit -Sn 24; exec gpuctl run -n 4 -- true'
	assert_status 0
}

@test "an error is reported, with what may be meant" {
	printf '\357\273\2771\n' >bom
	printf '1\0\n\0' >utf16
	while IFS='|' read -r line text; do
		run bounded bash -c "gpuctl $line"
		((status == 2 || status == 3 || status == 5)) || fail "exit $status of: $line"
		assert_equal "${#lines[@]}" 1
		[[ $output == "gpuctl: "*"$text"* ]] || fail "$line: $output"
	done <<'END'
run -n 0 true|-n: 0 is out of range (1 to 1024)
run -n 1 --bandwidth 10 true|'10' is 10 bits a second, but the minimum is 1kb; did you mean '10Gb' or '10Mb'?
run -n 1 --http ::1:80 true|--http: '::1:80': put an IPv6 address in brackets
run -n 1 --http http://localhost:80 true|--http: 'http://localhost:80' is neither PORT nor HOST:PORT
run -n 1 --grpc 70000 true|--grpc: '70000' is neither PORT nor HOST:PORT
run -n 1 --http 0.0.0.0:0 true|--http: 0.0.0.0:0 is reachable from other hosts, unencrypted and unauthenticated; --insecure allows that
plan allreduce -n 4 --algo rnig|did you mean 'ring'?
plan alreduce -n 4|did you mean 'allreduce'?
simulate allreduce -c h100|one of the built-in clusters: a100-dgx,
--coordinator ipc:///nowhere/c devices|no answer from there (/nowhere/c does not exist)
run -n 1 -- gpuctl allreduce <bom|the text begins as a byte order mark
run -n 1 -- gpuctl allreduce <utf16|the text begins as UTF-16
plan allreduce --algo-file utf16|it is UTF-16
END
}

@test "a collective is known in any spelling; a port stands alone" {
	for verb in all_reduce all-reduce AllReduce; do
		run bounded bash -c "seq 2 | gpuctl run -n 2 --http 0 -- gpuctl $verb 2>/dev/null"
		assert_status 0
		assert_output 3
	done
	run bounded bash -c 'printf "1 2\n3 4\n" | gpuctl run -n 2 -- gpuctl REDUCE_SCATTER'
	assert_output $'4\n6'
	assert_equal "$(gpuctl plan reduce_scatter -n 2)" "$(gpuctl plan reduce-scatter -n 2)"
	bounded gpuctl run -n 1 --insecure --http 0.0.0.0:0 --grpc 0.0.0.0:0 -- true
}

@test "top --json is one object, as /status.json" {
	run bounded gpuctl run -n 2 -- gpuctl top --json
	assert_status 0
	perl -MJSON::PP -e 'my $t = decode_json(join "", <STDIN>); exit !($t->{format} == 1 && @{$t->{devices}} == 2)' <<<"$output"
}

@test "a full standard output is an error of verbs that print continuously, too" {
	for verb in 'top --once' 'top --batch' 'top --json' 'status --watch' 'events --follow'; do
		run machine 1 "gpuctl $verb >/dev/full"
		assert_status 1
		assert_match '^gpuctl: [a-z]*: standard output: No space left on device$'
	done
}

@test "a coordinator that is frozen: exit 4 when the time is over, 3 when there is none" {
	run machine 1 'pid=$(gpuctl status --json | grep -o "\"pid\":[0-9]*" | head -n 1 | cut -d : -f 2)
		kill -STOP "$pid" # it has stopped when all of its threads have
		until ! grep -L "^State:.T" /proc/$pid/task/*/status | grep -q .; do :; done
		for t in 100ms 2500ms; do (gpuctl --timeout $t devices; echo $?) & done; wait
		kill -CONT "$pid"; gpuctl --coordinator "ipc://$TMPDIR/none" --timeout 50s devices; echo $?' 2>/dev/null
	assert_equal "$(grep -cx 'gpuctl: devices: coordinator: ipc://.*: no answer in time' <<<"$output")" 2
	assert_equal "$(grep -cx 4 <<<"$output")" 2
	assert_match 'gpuctl: devices: coordinator: ipc://.*/none: no answer from there .*'$'\n3$'
}

@test "wrong usage: one line, exit 2" {
	while read -r line; do
		run bash -c "gpuctl $line </dev/null"
		assert_status 2
		assert_equal "$(wc -l <<<"$output")" 1
		assert_match '^gpuctl: '
	done <<'END'

frob
-x
--timeout 0 devices
--timeout soon devices
--coordinator nowhere devices
run true
run -n 0 true
run -n 1
run -n 1 --mem lots true
run -n 1 --bandwidth fast true
run -n 1 --bandwidth 0 true
run -n 1 --mem 0 true
run -n 1 --op-timeout 0 true
run -n 1 --start-timeout 0 true
chaos --for 0
allreduce --chunk 0
run -n 1 --transport pigeon true
devices too many
topo 1
topo --comm first
malloc --device 0
malloc 4K
malloc --device one 4K
malloc --device 0 --rank 1 4K
memset --device 0 0x10000 256 1
memcpy only
memcpy neither nor
comm-init
comm-init -n 2 0 1
comm-destroy
comm-status x
wait
send --comm 1
group
plan
plan allreduce
plan nothing -n 4
plan allreduce -n 4 --algo nothing
plan broadcast -n 4 --root 4
plan allreduce -n 4 --count 4 --bytes 16
tune send
tune allreduce -b 1M -e 1K
bench send
bench allreduce -b 1M -e 1K
allreduce --addr 0x10000 --count 1
allreduce --type f31
help frob
END
}

@test "nobody at the coordinator's address: exit 3" {
	run gpuctl --coordinator "ipc://$T/none.sock" devices
	assert_status 3
	assert_match "^gpuctl: devices: coordinator: ipc://$T/none.sock: [^"$'\n'"]*$"
}

@test "devices and status, as text and JSON" {
	run machine 3 'gpuctl devices; gpuctl comm-init 2 0; gpuctl status
		gpuctl devices --json >d.json; gpuctl status --json >s.json; gpuctl comm-status 1 --json >c.json
		try gpuctl comm-status 2 --json'
	assert_status 0
	assert_match '^INDEX  ID .*'$'\n''    0  [0-9a-f]{16}    256M      0B  free      -  +[0-9]+  ipc://'
	assert_match $'\n1\ngpucoord '
	assert_match $'\n3 devices, 1 communicator\n'
	assert_match $'\n   1  success          2      1  abort                0        0           0  -\n'
	assert_match $'\n''gpuctl: comm-status: no communicator 2'$'\n1$'
	for f in d s c; do is_json <$f.json; done
	mapfile -t ids < <(grep -o '"id":"[0-9a-f]*"' d.json | grep -o '[0-9a-f]\{16\}')
	grep -q "\"devices\":\\[\"${ids[2]}\",\"${ids[0]}\"\\]" c.json
	grep -q '"comms":\[{"id":1,' s.json
}

@test "a device is named by index, by id, or as a rank" {
	run machine 3 'id=$(gpuctl devices | awk "\$1 == 2 { print \$2 }")
		C=$(gpuctl comm-init "$id" 1)
		A=$(gpuctl malloc --device 2 64); gpuctl memset --device "$id" "$A" 65 2
		gpuctl memset --comm "$C" --rank 0 "$((A + 2))" 66 1
		gpuctl memcpy "2:$A:3" -; gpuctl memcpy "0x$id:$A:3" -; gpuctl memcpy --comm "$C" "0:$A:3" -
		echo; try gpuctl malloc --device 3 1; try gpuctl malloc --comm "$C" --rank 2 1
		try gpuctl malloc --device 00000000000000aa 1'
	assert_status 0
	assert_output 'AABAABAAB
gpuctl: malloc: no device 3: 3 devices are known, counted from 0
1
gpuctl: malloc: communicator 1 has no rank 2: it has 2 ranks
1
gpuctl: malloc: no device 00000000000000aa
1'
}

@test "memory: allocate, copy from and to files and pipes, between devices, free" {
	head -c 3000000 /dev/urandom >in
	run machine 2 'A=$(gpuctl malloc --device 0 4M); B=$(gpuctl malloc --device 1 4M)
		echo "$A"; gpuctl memcpy in "0:$A"; gpuctl memcpy "0:$A:3000000" "1:$B"
		gpuctl memcpy "1:$B:3000000" out; cmp in out
		cat in | gpuctl memcpy - "1:$B"; gpuctl memcpy "1:$B:3000000" - | cmp in -
		gpuctl memcpy "1:$B:10" "1:$((B + 10))"; gpuctl memcpy "1:$((B + 10)):10" - | cmp -n 10 in -
		gpuctl memcpy "0:$A" "1:$((B + 5)):0"; : >empty; gpuctl memcpy empty "0:$A"
		gpuctl memcpy "0:$A:0" zero; wc -c <zero
		gpuctl free --device 0 "$A"; try gpuctl free --device 0 "$A"'
	assert_status 0
	assert_match '^0x[0-9a-f]+'$'\n0\n''gpuctl: free: device [0-9a-f]{16}: 0x[0-9a-f]+ is not the start of an allocation'$'\n2$'
}

@test "an impossible memcpy writes nothing" {
	echo hello >in
	run machine 1 'try gpuctl memcpy 0:0x10000:1T out; ls out
		try gpuctl memcpy 0:0x10000 out; try gpuctl memcpy none 0:0x10000
		try gpuctl memcpy in 0:0x10000:7; try gpuctl memcpy in 0:0x10
		try gpuctl memcpy 0:0x10000:4 none/out; try gpuctl memcpy 0:0x10000:4 /dev/full
		try gpuctl memcpy 0:0x10000:4 0:0x10004:5' 
	assert_equal "$(sed 's/[0-9a-f]\{16\}/ID/' <<<"$output")" "gpuctl: memcpy: device ID: 0x10000, 1099511627776 bytes: outside its memory 0x10000..0x10010000
2
ls: cannot access 'out': No such file or directory
gpuctl: memcpy: the number of bytes is missing: SRC must be DEVICE:ADDR:NBYTES
2
gpuctl: memcpy: none: No such file or directory
1
gpuctl: memcpy: in has 6 bytes, but 7 are needed
5
gpuctl: memcpy: device ID: 0x10, 6 bytes: outside its memory 0x10000..0x10010000
2
gpuctl: memcpy: none/out: No such file or directory
1
gpuctl: memcpy: /dev/full: No space left on device
1
gpuctl: memcpy: SRC names 4 bytes, but DST 5
2"
}

@test "kernels by name, waited for or queued" {
	run machine 1 'A=$(gpuctl malloc --device 0 64)
		gpuctl launch fill --device 0 dst="$A" n=4 dtype=f32 value=1.5; f32 "0:$A:16"
		gpuctl launch fill dst="$A" n=2 dtype=f32 value=-2e0 --device 0 --stream 7 --async
		gpuctl sync --device 0 --stream 7; f32 "0:$A:16"
		try gpuctl launch flll --device 0; try gpuctl launch fill --device 0 dst=here
		try gpuctl launch fill --device 0 n; try gpuctl launch fill --device 0 bad=1
		try gpuctl launch fill --device 0 --stream 64 n=1'
	assert_status 0
	assert_output "1.5 1.5 1.5 1.5
-2 -2 1.5 1.5
gpuctl: launch: op 0 (flll): no kernel 'flll', did you mean 'fill'?
1
gpuctl: launch: dst: 'here' is neither a number nor a type
2
gpuctl: launch: 'n' is not name=value
2
gpuctl: launch: op 0 (fill): fill: no argument is named 'bad'
2
gpuctl: launch: --stream: must be 0 to 63
2"
}

# Three devices with a communicator $C over them and 64 bytes at $A, $B and $D, filled with 1, 2, 3.
THREE='C=$(gpuctl comm-init -n 3)
	A=$(gpuctl malloc --device 0 4K); B=$(gpuctl malloc --device 1 4K); D=$(gpuctl malloc --device 2 4K)
	n=0; for x in $A $B $D; do
		gpuctl launch fill --device $n dst=$x n=16 dtype=f32 value=$((++n)); done
	'

@test "collectives on buffers: in place, out of place, queued" {
	run machine 3 "$THREE"'
		gpuctl allreduce --comm $C --addr $A,$B,$D --count 2 --type f32; f32 1:$B:12
		gpuctl allreduce --comm $C --send $A,$B,$D --recv $((A + 32)),$((B + 32)),$((D + 32)) \
			--count 4 --type f32 --op max --algo naive --chunk 8; f32 2:$((D + 32)):16
		gpuctl broadcast --comm $C --addr $A,$B,$D --count 1 --type f32 --root 2 --queue
		gpuctl wait $C; f32 0:$A:12; gpuctl comm-status $C
		gpuctl barrier --comm $C
		gpuctl reduce --comm $C --send $A,$B,$D --recv 0,$B,0 --root 1 --count 4 --type f32
		f32 1:$B:16'
	assert_status 0
	assert_output '6 6 2
6 6 3 3
6 6 1
success
18 18 6 6'
}

@test "counts are NCCL's: of a part where a vector has parts" {
	run machine 3 "$THREE"'
		gpuctl allgather --comm $C --send $A,$B,$D --recv $((A+64)),$((B+64)),$((D+64)) --count 2 --type f32
		f32 0:$((A+64)):28
		gpuctl reduce-scatter --comm $C --send $((A+64)),$((B+64)),$((D+64)) --recv $A,$B,$D --count 2 --type f32
		f32 0:$A:12; f32 2:$D:12
		gpuctl allgather --comm $C --addr $A,$B,$D --count 1 --type f32 # in place: rank r has its part
		f32 1:$B:16
		gpuctl alltoall --comm $C --send $A,$B,$D --recv $((A+128)),$((B+128)),$((D+128)) --count 1 --type f32
		f32 2:$((D+128)):16
		gpuctl gather --comm $C --addr $A,$B,$D --root 2 --count 1 --type f32; f32 2:$D:12
		gpuctl scatter --comm $C --addr $A,$B,$D --root 2 --count 1 --type f32; f32 1:$B:4'
	assert_status 0
	assert_output '1 1 2 2 3 3 0
3 3 1
9 9 3
3 6 3 2
3 3 3 0
3 3 3
3'
}

@test "wrong buffers are reported at once" {
	run machine 3 "$THREE"'
		try gpuctl allreduce --comm $C --addr $A,$B --count 1
		try gpuctl allreduce --comm $C --addr $A,$B,x --count 1
		try gpuctl allreduce --comm $C --addr $A,$B,$D
		try gpuctl allreduce --comm $C --send $A,$B,$D --count 1
		try gpuctl alltoall --comm $C --addr $A,$B,$D --count 1
		try gpuctl allreduce --comm $C --addr $A,$B,$D --count 99999999999999999999
		try gpuctl broadcast --comm $C --addr $A,$B,$D --count 1 --root 3
		try gpuctl allreduce --comm $C --addr $A,$B,$D --count 1 --all
		try gpuctl allreduce --comm 9 --addr $A,$B,$D --count 1
		try gpuctl allreduce --comm $C --addr $A,$B,7 --count 1; gpuctl comm-status $C'
	assert_status 0
	assert_output "gpuctl: allreduce: --addr: 2 addresses for 3 ranks
2
gpuctl: allreduce: --addr: 'x' is not a whole number
2
gpuctl: allreduce: --count N is missing
2
gpuctl: allreduce: the buffers are missing: use --addr, or --send and --recv
2
gpuctl: alltoall: --addr: alltoall has no in-place form; use --send and --recv
2
gpuctl: allreduce: --count: 99999999999999999999 is out of range (0 to 18446744073709551615)
2
gpuctl: broadcast: --root: no rank 3 in a communicator of 3 ranks
2
gpuctl: allreduce: --all, --raw, -n, --on-failure and --wait are for vectors on standard input, not for --addr, --send and --recv
2
gpuctl: allreduce: no communicator 9
1
gpuctl: allreduce: rank 2 operation 0: allreduce: sendAddr 0x7, 1 elements of 8 bytes: outside the device's memory 0x10000..0x10010000
2
success"
}

@test "send meets recv, whichever comes first" {
	run machine 3 "$THREE"'
		gpuctl send --comm $C --rank 0 --peer 2 --addr $A --count 2 --type f32 &
		gpuctl recv --comm $C --rank 2 --peer 0 --addr $D --count 2 --type f32; wait $!; f32 2:$D:12
		gpuctl recv --comm $C --rank 0 --peer 1 --addr $A --count 1 --type f32 --async
		gpuctl send --comm $C --rank 1 --peer 0 --addr $B --count 1 --type f32
		gpuctl wait $C; f32 0:$A:8
		try gpuctl send --comm $C --rank 1 --peer 1 --addr $B --count 1'
	assert_status 0
	assert_output '1 1 3
2 1
gpuctl: send: --peer: rank 1 is its own peer
2'
}

@test "an operation that does not end in time: exit 4, and the rank that it waits for" {
	run machine 2 'C=$(gpuctl comm-init -n 2)
		try gpuctl --timeout 2s recv --comm $C --rank 1 --peer 0 --addr 0x10000 --count 1
		GPUSIM_TIMEOUT=1s try gpuctl wait $C; gpuctl comm-status $C
		try gpuctl comm-destroy $C'
	assert_match '^gpuctl: recv: comm 1: [^'$'\n'']*rank 1[^'$'\n'']*'$'\n4\n''gpuctl: wait: [^'$'\n'']*'$'\n4\nin-progress\n0$'
}

@test "a send that nobody meets: its number counts the pair's, its time is the timeout" {
	run machine 2 --op-timeout 3s '
		C=$(gpuctl comm-init -n 2)
		echo "send --rank 0 --peer 1 --addr 0x10000 --count 4" | try gpuctl group --comm $C'
	assert_match '^gpuctl: group: comm 1: send #1 [(]direct[)], step 1 of 1: rank 1 [^'$'\n'']* has not reached the operation; last progress 3[.]0s ago; report: [^ ]*/report[.]1'$'\n4$'
}

@test "a communicator fails when a rank is lost, also when nothing runs on it" {
	run machine 3 '
		C=$(gpuctl comm-init -n 3)
		gpuctl comm-status $C
		kill -9 $(gpuctl devices | sed -n "3s/.* \([0-9]*\)  ipc.*/\1/p")
		until gpuctl devices | grep -q lost; do :; done
		gpuctl wait $C 2>&1; gpuctl comm-status $C 2>&1
		gpuctl comm-shrink $C; gpuctl comm-status $C' 2>/dev/null
	assert_match $'^success\n.*failed: comm 1 rank 1 [(]device [0-9a-f]{16}[)] lost: (killed by signal 9|its connection broke and nothing listens at [^;]*); report: [^ ]*/report[.]1\n2\nsuccess\nepoch'
}

@test "a group runs together; a mistake is reported with its line and nothing runs" {
	run machine 3 "$THREE"'
		group() { try gpuctl group --comm $C; }
		group <<END
# two things at once
allreduce --addr $A,$B,$D --count 1 --type f32

send --rank 0 --peer 1 --addr $((A + 4)) --count 1 --type f32
recv --rank 1 --peer 0 --addr $((B + 4)) --count 1 --type f32
recv --rank 0 --peer 1 --addr $((A + 8)) --count 1 --type f32
send --rank 1 --peer 0 --addr $((B + 8)) --count 1 --type f32
END
		f32 0:$A:16; f32 1:$B:16
		good="allreduce --addr $A,$B,$D --count 4 --type f32"
		for bad in frob "launch fill" "allreduce --count x" "broadcast --addr $A,$B,$D" \
			"$good --comm 7" "$good --all" "send --rank 0 --peer 0 --addr 1 --count 1" \
			"allreduce --addr $A,$B,3 --count 4"; do
			printf "%s\n\n%s\n" "$good" "$bad" | group
		done
		printf "# nothing\n" | group; f32 0:$A:16; gpuctl comm-status $C'
	assert_status 0
	assert_output "0
6 1 2 1
6 1 2 2
gpuctl: group: line 3: 'frob' is not a collective, send or recv
2
gpuctl: group: line 3: 'launch' is not a collective, send or recv
2
gpuctl: group: line 3: --count: 'x' is not a whole number
2
gpuctl: group: line 3: broadcast: --count N is missing
2
gpuctl: group: line 3: --comm: the group is on communicator 1
2
gpuctl: group: line 3: --async, --all, --raw, -n and --on-failure: not allowed in a group
2
gpuctl: group: line 3: send: --peer: rank 0 is its own peer
2
gpuctl: group: line 3: rank 2 operation 0: allreduce: sendAddr 0x3, 4 elements of 8 bytes: outside the device's memory 0x10000..0x10010000
2
gpuctl: group: no operations on standard input
5
6 1 2 1
success"
}

@test "the lab's transfer: begin both ends, poll, wait" {
	run machine 3 "$THREE"'
		S=$(gpuctl begin-send --device 0 --comm $C --peer 2 --addr $A --bytes 8)
		gpuctl stream-status --device 0 --stream $S
		gpuctl begin-receive --comm $C --rank 2 --peer 0 --stream $S --addr $D --bytes 8
		gpuctl sync --device 2 --stream $S; gpuctl sync --device 0 --stream $S
		gpuctl stream-status --device 0 --stream $S; f32 2:$D:12
		try gpuctl begin-send --device 0 --peer 9 --addr $A --bytes 8 | tail -1'
	assert_status 0
	assert_match '^in-progress'$'\n''success'$'\n''1 1 3'$'\n'
	assert_match $'\n2$'
}

@test "a transfer whose peer is lost ends at once, under every policy, and names the peer" {
	local policy
	for policy in abort shrink respawn spare; do
		run machine 3 --spares 1 --on-failure $policy "$THREE"'
			S=$(gpuctl begin-send --device 0 --comm $C --peer 2 --addr $A --bytes 8)
			gpuctl begin-receive --device 1 --comm $C --peer 2 --stream 9007199254740991 --addr $B --bytes 8
			kill -9 $(gpuctl devices | awk "\$1 == 2 { print \$7 }")
			try gpuctl sync --device 0 --stream $S; try gpuctl sync --device 1 --stream 9007199254740991
			gpuctl stream-status --device 0 --stream $S
			[ '$policy' != abort ] || { gpuctl comm-status $C
				try gpuctl sync --device 0 --stream $(gpuctl begin-send --device 0 --comm $C --peer 1 --addr $A --bytes 8); }'
		lost='comm 1 rank 2 \(device [0-9a-f]{16}\) lost: killed by signal 9(; report: [^ ]*)?'
		assert_match "gpuctl: sync: send: $lost"$'\n'"[13]"$'\n'".*gpuctl: sync: recv: $lost"$'\n'"[13]"$'\n'".*failed: send: $lost"
		[[ $policy != abort ]] || assert_match "failed: $lost"$'\n'"gpuctl: sync: send: $lost"$'\n[13]$'
	done
}

@test "a communicator ends when it is destroyed, not with the process that made it" {
	run machine 2 'C=$(gpuctl comm-init -n 2); gpuctl comm-status $C
		try gpuctl comm-init -n 1; gpuctl comm-destroy $C; try gpuctl comm-status $C
		try gpuctl comm-init 0 0; gpuctl comm-init -n 1'
	assert_equal "$(sed 's/[0-9a-f]\{16\}/ID/; s/pid [0-9]*/pid PID/' <<<"$output")" 'success
gpuctl: comm-init: busy: needs 1 device; 0 of 2 are free: comm 1, made by gpuctl comm-init (pid PID), has 2
8
gpuctl: comm-status: no communicator 1
1
gpuctl: comm-init: device ID is named twice, as rank 0 and rank 1
2
2'
}

@test "comm-split: a communicator for each color, in the order of keys, or none at all" {
	run machine 4 'C=$(gpuctl comm-init -n 4); gpuctl comm-split $C 7,0,7,-; gpuctl comm-status 2 --json
		gpuctl comm-split $C 1,1,1,1 --keys 3,1,1,0 --on-failure shrink; gpuctl comm-status 4 --json
		gpuctl devices --json; gpuctl comm-split $C -- -,-,-,-; gpuctl devices | wc -l
		try gpuctl comm-split $C 0,1,0; try gpuctl comm-split $C 0,x,0,0; try gpuctl comm-split $C 0,0,0,0 --keys 1,2
		try gpuctl comm-split 9 0; try gpuctl comm-split $C 0,0,0,0 --on-failure maybe'
	assert_status 0
	assert_match '^0 2'$'\n''7 3'$'\n'
	mapfile -t ids < <(sed -n 's/^\[//p' <<<"$output" | grep -o '"id":"[0-9a-f]*"' | cut -d'"' -f4)
	assert_match '"id":2,"state":"success",[^}]*"on_failure":"abort",[^}]*"devices":\["'"${ids[1]}"'"\]'
	assert_match '"id":4,"state":"success",[^}]*"on_failure":"[a-z]*",[^}]*"devices":\["'"${ids[3]}\",\"${ids[1]}\",\"${ids[2]}\",\"${ids[0]}"'"\]'
	assert_match $'\n5\ngpuctl: comm-split: colors: 3 given for 4 ranks\n2\n'
	assert_match "gpuctl: comm-split: colors: 'x' is not a whole number"$'\n2\n'
	assert_match $'gpuctl: comm-split: --keys: 2 given for 4 ranks\n2\n'
	assert_match $'gpuctl: comm-split: no communicator 9\n1\n'
	assert_match "gpuctl: comm-split: --on-failure: 'maybe': must be one of abort, shrink, respawn, spare"$'\n2'
}

@test "comm-split: if one cannot be made, none is" {
	run machine 2 'C=$(gpuctl comm-init -n 2); for i in $(seq 255); do gpuctl comm-init 1 >/dev/null; done
		try gpuctl comm-split $C 0,1; gpuctl status | awk "/^COMM/ { on = 1; next } on" | wc -l'
	assert_match '^gpuctl: comm-split: color 1: .*'$'\n8\n256$'
}

@test "the policy on failure: the option, else the variable, else abort" {
	run machine 1 'gpuctl comm-status $(gpuctl comm-init 0 --on-failure shrink --op-timeout 2s)
		export GPUSIM_ON_FAILURE=spare; gpuctl comm-status $(gpuctl comm-init 0)
		gpuctl comm-status $(gpuctl comm-init 0 --on-failure abort)
		export GPUSIM_ON_FAILURE=never; try gpuctl comm-init 0; echo 1 | try gpuctl allreduce --on-failure abort
		echo 1 | try gpuctl allreduce; try gpuctl allreduce --comm 1 --on-failure spare <<<1'
	output=${output/: comm 1, made by *has 1/: ...}
	assert_output "success
epoch 1, 1 rank, on failure shrink, 0 recoveries
success
epoch 1, 1 rank, on failure spare, 0 recoveries
success
gpuctl: comm-init: GPUSIM_ON_FAILURE: 'never': must be one of abort, shrink, respawn, spare
2
gpuctl: allreduce: 1 vector: busy: needs 1 device; 0 of 1 are free: ...
8
gpuctl: allreduce: GPUSIM_ON_FAILURE: 'never': must be one of abort, shrink, respawn, spare
2
gpuctl: allreduce: --on-failure: only for a new communicator, not with --comm
2"
	run bounded gpuctl run -n 1 --on-failure respawn -- sh -c 'echo $GPUSIM_ON_FAILURE'
	assert_output respawn
}

@test "plan shows a schedule without any devices" {
	run gpuctl plan allreduce --algo ring -n 4
	assert_status 0
	assert_match '^allreduce ring: '
	assert_match 'a rank sends at most 6 messages, 6 elements'
	assert_match $'\nrank 3: '
	run gpuctl plan --list
	assert_status 0
	while read -r coll algo _; do
		peer=()
		case $coll in send | recv) peer=(--rank 1 --peer 0) ;; esac
		gpuctl plan "$coll" --algo "$algo" -n 3 "${peer[@]}" >shown
		grep -q "^$coll $algo" shown
	done <<<"$output"
}

@test "params prints the settings in force" {
	GPUSIM_COORD=ipc:///x run gpuctl --timeout 5s params
	assert_status 0
	assert_match '^version=[0-9.]+  # '
	assert_match $'\ncoordinator=ipc:///x  # '
	assert_match $'\ntimeout=5000ms  # '
	not grep -qv '^[A-Za-z0-9_]*=.*  # ' <<<"$output"
}

@test "a full disk is an error for every verb that prints" {
	run machine 1 'for v in devices status topo params version help "plan allreduce -n 2" "synth allreduce -n 2" \
			"malloc --device 0 1"; do
			gpuctl $v >/dev/full; echo $?; done'
	for v in devices status topo params version help plan synth malloc; do
		assert_equal "$(head -2 <<<"$output")" "gpuctl: $v: standard output: No space left on device"$'\n1'
		output=$(tail -n +3 <<<"$output")
	done
}

@test "memory options of run reach the devices" {
	run machine 2 --mem 1M --mem-file "$T/mem" 'gpuctl devices'
	assert_status 0
	assert_match '  1M '
	assert_equal "$(stat -c %s mem.0 mem.1 | sort -u | wc -l)" 1
}

@test "a mistyped verb or option is answered with the nearest" {
	while IFS='|' read -r command meant; do
		run bounded sh -c "$command"
		assert_status 2
		assert_match "did you mean $meant"
	done <<'END'
gpuctl allredcue|'allreduce'
gpuctl comm-stats 1|'comm-status'
gpuctl devices --jsn|--json
gpuctl reduce --rot 1|--root
gpudev --memm 1G|--mem
gpucoord --hearbeat 1s|--heartbeat
mnist-train --epohcs 3|--epochs
END
	run -127 bounded gpuctl run -n 1 allreduce
	assert_output "gpuctl: run: allreduce: no such command; did you mean 'gpuctl allreduce'?"
}

@test "inject -h lists the faults with their arguments" {
	run bounded gpuctl inject -h
	assert_status 0
	for kind in kill stop slow drop corrupt cut; do
		assert_match $'\n'"  $kind +"
	done
	assert_match 'slow +by=TIME'
}

@test "--json, wherever a verb prints" {
	local n=0
	json_of_verbs
	while read -r line; do
		n=$((n + 1))
		perl -MJSON::PP -e 'local $/; my @v = JSON::PP->new->incr_parse(<STDIN>); exit !@v' <json.$n || fail "$line: $(cat json.$n)"
	done <lines
	at_least $n 30
	run bounded gpuctl run -n 2 -- sh -c 'gpuctl comm-init -n 2 >&2; gpuctl stream-status --comm 1 --rank 0 --json \
		--stream "$(gpuctl begin-send --comm 1 --rank 0 --peer 1 --addr 0x10000 --bytes 8)"'
	assert_match '\{"stream":[0-9]+,"state":"in-progress","reason":""\}$'
}

@test "a device without room reports the size that it needs" {
	run bounded gpuctl run -n 1 -- gpuctl malloc --device 0 1G
	assert_status 1
	assert_match 'no room for 1073741824 bytes: .*; for more memory: gpuctl run --mem 1G, gpudev -m$'
	run bounded gpuctl run -n 1 --mem 1M -- mnist-train --data "$ROOT/tests/data" --epochs 1
	assert_status 1
	assert_match '; for more memory: gpuctl run --mem 4M, gpudev -m$'
	run bounded gpuctl run -n 1 --mem 4M -- mnist-train --data "$ROOT/tests/data" --epochs 1
	assert_status 0
}
