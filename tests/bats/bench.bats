# gpuctl bench: nccl-tests' table, with every element checked; and bench/run, for its sums alone.
# shellcheck disable=SC2016
load helper

# Peers that spin hold both processors where tests run side by side.
setup() {
	house_setup
	BATS_TEST_TIMEOUT=$((120 * PATIENCE))
}

bench() { bounded gpuctl run -n "$1" -- gpuctl bench "${@:2}"; }

@test "the columns are those of nccl-tests" {
	run bench 4 -b 8 -e 64K -f 16 --iters 3 --warmup 1
	assert_status 0
	assert_match '#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong'$'\n'
	assert_match $'\n''#        \(B\)    \(elements\)                               \(us\)  \(GB/s\)  \(GB/s\)            \(us\)  \(GB/s\)  \(GB/s\)       '$'\n'
	rows=$(grep -v '^#' <<<"$output")
	assert_equal "$(awk '{ print $1, $2, $3, $4, $5, $9, $13, NF }' <<<"$rows")" "8 2 float sum -1 0 0 13
128 32 float sum -1 0 0 13
2048 512 float sum -1 0 0 13
32768 8192 float sum -1 0 0 13"
	assert_match $'\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : [0-9.e-]+\n#$'
	assert_equal "$(grep -c '^#  Rank' <<<"$output")" 4
}

@test "data between devices go over ipc or tcp" {
	for kind in ipc tcp; do
		run bounded gpuctl run -n 3 --transport $kind -- bash -c \
			'gpuctl bench -b 1 -e 4M -f 64 --iters 2 --type u8 | grep -v "^#" | wc -l
			find "$GPUSIM_DIR" -name "dev*.data" | wc -l'
		assert_status 0
		assert_equal "$output" "4
$([[ $kind == tcp ]] && echo 0 || echo 3)"
	done
}

@test "busbw is algbw by the factor of nccl-tests, algbw is size by time" {
	run bounded gpuctl run -n 4 -- bash -c 'for c in allreduce broadcast reduce allgather \
		reduce-scatter alltoall gather scatter sendrecv; do echo "$c $(gpuctl bench $c -b 4M -e 4M --iters 2 \
		--warmup 0 --json)"; done'
	assert_status 0
	perl -MJSON::PP -e 'my %f = (allreduce => 1.5, broadcast => 1, reduce => 1, sendrecv => 1);
		while (<>) {
			my ($c, $j) = split / /, $_, 2;
			my $d = decode_json($j);
			my $r = $d->{rows}[0];
			die "$c: wrong\n" if $d->{wrong} || $r->{size} != 4 << 20 || $d->{nranks} != 4;
			die "$c: in place\n" if ($c =~ /alltoall|sendrecv/) != !defined $r->{in_place};
			die "$c: $d->{collective}\n" if $d->{collective} ne $c;
			for my $p (grep { defined } @$r{"out_of_place", "in_place"}) {
				my $f = $f{$c} // 0.75;
				die "$c: busbw\n" if abs($p->{busbw} / $p->{algbw} - $f) > 1e-3;
				die "$c: algbw\n" if abs($r->{size} / 1e3 / $p->{time_us} / $p->{algbw} - 1) > 1e-3;
			}
		}' <<<"$output"
}

@test "sendrecv: each rank to the next, by sockets too; not one end alone, nor one rank" {
	GPUSIM_P2P_DISABLE=1 run bounded gpuctl run -n 3 -- gpuctl bench sendrecv -b 1 -e 1M -f 32 --iters 3 --verify
	assert_status 0
	assert_match '# sendrecv algo auto nRanks 3'
	assert_match 'Out of bounds values : 0 OK'
	run bounded gpuctl run -n 2 -- gpuctl bench send
	assert_status 2
	assert_match 'send: bench measures both ends of it: sendrecv'
	run bounded gpuctl run -n 1 -- gpuctl bench sendrecv
	assert_status 2
	assert_match 'sendrecv: needs at least two ranks'
}

@test "count and size of collectives with parts: nccl-tests' meaning" {
	run bench 3 allgather -b 1000 -e 1000 --type double --iters 1
	assert_status 0
	assert_equal "$(grep -v '^#' <<<"$output" | awk '{ print $1, $2, $3, $4, $5 }')" '984 41 double none -1'
	run bench 3 reduce -b 1000 -e 1000 --type i8 --op max --root 2 --iters 1
	assert_equal "$(grep -v '^#' <<<"$output" | awk '{ print $1, $2, $3, $4, $5 }')" '1000 1000 int8 max 2'
	run bench 2 barrier --iters 1
	assert_equal "$(grep -v '^#' <<<"$output" | awk '{ print $1, $2 }')" '0 0'
}

