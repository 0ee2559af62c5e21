# Mapped memory between devices: the paths, their effect, and that nothing is left behind.
# shellcheck disable=SC2016,SC2030,SC2031
load helper

setup() {
	house_setup
	unset GPUSIM_P2P_DISABLE GPUSIM_P2P_LEVEL
}

# machine N [OPTION...] SCRIPT - run a bash script with N devices. In it:
#	memory		the devices' memory files, one a line
#	pids		and their processes
#	try CMD...	run it, then print its exit status
#	extra N [CMD...]	start one more device, with that ordinal, by CMD
machine() {
	LIMIT=40 bounded gpuctl run -n "$1" "${@:2:$#-2}" -- bash -c '
		memory() { gpuctl devices --json | grep -o "\"mem_path\":\"[^\"]*" | cut -d\" -f4; }
		pids() { gpuctl devices | awk "NR > 1 { print \$7 }"; }
		try() { "$@"; echo "$?"; }
		extra() {
			local n=$1; shift
			mkfifo "ready.$n"
			env "$@" gpudev --listen "ipc://$GPUSIM_DIR/extra.$n" --ordinal "$n" -m 16M \
				-N 9 9>"ready.$n" &
			trap "kill $!; wait $!" EXIT
			read -r _ <"ready.$n"
		}
		'"${*: -1}"
}

LEGEND='
X    itself
P2P  through memory: each has mapped the other'"'"'s
NET  through sockets
-    unknown: no communicator has both devices'

@test "devices of one host reach each other by memory" {
	run machine 3 'gpuctl topo; gpuctl status --json'
	assert_status 0
	assert_equal "${output%$'\n'*}" "      dev0  dev1  dev2
dev0  X     P2P   P2P
dev1  P2P   X     P2P
dev2  P2P   P2P   X
$LEGEND"
	assert_match '"comms":\[\]' # topo has given its communicator back
	GPUSIM_P2P_DISABLE=0 GPUSIM_P2P_LEVEL=SYS run machine 2 'gpuctl topo'
	assert_match 'dev1  P2P   X'
	GPUSIM_P2P_DISABLE='' GPUSIM_P2P_LEVEL='' run machine 2 'gpuctl topo'
	assert_match 'dev1  P2P   X'
}

@test "more devices than a line has room for: a line a group; --all: the table" {
	run machine 12 'gpuctl topo; gpuctl topo --all | wc -L'
	assert_status 0
	assert_equal "${lines[0]}" 'dev0-11                   P2P with each other'
	assert_equal "$(head -n -1 <<<"$output" | wc -L)" 48
	assert_equal "${lines[-1]}" 89
	run machine 12 'gpuctl comm-init 1 3 5 7 9 10 11 >/dev/null; gpuctl comm-init 0 2 >/dev/null; gpuctl topo'
	assert_status 0
	assert_equal "${lines[0]}" 'dev0,2                    P2P with each other, - with all others'
	assert_equal "${lines[1]}" 'dev1,3,5,7 and 3 more     P2P with each other, - with all others'
	assert_match 'dev0,2: busy in communicator 2'$'\n''dev1,3,5,7 and 3 more: busy in communicator 1'
}

# all_by_sockets REASON - as topo prints two devices
all_by_sockets() {
	assert_status 0
	assert_output "      dev0  dev1
dev0  X     NET
dev1  NET   X
$LEGEND

dev0: shares no memory: $1
dev1: shares no memory: $1"
}

@test "by sockets when the environment says so, and when the link is shaped" {
	GPUSIM_P2P_DISABLE=1 run machine 2 'gpuctl topo'
	all_by_sockets GPUSIM_P2P_DISABLE=1
	GPUSIM_P2P_LEVEL=LOC run machine 2 'gpuctl topo'
	all_by_sockets GPUSIM_P2P_LEVEL=LOC
	run machine 2 --latency 1ms 'gpuctl topo'
	all_by_sockets 'its link is shaped'
	run machine 2 --bandwidth 1Gb 'gpuctl topo'
	all_by_sockets 'its link is shaped'
}

@test "wrong values of the two variables: one line, exit 2" {
	GPUSIM_P2P_DISABLE=yes run bounded gpudev
	assert_status 2
	assert_output "gpudev: GPUSIM_P2P_DISABLE: 'yes': must be one of 0, 1"
	GPUSIM_P2P_LEVEL=NVL run bounded gpudev
	assert_status 2
	assert_output "gpudev: GPUSIM_P2P_LEVEL: 'NVL': must be one of SYS, LOC"
}

@test "topo: devices in communicators, one communicator, none such, as JSON" {
	run machine 4 'gpuctl comm-init 3 1 >/dev/null; gpuctl topo; gpuctl topo --comm 1 | head -3
		try gpuctl topo --comm 9 2>&1; gpuctl topo --json >json; gpuctl topo --json --comm 1 >one'
	assert_status 0
	assert_output "      dev0  dev1  dev2  dev3
dev0  X     -     P2P   -
dev1  -     X     -     P2P
dev2  P2P   -     X     -
dev3  -     P2P   -     X
$LEGEND

dev1: busy in communicator 1
dev3: busy in communicator 1
      dev3  dev1
dev3  X     P2P
dev1  P2P   X
gpuctl: topo: no communicator 9
1"
	perl -MJSON::PP -e 'local $/; my $t = decode_json(<STDIN>); my @d = @{$t->{devices}};
		print @d . " $d[3]{index} $d[0]{mem_private}\n";
		print join(" ", map { $_ // "null" } @$_), "\n" for @{$t->{paths}};
		print "$_->{index}: $_->{note}\n" for @{$t->{notes}}' <json >text
	assert_equal "$(cat text)" '4 3 
X null P2P null
null X null P2P
P2P null X null
null P2P null X
1: busy in communicator 1
3: busy in communicator 1'
	grep -q '"index":3,.*"index":1,.*"paths":\[\["X","P2P"\],\["P2P","X"\]\],"notes":\[\],"grids":\[\]}$' one
}

@test "topo reports a memory file that cannot be mapped" {
	run machine 3 'memory | sed -n 2p | xargs rm; gpuctl topo'
	assert_status 0
	assert_output "      dev0  dev1  dev2
dev0  X     NET   P2P
dev1  NET   X     NET
dev2  P2P   NET   X
$LEGEND

dev1: cannot share memory with dev0: one could not map the other's memory file
dev2: cannot share memory with dev1: one could not map the other's memory file"
}

@test "devices of another host are not mapped" {
	echo 00000000-0000-0000-0000-000000000000 >boot_id
	cat >elsewhere <<-'END'
		#!/bin/sh
		exec unshare -rm sh -c 'mount --bind boot_id /proc/sys/kernel/random/boot_id && exec "$@"' sh "$@"
	END
	chmod +x elsewhere
	./elsewhere true 2>/dev/null || skip "no namespaces for this user"
	run machine 1 'extra 7 ./elsewhere; printf "1 2\n3 4\n" | gpuctl allreduce; gpuctl topo'
	assert_status 0
	assert_output "4 6
      dev0  dev1
dev0  X     NET
dev1  NET   X
$LEGEND

dev1: on another host than dev0"
}

@test "GPUSIM_HOSTID, else NCCL_HOSTID, makes hosts of processes" {
	export NCCL_HOSTID=a
	run machine 1 "extra 7 GPUSIM_HOSTID=b; gpuctl topo | tail -n 1; gpuctl devices --json | grep -o '\"host\":\"[ab]\"'
		printf '1 2\n3 4\n' | gpuctl allreduce"
	assert_status 0
	assert_output 'dev1: on another host than dev0
"host":"a"
"host":"b"
4 6'
}

@test "a mixed communicator is exact; one-sided algorithms are refused on it" {
	run machine 2 'extra 7 GPUSIM_P2P_DISABLE=1; gpuctl topo | head -4
		seq -s " " 1 10007 >v; cat v v v >in; seq -s " " 3 3 30021 >want
		for a in $(gpuctl plan --list | awk "\$1 == \"allreduce\" { print \$2 }"); do
			gpuctl allreduce --algo "$a" --type i32 <in >out 2>err && cmp out want && echo "$a is exact"
			sed "s/.*: rank/rank/" err
		done
		seq 3 | gpuctl allgather --type i8; seq 3 | gpuctl alltoall 2>&1 | head -c 8'
	assert_status 0
	assert_match '^      dev0  dev1  dev2
dev0  X     P2P   NET
dev1  P2P   X     NET
dev2  NET   NET   X
'
	for a in ring naive; do assert_match "$a is exact"; done
	for a in twoshot oneshot; do
		assert_match "algorithm $a needs peer memory between all ranks, but some ranks of comm [0-9]+ use sockets"
		[[ ! $output =~ $a\ is\ exact ]]
	done
	assert_match $'\n''1 2 3'
}

@test "an algorithm without the whole communicator is refused with one line, exit 2" {
	GPUSIM_P2P_DISABLE=1 run machine 2 'printf "1\n2\n" | gpuctl allreduce --algo twoshot'
	assert_status 2
	assert_output "gpuctl: allreduce: rank 0 operation 0: algorithm twoshot needs peer memory between all ranks, but some ranks of comm 1 use sockets"
}

@test "the same bits by memory and by sockets, for each algorithm; one-sided: on every rank" {
	head -c 120084 /dev/urandom | od -An -v -tu2 | tr -s ' ' '\n' | awk 'NF { printf "%.9g\n", ($1 - 32768) / 7 }' >numbers
	split -n r/3 numbers n.
	for f in n.*; do head -n 20000 "$f" | paste -sd " "; done >in
	machine 3 'for a in ring naive; do gpuctl allreduce --type f32 --algo $a <in >mem.$a
		gpuctl reduce --type f32 --algo $a --root 1 <in >mem.r$a; done
		for a in twoshot oneshot; do gpuctl allreduce --type f32 --algo $a --all <in >mem.$a; done'
	GPUSIM_P2P_DISABLE=1 machine 3 'for a in ring naive; do gpuctl allreduce --type f32 --algo $a <in >net.$a
		gpuctl reduce --type f32 --algo $a --root 1 <in >net.r$a; done'
	for a in ring naive rring rnaive; do
		cmp "mem.$a" "net.$a"
		assert_equal "$(wc -w <"mem.$a")" 20000
	done
	# In the order of ranks, which is also that of naive.
	for a in twoshot oneshot; do
		assert_equal "$(sort -u "mem.$a" | wc -l)" 1
		assert_equal "$(wc -l <"mem.$a")" 3
		head -1 "mem.$a" | cmp - mem.naive
	done
}

@test "a device killed inside a long graph ends the call with a line that names it" {
	for a in ring twoshot; do
		run machine 3 "gpuctl bench --algo $a -n 3 -b 256K -e 256K --warmup 0 --iters 1000000 >/dev/null 2>err & call=\$!
			# a million of them are the graph; the few before it check the result
			until gpuctl status --json | grep -q '\"operations\":1[0-9]\{6\},.*\"progress\":\[{'; do :; done
			memory >files; kill -9 \$(pids | sed -n 2p)
			wait \$call; echo \$?; cat err"
		assert_match $'(^|\n)3\ngpuctl: bench: comm 1: allreduce #[0-9]+ \('$a'\), step [0-9]+ of [0-9]+: rank 1 \(device [0-9a-f]{16}\) lost: '
		assert_equal "$(wc -l <err)" 1
		while read -r f; do refute_file "$f"; done <files
		assert_equal "$(wc -l <files)" 3
	done
}

@test "a hundred communicators leave no mapping and no descriptor in the devices" {
	run machine 3 'one() { C=$(gpuctl comm-init -n 3); seq 3 | gpuctl allreduce --comm $C; gpuctl comm-destroy $C; }
		mapped() { for p in $(pids); do grep -c gpusim- /proc/$p/maps; done | xargs; }
		count() { for p in $(pids); do wc -l </proc/$p/maps; ls /proc/$p/fd | wc -l; done | xargs; }
		one; C=$(gpuctl comm-init -n 3); mapped; seq 3 | gpuctl allreduce --comm $C; mapped
		gpuctl comm-destroy $C; mapped
		for ((i = 0; i < 10; i++)); do one; done >/dev/null; before=$(count)
		for ((i = 0; i < 100; i++)); do one; done | sort | uniq -c | xargs
		mapped; echo $before $(count)'
	assert_status 0
	assert_match $'^6\n2 2 2\n6\n4 4 4\n2 2 2\n100 6\n2 2 2\n' # its own and its recorder; a peer's when it is met
	# lines of maps and descriptors of three devices: a few may come (a thread's arena), not a hundred
	read -ra n <<<"${lines[-1]}"
	assert_equal "${#n[@]}" 12
	for ((i = 0; i < 6; i++)); do
		((n[i + 6] <= n[i] + 20)) || fail "grew: ${lines[-1]}"
	done
}

@test "nothing stays in /dev/shm" {
	run machine 3 'memory; printf "1\n2\n3\n" | gpuctl allreduce --algo twoshot >/dev/null; memory | xargs ls >/dev/null'
	assert_status 0
	[[ ${#lines[@]} == 3 ]]
	for f in "${lines[@]}"; do refute_file "$f"; done
	assert_nothing_left
}
