# GET /metrics: what Prometheus reads of a cluster, and what the examples for it ask for.
# shellcheck disable=SC2016
load helper

setup() { house_setup; }

# scrape [ACCEPT] - the answer's body
scrape() {
	local fd
	exec {fd}<>"/dev/tcp/127.0.0.1/$PORT" || return
	printf 'GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: %s\r\nConnection: close\r\n\r\n' "${1:-*/*}" >&"$fd"
	timeout 20 cat <&"$fd" | sed '1,/^\r$/d'
	exec {fd}>&-
}

# value SERIES - of the scrape in the file `text`
value() { awk -v s="$1" '$1 == s { print $2 }' "${2-text}"; }

# cluster N [OPTION...] - a coordinator that serves metrics, and N devices; sets PORT, DEVICES
cluster() {
	local k n=$1
	export GPUSIM_COORD=ipc://$T/coord
	background gpucoord --listen "$GPUSIM_COORD" --state none --http 127.0.0.1:0 -v "${@:2}" 2>said
	wait_until 10 grep -q 'http://127' said
	PORT=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\).*|\1|p' said | head -n 1)
	DEVICES=()
	for ((k = 0; k < n; k++)); do
		background gpudev --listen "ipc://$T/dev$k" --ordinal "$k" -m 16M --mem-scratch "$T/mem$k"
		DEVICES+=("$PID")
	done
	wait_until 10 has_devices "$n"
}
has_devices() { [ "$(gpuctl devices 2>/dev/null | awk '$1 ~ /^[0-9]+$/' | wc -l)" -eq "$1" ]; }

# names FILE - of the samples there, without a histogram's endings
names() { grep -v '^#' "$1" | sed 's/[{ ].*//; s/_\(bucket\|sum\|count\)$//' | sort -u; }

@test "metrics: promtool accepts them, and the examples' configuration" {
	needs promtool
	cluster 2
	bounded gpuctl bench -b 1K -e 1M -f 32 --iters 2 >/dev/null
	scrape >text
	run promtool check metrics <text
	assert_status 0
	assert_output ''
	run promtool check config "$ROOT/examples/prometheus.yml"
	assert_status 0
}

@test "metrics: operations are counted as they were, for OpenMetrics too" {
	cluster 2
	scrape >text
	assert_equal "$(value 'gpusim_operations_total{collective="allreduce"}')" 0
	for _ in 1 2 3; do printf '1 2\n3 4\n' | bounded gpuctl allreduce >/dev/null; done
	scrape >text
	assert_equal "$(value 'gpusim_operations_total{collective="allreduce"}')" 6
	assert_equal "$(value 'gpusim_operation_bytes_total{collective="allreduce"}')" $((6 * 16))
	assert_equal "$(value 'gpusim_operation_duration_seconds_count{collective="allreduce",size="1K"}')" 6
	assert_equal "$(value 'gpusim_operation_duration_seconds_bucket{collective="allreduce",size="1K",le="+Inf"}')" 6
	assert_equal "$(value 'gpusim_devices{state="free"}')" 2
	assert_equal "$(grep -c '^gpusim_device_memory_size_bytes.* 16777216$' text)" 2
	at_least "$(value 'gpusim_requests_total{kind="submit"}')" 3
	at_least "$(value process_open_fds)" 5
	scrape 'application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5' >open
	assert_equal "$(tail -n 1 open)" '# EOF'
	grep -qx '# TYPE gpusim_operations counter' open || fail "$(<open)"
	assert_equal "$(value 'gpusim_operations_total{collective="allreduce"}' open)" 6
}