@test "every collective, type and op gives no wrong element" {
	LIMIT=50 run bounded gpuctl run -n 3 -- bash -c '
		b() { gpuctl bench "$@" -b 1 -e 40K -f 200 --iters 1 --warmup 0 >out || echo "failed: $*"; }
		for t in $(gpuctl completion -- reduce --type "" | cut -f 1); do
			for op in $(gpuctl completion -- reduce --op "" | cut -f 1); do
				case $op:$t in b*:f* | b*:bf16) ;; *) b allreduce --type $t --op $op ;; esac
			done
			b alltoall --type $t
		done
		for c in reduce reduce-scatter; do for op in sum avg; do b $c --op $op --type bf16; done; done
		for c in broadcast allgather gather scatter reduce; do b $c --type i8; done
		for c in broadcast gather scatter reduce; do b $c --root 2 --type f16; done
		b allreduce --algo naive --type i8; b allgather --algo naive; b allreduce --chunk 64'
	assert_status 0
	assert_output ''
}

@test "without -e, the largest size is what fits" {
	run bounded gpuctl run -n 2 --mem 1M -- gpuctl bench -b 256K --iters 1 --warmup 0
	assert_status 0
	assert_equal "$(grep -v '^#' <<<"$output" | awk '{ print $1 }')" $'262144\n524288'
	run bounded gpuctl run -n 2 --mem 1M -- gpuctl bench -b 1M -e 1M
	assert_status 1
	assert_match '^gpuctl: bench: device [0-9a-f]{16}: no room for 1048576 bytes'
}

@test "as many ranks as there are devices, or -n; too many is exit 1, and busy 8" {
	run bounded gpuctl run -n 3 -- bash -c 'gpuctl bench -e 8 --iters 1 | grep -c "^#  Rank"
		gpuctl bench -n 2 -e 8 --iters 1 | grep -c "^#  Rank"; gpuctl bench -n 4 -e 8; echo $?
		gpuctl comm-init -n 3; gpuctl bench; echo $?; gpuctl comm-status 3'
	assert_match $'^3\n2\ngpuctl: bench: 4 ranks: needs 4 devices; 3 exist\n1\n3\ngpuctl: bench: 3 ranks: busy: needs 3 devices; 0 of 3 are free: comm 3, made by gpuctl comm-init .pid [0-9]*., has 3\n8\nsuccess$'
}

@test "bench/run, short: gpusim and the available peers compute the right sums, in one table per case" {
	LIMIT=110 run bounded env SHORT=1 BUILD="$BUILD" "$ROOT/bench/run"
	assert_status 0
	for title in 'All-reduce on one host, n=2' 'All-reduce over .*, n=2' 'Sends on one host' 'Shaped networks' 'The filter' 'Blocks of 4 x 16 numbers' \
		'Cold start of 4' 'MNIST 784-128-10'; do
		assert_match "### $title"
	done
	assert_equal "$(grep -cE '^\| (8 B|4 KiB) \| [0-9.]+ \|' <<<"$output")" 4
}

@test "bench/run: a peer that sums wrong ends it, so does a case nobody knows" {
	mkdir -p b/bench
	ln -s "$BUILD/bin" "$BUILD/libgpusim.a" b/
	printf '%s\n' '#!/bin/sh' 'echo 8 1.0 0' 'echo 4096 1.0 1' >b/bench/gloo
	chmod +x b/bench/gloo
	LIMIT=110 run bounded env SHORT=1 BUILD="$T/b" "$ROOT/bench/run" tcp
	assert_status 1
	assert_match 'bench/run: gloo \(bcube sync\) over tcp, n=2: wrong sums$'
	run bounded "$ROOT/bench/run" nonsense
	assert_status 2
}

# Device 0 stands still in the timed operations while its input changes; once more if it was too late.
@test "a change in device memory outside the measured time is counted as wrong" {
	cat >damage <<'END'
operations() { gpuctl status --json | grep -o '"pending":1,"operations":[0-9]*' | grep -o '[0-9]*$'; }
path=$(gpuctl devices --json | grep -o '"mem_path":"[^"]*' | cut -d '"' -f 4 | head -n 1)
pid=$(gpuctl devices | awk '$1 == 0 { print $7 }')
for iters in 2000 4000 8000 16000 32000; do
	gpuctl bench -b 1M -e 1M --warmup 0 --iters $iters --json >row &
	until n=$(operations) && ((n > iters)); do
		kill -0 $! 2>/dev/null || continue 2
	done
	kill -STOP "$pid"
	n=$(operations)
	head -c 524288 /dev/zero | tr '\0' '\63' | dd of="$path" bs=524288 seek=1 conv=notrunc status=none
	kill -CONT "$pid"
	wait $!
	code=$?
	if ((n > iters && n < 2 * iters)); then # out of place
		exit $code
	fi
done
exit 99
END
	run bounded gpuctl run -n 2 -- bash damage
	assert_status 1
	assert_match 'gpuctl: bench: [0-9]+ wrong elements'
	at_least "$(grep -o '"out_of_place":{[^}]*' row | grep -o '[0-9]*$')" 100000
}
