# Copies through the devices' memory files, and gpuctl bench beyond its table.
# shellcheck disable=SC2016
load helper

@test "memcpy gives the same by file and by calls" {
	head -c 3000001 /dev/urandom >in
	run bounded gpuctl run -n 2 -- bash -c '
		A=$(gpuctl malloc --device 0 4M); B=$(gpuctl malloc --device 1 4M)
		gpuctl memcpy in "0:$A"
		GPUSIM_P2P_DISABLE=1 gpuctl memcpy "0:$A:3000001" - | cmp - in
		GPUSIM_P2P_DISABLE=1 gpuctl memcpy in "0:$((A + 7))"
		gpuctl memcpy "0:$((A + 7)):3000001" - | cmp - in
		gpuctl memcpy "0:$((A + 7)):3000001" "1:$((B + 3))"
		gpuctl memcpy "1:$((B + 3)):3000001" - | cmp - in
		GPUSIM_P2P_DISABLE=0 gpuctl memcpy "1:$((B + 3)):3" - | cmp -n 3 - in'
	assert_status 0
	assert_output ''
}

@test "a device whose file somebody took away is still copied to and from" {
	run bounded gpuctl run -n 1 --mem-file "$T/m" -- bash -c '
		A=$(gpuctl malloc --device 0 64); echo before | gpuctl memcpy - "0:$A"; rm m.0
		gpuctl memcpy "0:$A:7" -; echo behind | gpuctl memcpy - "0:$A"; gpuctl memcpy "0:$A:7" -'
	assert_status 0
	assert_output $'before\nbehind'
}

@test "copies to and from a device that was killed fail" {
	run bounded gpuctl --timeout 3 run -n 2 -- bash -c '
		kill -9 "$(gpuctl devices --json | perl -MJSON::PP -e '\''print decode_json(join "", <>)->[1]{pid}'\'')"
		gpuctl memcpy 1:0x10000:4 - 2>&1; echo $?' 2>/dev/null
	assert_match 'gpuctl: memcpy: .*device [0-9a-f]{16}'
	assert_match $'\n(3|4)($|\n)' # the launcher says what it saw when it sees it
}

@test "bench --rewrite and --json: the times, and the client's" {
	run bounded gpuctl run -n 2 -- gpuctl bench -b 8 -e 4096 -f 512 --iters 5 --warmup 1 --rewrite --json
	assert_status 0
	perl -MJSON::PP -e 'my $d = decode_json(join "", <>);
		die "rewrite\n" if !$d->{rewrite} || $d->{wrong};
		die "sizes\n" if "8 4096" ne join " ", map { $_->{size} } @{$d->{rows}};
		for my $r (@{$d->{rows}}) {
			die "columns\n" if "f32 sum -1" ne "$r->{type} $r->{redop} $r->{root}";
			die "client\n" if $r->{client}{min_us} <= 0 || $r->{client}{p50_us} < $r->{client}{min_us};
			for my $p (@$r{"out_of_place", "in_place"}) {
				die "time\n" if $p->{time_us} < $p->{min_us} || $p->{min_us} < 0 || exists $p->{ratio};
			}
		}' <<<"$output"
	run bounded gpuctl run -n 2 -- gpuctl bench -e 8 --iters 5
	assert_status 0
	assert_match $'\n# client-side latency: one call of 8 bytes: p50 [0-9.]+ us, min [0-9.]+ us\n'
}

# base TIME: what bench could have printed.
base() {
	printf '{"rows":[{"size":8,"out_of_place":{"time_us":%s,"wrong":0},"in_place":null}]}\n' "$1" >base
}

@test "bench --baseline compares, --max-slowdown decides" {
	base 1e-6
	run bounded gpuctl run -n 2 -- gpuctl bench -b 8 -e 16 --iters 5 --baseline base
	assert_status 0
	assert_match $'\n# +8  times the baseline:  out-of-place [0-9.e+]+  in-place N/A\n'
	assert_match $'\n# +16  times the baseline:  out-of-place N/A  in-place N/A\n'
	run bounded gpuctl run -n 2 -- gpuctl bench -e 8 --iters 5 --baseline base --max-slowdown 100 --json
	assert_status 7
	assert_match '"ratio":'
	assert_match 'gpuctl: bench: took [0-9.e+]+ times as long as in base; at most 100 is allowed'
	base 1e9
	run bounded gpuctl run -n 2 -- gpuctl bench -e 8 --iters 5 --baseline base --max-slowdown 1
	assert_status 0
}

@test "bench: a baseline that is none" {
	run gpuctl bench --max-slowdown 2
	assert_status 2
	assert_output 'gpuctl: bench: --max-slowdown: needs --baseline'
	run gpuctl bench --max-slowdown 0 --baseline x
	assert_status 2
	run gpuctl bench --baseline missing
	assert_status 1
	assert_output 'gpuctl: bench: missing: No such file or directory'
	for text in '' '{"rows":[]}' '{"rows":[{"size":8}' '{"rows":[{"size":8}]} x' '[[[[[[[[[[1]]]]]]]]]]' \
		'{"rows":[{"size":-1}]}' '{"rows":{"size"' '"'; do
		printf %s "$text" >bad
		run gpuctl bench --baseline bad
		assert_status 5
		assert_output 'gpuctl: bench: bad: not the output of gpuctl bench --json'
	done
}
