# Ranks as a grid: who is where, for gpuctl topo, explain and the page; after a shrink and a restart, too.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154
load helper

setup() {
	house_setup
	export GPUSIM_COORD=ipc://$T/coord
}

teardown() {
	kill_all
	house_teardown
}

answers() { gpuctl status >/dev/null 2>&1; }
has_devices() { [ "$(gpuctl devices 2>/dev/null | awk '$1 ~ /^[0-9]+$/' | wc -l)" -eq "$1" ]; }

# coordinator - one with state and a page; sets PORT, COORD
coordinator() {
	background gpucoord --listen "$GPUSIM_COORD" --state "$T/state" --http 127.0.0.1:0 --report-dir none 2>said
	COORD=$PID
	wait_until 10 answers || fail "$(cat said)"
	PORT=$(sed -n 's|.*live page at http://127.0.0.1:\([0-9]*\)/.*|\1|p' said)
}

# devices N - sets DEVICES
devices() {
	local k
	DEVICES=()
	for ((k = 0; k < $1; k++)); do
		background gpudev --id $((k + 1)) --ordinal "$k" --listen "ipc://$T/dev$k" -m 16M --mem-scratch "$T/mem$k"
		DEVICES+=("$PID")
	done
	wait_until 20 has_devices "$1"
}

# grids - what topo prints of them
grids() { bounded gpuctl topo "$@" | sed -n '/^Communicator/,$p'; }

@test "topo: a table of places below its matrix; a shrink counts the groups again; a restart forgets nothing" {
	coordinator
	devices 8
	gpuctl comm-init 7 6 5 4 3 2 1 0 --grid dp=2,pp=2,tp=2
	local before='Communicator 1 is a grid of dp=2,tp=2,pp=2:
rank  device  dp  tp  pp
0     dev7     0   0   0
1     dev6     0   1   0
2     dev5     1   0   0
3     dev4     1   1   0
4     dev3     0   0   1
5     dev2     0   1   1
6     dev1     1   0   1
7     dev0     1   1   1'
	assert_equal "$(grids)" "$before"
	assert_equal "$(grids --comm 1)" "$before"
	kill -KILL "$COORD"
	wait_until 5 gone "$COORD"
	coordinator
	wait_until 10 has_devices 8
	assert_equal "$(grids)" "$before"
	wait_until 10 bounded gpuctl comm-shrink 1 6
	assert_equal "$(grids)" 'Communicator 1 is a grid of dp=1,tp=2,pp=2:
rank  device  dp  tp  pp
0     dev7     0   0   0
1     dev6     0   1   0
2     dev5     0   0   1
3     dev4     0   1   1
4     dev3     -   -   -
5     dev2     -   -   -
6     dev0     -   -   -'
	gpuctl comm-shrink 1 0 1 2 3
	assert_equal "$(grids)" ''
	gpuctl comm-grow 1 1 >/dev/null
	[[ $(grids) == *'grid of dp=1,tp=2,pp=2'* ]]
}

@test "topo --json: places and groups" {
	run bounded gpuctl run -n 4 --mem 8M -- sh -c \
		'gpuctl comm-init -n 4 --grid tp=2 >/dev/null && gpuctl topo --json && gpuctl comm-init 0 >/dev/null; gpuctl topo --json --comm 2'
	perl -MJSON::PP -e 'my $t = decode_json(scalar <STDIN>); my ($g, $more) = @{$t->{grids}};
		print "$g->{comm} $g->{dp} $g->{tp} $g->{pp}", $more ? " more" : "", "\n";
		print join(" ", map { $_->{device} eq $t->{devices}[$_->{rank}]{id} && "$_->{rank}:$_->{dp}$_->{tp}$_->{pp}" } @{$g->{ranks}}), "\n";
		print join(" ", map { "$_->{name}=" . join(",", @{$_->{ranks}}) } @{$g->{groups}}), "\n"' <<<"$output" >told
	assert_equal "$(cat told)" '1 2 2 1
0:000 1:010 2:100 3:110
tp0=0,1 tp1=2,3 dp0=0,2 dp1=1,3'
}