@test "metrics: no sum goes back when a device dies, and another comes" {
	cluster 3
	bounded gpuctl bench -n 3 -b 1K -e 64K -f 8 --iters 3 >/dev/null
	scrape >before
	kill -KILL "${DEVICES[1]}"
	wait_until 10 lost_one
	background gpudev --listen "ipc://$T/dev9" --ordinal 9 -m 16M --mem-scratch "$T/mem9"
	wait_until 10 has_devices 4
	bounded gpuctl bench -n 2 -b 1K -e 64K -f 8 --iters 3 >/dev/null
	scrape >text
	assert_equal "$(value 'gpusim_devices{state="lost"}')" 1
	assert_equal "$(grep -c '^gpusim_device_up{.*gpu="1"} 0$' text)" 1
	assert_equal "$(value 'gpusim_events_total{kind="lost"}')" 1
	awk '/^#/ || !/_total|_bucket|_sum|_count/ { next }
		NR == FNR { was[$1] = $2; next }
		{ now[$1] = $2 }
		END { for (s in was) if (!(s in now) || now[s] < was[s]) { print s, was[s], now[s]; bad = 1 }; exit bad }' \
		before text || fail 'a counter has gone back'
	at_least "$(value 'gpusim_operations_total{collective="allreduce"}')" \
		"$(($(value 'gpusim_operations_total{collective="allreduce"}' before) + 2))"
}
lost_one() { scrape >now && [ "$(value 'gpusim_devices{state="lost"}' now)" = 1 ]; }

@test "metrics: recoveries and failures, by cause" {
	cluster 4 --on-failure shrink
	bounded gpuctl comm-init -n 3 --on-failure shrink >/dev/null
	kill -KILL "${DEVICES[2]}"
	wait_until 20 counts 'gpusim_recoveries_total{policy="shrink",cause="peer-unreachable"}'
	kill -KILL "${DEVICES[0]}" "${DEVICES[1]}"
	wait_until 20 counts 'gpusim_communicator_failures_total{cause="failed"}' ||
		fail "$(grep failures text)"
}
counts() { scrape >text && [ "$(value "$1")" = 1 ]; }

@test "metrics: the dashboard asks for what there is, and the manual lists all of it" {
	cluster 2
	bounded gpuctl bench -b 1K -e 1K --iters 2 >/dev/null
	scrape >text
	perl -MJSON::PP -0777 -ne 'sub walk { my $v = shift;
			if (ref $v eq "HASH") { print "$v->{expr}\n" if defined $v->{expr}; walk($_) for values %$v }
			elsif (ref $v eq "ARRAY") { walk($_) for @$v } }
		walk(decode_json($_))' "$ROOT/examples/grafana.json" >queries
	at_least "$(wc -l <queries)" 30
	grep -o '\(gpusim\|process\)_[a-z_]*' queries | sed 's/_\(bucket\|sum\|count\)$//' | sort -u >asked
	names text >there
	assert_equal "$(comm -23 asked there)" ''
	if command -v promtool >/dev/null; then
		{
			printf 'groups:\n- name: dashboard\n  rules:\n'
			awk '{ gsub(/\$__rate_interval/, "1m"); gsub(/'\''/, "&&")
				printf "  - record: q%d\n    expr: '\''%s'\''\n", NR, $0 }' queries
		} >rules.yml
		run promtool check rules rules.yml
		assert_status 0
	fi
	grep -qx 'sum(gpusim_communicators)' queries # of all states
	# Each label that a query names is one of its metric.
	grep -o '{[a-z]*[!=]*"[a-z-]*"}' queries | tr -d '{}' | sed 's/!=/=/' | sort -u >labels
	while read -r label; do
		grep -q "[{,]${label}[,}]" text || fail "no $label"
	done <labels
	while read -r name; do
		grep -q "\b$name\b" "$ROOT/man/gpucoord.8" || fail "gpucoord(8) has no $name"
	done <there
	sed -n '/^\.Sh METRICS/,/^\.Sh GRPC/p' "$ROOT/man/gpucoord.8" | grep -o '\b\(gpusim\|process\)_[a-z_]*' | sort -u >listed
	assert_equal "$(comm -23 listed there)" ''
}

@test "metrics: many concurrent clients all get them, and the coordinator ends in time" {
	cluster 2
	for i in {1..20}; do scrape >"text.$i" & pids[i]=$!; done
	for i in {1..20}; do
		wait "${pids[i]}"
		grep -q '^gpusim_uptime_seconds ' "text.$i" || fail "$(<"text.$i")"
	done
	scrape >/dev/null 2>&1 &
	kill -TERM "${BACKGROUND[0]}"
	wait_until 5 gone "${BACKGROUND[0]}"
	wait $! || true
}