@test "grids that are none are refused with a line each, and by ranks that do not agree" {
	cat >script <<-'END'
		for grid in dp=2,tp=2 tp=8 tp=2,tp=2 tp=two cp=2 dp=2,; do gpuctl comm-init -n 3 --grid $grid || echo $?; done
		id=$(gpuctl unique-id)
		gpuctl --timeout 20s comm-init --id $id --rank 0 --nranks 2 --grid tp=3 2>&1 | sed 's/id [0-9a-f]*: //'
	END
	run bounded gpuctl run -n 3 --mem 8M -- sh script
	assert_output "gpuctl: comm-init: grid: 'dp=2,tp=2' is not a grid of 3 ranks
2
gpuctl: comm-init: grid: 'tp=8' is not a grid of 3 ranks
2
gpuctl: comm-init: grid: tp is there twice
2
gpuctl: comm-init: grid: 'tp=two' is not dp=N, tp=N or pp=N with N from 1 to 1024
2
gpuctl: comm-init: grid: 'cp=2' is not dp=N, tp=N or pp=N with N from 1 to 1024
2
gpuctl: comm-init: grid: '' is not dp=N, tp=N or pp=N with N from 1 to 1024
2
gpuctl: comm-init: grid: 'tp=3' is not a grid of 2 ranks"
	coordinator
	devices 2
	local id
	id=$(gpuctl unique-id)
	background gpuctl comm-init --id "$id" --rank 0 --nranks 2 --grid tp=2 >first
	local first=$PID
	wait_until 10 called "$id"
	run gpuctl comm-init --id "$id" --rank 1 --nranks 2 --grid dp=2
	[[ $output == *'rank 1 gives another lease, policy on failure, timeout or grid than earlier ranks' ]]
	gpuctl comm-init --id "$id" --rank 1 --nranks 2 --grid dp=1,tp=2,pp=1
	wait "$first"
	[[ $(grids) == *'grid of dp=1,tp=2,pp=1'* ]]
}

called() { gpuctl explain | grep -q "^id $1: rank 1 of 2 has been missing"; }

@test "mnist-train's communicator has its grid, in status.json and on the page" {
	needs chromium python3
	coordinator
	devices 4
	background mnist-train --devices 4 --data "$ROOT/tests/data/digits.csv.gz" --layers 784,64,10 --parallel dp=1,tp=2,pp=2 \
		--batch 16 --epochs 100000 >out 2>&1
	wait_until 20 grep -q 'epoch 1/' out
	[[ $(grids) == *'grid of dp=1,tp=2,pp=2'* ]]
	PAGE_PATIENCE=$((10 * PATIENCE)) bounded "$ROOT/tests/e2e/browser.py" "http://127.0.0.1:$PORT/" \
		'wait=document.querySelectorAll(".card svg .node").length === 4' \
		'print=document.querySelector(".card .facts").textContent' \
		'print=[...document.querySelectorAll("#device-rows .place")].map((e) => e.textContent).join()' \
		'print=[...document.querySelectorAll(".card .under")].map((e) => e.textContent).join()' \
		'print=document.querySelector(".card .node title").textContent' \
		'print=getComputedStyle(document.querySelector("#device-rows .place")).color' \
		'print=[...document.querySelectorAll(".card .under")].filter((e) => { const b = e.getBoundingClientRect(), s = e.closest("svg").getBoundingClientRect(); return b.left < s.left || b.right > s.right; }).length' \
		"shot=$T/page.png" size=390x844 'print=document.documentElement.scrollWidth' "shot=$T/phone.png" >told
	mapfile -t told <told
	[[ ${told[0]} == *'4 ranks · grid dp=1,tp=2,pp=2 · epoch 1'* ]]
	assert_equal "${told[1]}" 'd0 t0 p0,d0 t1 p0,d0 t0 p1,d0 t1 p1'
	assert_equal "${told[2]}" "${told[1]}"
	[[ ${told[3]} == *'rank 0 (d0 t0 p0): device 0000000000000001 '* ]]
	assert_equal "${told[4]}" 'rgb(90, 100, 117)'
	assert_equal "${told[5]}" 0
	((told[6] <= 390))
	[ -z "$KEEP_PICTURES" ] || cp page.png phone.png "$KEEP_PICTURES"
}

# held - explain's words once it finds that the training stands
held() {
	EXPLAINED=$(gpuctl explain) || true
	[[ $EXPLAINED == *'is stopped'* ]]
}

@test "explain: a stopped rank has its place, and so have those that wait for it" {
	coordinator
	devices 4
	background mnist-train --devices 4 --data "$ROOT/tests/data/digits.csv.gz" --layers 784,64,10 --parallel dp=2,tp=2 \
		--batch 16 --epochs 100000 >out 2>&1
	wait_until 20 grep -q 'epoch 1/' out
	kill -STOP "${DEVICES[3]}"
	wait_until 20 held || fail "$EXPLAINED"
	kill -CONT "${DEVICES[3]}"
	[[ $EXPLAINED == *"rank 3 (d1 t1 p0, device 0000000000000004, pid ${DEVICES[3]}) is stopped"* ]] || fail "$EXPLAINED"
	[[ $EXPLAINED =~ "(d1 t0 p0)"|"(d0 t1 p0)" ]] || fail "$EXPLAINED"
	[[ $EXPLAINED =~ ", "[td]p[01]" of 2 ranks" ]] || fail "$EXPLAINED"
}

# phases TRACE RANK STREAM - the phases of a rank's stream, a line each, in their order
phases() {
	RANK=$2 STREAM=$3 perl -ne '
		my ($pid) = /"pid":(\d+)/; my ($tid) = /"tid":(\d+)/;
		$want = $pid if /"process_name".*\(rank $ENV{RANK}\)/;
		$tid{$pid} = $tid if /"thread_name".*"stream $ENV{STREAM}"/;
		push @at, [$pid, $tid, /"ts":([0-9.]+)/, /"name":"([^"]*)"/] if /"cat":"phase"/;
		END { print map { "$_->[3]\n" } sort { $a->[2] <=> $b->[2] } grep { $_->[0] == $want && $_->[1] == $tid{$want} } @at }' "$1"
}

# row P - the passes of a row of zb-h1, and the step, as phases
row() {
	gpuctl pipeline make zb-h1 -p 2 -m 3 | sed -n "$(($1 + 1))p" | tr , '\n' | sed 's/^\([0-9]*\)\([FIBW]\)\([0-9]*\)$/\2 \3 (stage \1)/'
	echo step
}

@test "mnist-train --trace: each rank's passes in the schedule's order, messages, gathers and reductions by their units" {
	coordinator
	devices 4
	run bounded mnist-train --devices 4 --data "$ROOT/tests/data/digits.csv.gz" --layers 784,16,12,10 --parallel dp=2,pp=2 \
		--stages 1,2 --zero 3 --schedule zb-h1 --micro 3 --global-batch 409 --epochs 1 --trace trace --quiet
	assert_status 0
	local rank
	for rank in 0 1 2 3; do # a step, and the tests
		diff <(phases trace $rank 0 | sed '/^test/d') <(row $((rank / 2)))
	done
	assert_equal "$(phases trace 2 0 | grep -c '^test (stage 1)$')" 1
	# Of its only unit: gathered once for all passes, reduced for each microbatch.
	assert_equal "$(phases trace 1 1 | sed '/^reduce fc1$/d' | uniq)" 'gather fc1'
	assert_equal "$(phases trace 1 1 | grep -c '^reduce fc1$')" 3
	assert_equal "$(phases trace 3 1 | sort -u | paste -sd ,)" 'gather fc2,gather fc3,reduce fc2,reduce fc3'
	# To the other stage, and from it: streams 2 + 2 * stage + sends.
	assert_equal "$(phases trace 0 5 | head -3 | paste -sd ,)" 'send F 0,send F 1,send F 2'
	assert_equal "$(phases trace 0 4 | paste -sd ,)" 'recv B 0,recv B 1,recv B 2'
	assert_equal "$(phases trace 3 2 | head -3 | paste -sd ,)" 'recv F 0,recv F 1,recv F 2'
	assert_equal "$(phases trace 3 3 | paste -sd ,)" 'send B 0,send B 1,send B 2'
	bounded mnist-train --devices 2 --data "$ROOT/tests/data/digits.csv.gz" --layers 784,16,10 --global-batch 409 --epochs 1 \
		--trace plain --quiet
	assert_equal "$(phases plain 1 0 | paste -sd ,)" F,B,reduce,step
	needs python3
	for trace in trace plain; do
		run bounded /usr/bin/python3 "$BATS_TEST_DIRNAME/fixtures/trace_check.py" $trace
		assert_status 0
	done
}
