# The live page: its contents, refused requests, and a real browser while devices die.
# shellcheck disable=SC2016,SC2030,SC2031
load helper

# get PATH [HEADER] - the answer, head and body
get() {
	local fd
	exec {fd}<>"/dev/tcp/127.0.0.1/$PORT" || return
	printf 'GET %s HTTP/1.1\r\n%s\r\n\r\n' "$1" "${2:-Host: localhost}" >&"$fd"
	timeout 20 cat <&"$fd"
	exec {fd}>&-
}
body() { get "$@" | LC_ALL=C sed '1,/^\r$/d'; }
answers() { [[ $(get "$1") == 'HTTP/1.1 200 '* ]]; }

# coordinator [OPTION...] - one with a page; sets PORT
coordinator() {
	export GPUSIM_COORD=ipc://$T/coord
	background gpucoord --listen "$GPUSIM_COORD" --state none --http 127.0.0.1:0 --report-dir none "$@" 2>said
	wait_until 10 grep -q 'live page at http' said
	PORT=$(sed -n 's|.*live page at http://127.0.0.1:\([0-9]*\)/.*|\1|p' said)
	COORD=$PID
}

# cluster N [OPTION...] - that, and N devices; sets DEVICES
cluster() {
	local k
	coordinator "${@:2}"
	DEVICES=()
	for ((k = 0; k < $1; k++)); do
		background gpudev --listen "ipc://$T/dev$k" --ordinal "$k" -m 16M --mem-scratch "$T/mem$k" --allow-inject
		DEVICES+=("$PID")
	done
	wait_until 20 has_devices "$1"
}
has_devices() { [ "$(gpuctl devices 2>/dev/null | awk '$1 ~ /^[0-9]+$/' | wc -l)" -eq "$1" ]; }

# browse ACTION... - open the page in a browser; fails when it complains of anything
browse() { PAGE_PATIENCE=$((10 * PATIENCE)) bounded "$ROOT/tests/e2e/browser.py" "http://127.0.0.1:$PORT/" "$@"; }
browser() {
	needs chromium python3
}

@test "page: one file, and a policy that lets nothing else in; whose name is not ours is refused" {
	coordinator
	get / >whole
	grep -q "^Content-Security-Policy: default-src 'none'; script-src 'nonce-" whole
	grep -q '^X-Content-Type-Options: nosniff' whole
	local nonce
	nonce=$(sed -n "s/.*script-src 'nonce-\([^']*\)'.*/\1/p" whole)
	(($(grep -c "nonce=\"$nonce\"" whole) == 2))
	[[ $(get / | sed -n "s/.*script-src 'nonce-\([^']*\)'.*/\1/p") != "$nonce" ]]
	run ! grep -E '(src|href)="?https?:|@import|url\(' whole
	for host in evil.example 127.0.0.1.evil.example 10.1.2.3 ''; do
		run get / "Host: $host"
		assert_match '^HTTP/1.1 421 '
	done
	for host in localhost "localhost:$PORT" 127.0.0.1 "127.0.0.1:$PORT" '[::1]:9'; do
		run get /status.json "Host: $host"
		assert_match '^HTTP/1.1 200 '
	done
	run get /status.json 'X: no host'
	assert_match '^HTTP/1.1 400 '
	background gpucoord --listen "ipc://$T/c2" --state none --http 127.0.0.1:0 --http-host gpus.lan,b 2>said2
	wait_until 10 grep -q 'live page' said2
	PORT=$(sed -n 's|.*live page at http://127.0.0.1:\([0-9]*\)/.*|\1|p' said2)
	run get / 'Host: gpus.lan:80'
	assert_match '^HTTP/1.1 200 '
}

# states - the names of devices' states in /status.json, and their words for people
states() { sed -n 's/^\tX([A-Z]*, "\([a-z]*\)", "\([a-z]*\)").*/\1 \2/p' "$ROOT/lib/observe/view/top.h"; }

@test "page: style, legend and manuals have the states of /status.json, and no other" {
	coordinator
	body / >whole
	states | cut -d ' ' -f 1 | sort >names
	at_least "$(wc -l <names)" 8
	grep '^\[data-state=.* { --tone: ' whole | grep -o 'data-state=[a-z]*' | sed 's/.*=//' | sort >styled
	diff names styled
	grep -o 'class="key" data-state="[a-z]*"' whole | cut -d '"' -f 4 | sort >legend
	at_least "$(wc -l <legend)" 5
	assert_equal "$(comm -13 names legend)" ''
	sed -n 's/^\.Pq \(free ,.*\)/\1/p' "$ROOT/man/gpucoord.8" | sed 's/ No or / , /; s/ ,/\n/g' | xargs -n 1 | sort >manual
	diff names manual
	sed -n '/^\.It Li STATE/,/^\.It Li OPERATION/s/^\.Cm //p' "$ROOT/man/gpuctl.1" | tr -c 'a-z\n' '\n' | grep . | sort >top
	states | cut -d ' ' -f 2 | sort | diff - top
}

@test "page: status.json and trace.json are JSON, and say what gpuctl says" {
	needs python3
	cluster 2
	printf '1 2\n3 4\n' | bounded gpuctl allreduce
	wait_until 10 all_free # a second after the operation
	body /trace.json >t.json
	body '/trace.json?last=all' >a.json
	python3 - <<-END
		import json
		s, t, a = (json.load(open(f)) for f in ("s.json", "t.json", "a.json"))
		assert s["format"] == 1 and [d["index"] for d in s["devices"]] == [0, 1]
		assert [d["pid"] for d in s["devices"]] == [${DEVICES[0]}, ${DEVICES[1]}]
		assert s["pid"] == $COORD and s["culprit"] == "" and s["events"][0]["kind"] == "started"
		assert {d["state"] for d in s["devices"]} == {"free"} and s["comms"] == [] and s["commsMade"] == 1
		assert any(e["ph"] == "X" and e["name"].startswith("allreduce") for e in a), a
	END
	run get '/trace.json?last=nonsense'
	assert_match '^HTTP/1.1 400 '
	assert_match "last=.*nonsense"
}

all_free() { body /status.json >s.json && [ "$(grep -o '"state":"free"' s.json | wc -l)" -eq 2 ]; }

@test "page: lines, rates and states are there before anybody listens" {
	local fd line
	cluster 2
	background gpuctl bench allreduce -n 2 -b 64K -e 64K --iters 1000000
	wait_until 10 rates_are_known
	exec {fd}<>"/dev/tcp/127.0.0.1/$PORT"
	printf 'GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n' >&"$fd"
	until [[ $line == data:* ]]; do read -r -t 10 -u "$fd" line; done
	exec {fd}>&-
	[[ $line == 'data: [['* ]]
}
# Between two operations a device is not idle.
rates_are_known() {
	body /status.json >s.json
	grep -q '"rates":{"seconds":[1-9][^}]*"opsPerSecond":[1-9]' s.json && [ "$(grep -o '"state":"runs"' s.json | wc -l)" -eq 2 ]
}

@test "page: events have a limit of listeners, and strangers keep nobody off" {
	local fd fds=() i
	cluster 1
	for ((i = 0; i < 16; i++)); do
		exec {fd}<>"/dev/tcp/127.0.0.1/$PORT"
		printf 'GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n' >&"$fd"
		read -r -t $((10 * PATIENCE)) -u "$fd" line
		[[ $line == 'HTTP/1.1 200 '* ]]
		fds+=("$fd")
	done
	run get /events
	assert_match '^HTTP/1.1 503 '
	for ((i = 0; i < 200; i++)); do # who say nothing, a letter, or garbage
		exec {fd}<>"/dev/tcp/127.0.0.1/$PORT"
		((i % 3)) || printf '\377\376garbage\n\n' >&"$fd" || true
		((i % 3 != 1)) || printf G >&"$fd"
		fds+=("$fd")
	done
	wait_until 10 answers /status.json
	run bounded gpuctl devices
	assert_status 0
	for fd in "${fds[@]}"; do exec {fd}>&-; done
	exec {fd}<>"/dev/tcp/127.0.0.1/$PORT" # when they have gone, there is room again
	wait_until 10 events_begin
	exec {fd}>&-
	((i == 200))
}
events_begin() {
	local fd line
	exec {fd}<>"/dev/tcp/127.0.0.1/$PORT"
	printf 'GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n' >&"$fd"
	read -r -t 10 -u "$fd" line
	exec {fd}>&-
	[[ $line == 'HTTP/1.1 200 '* ]]
}

@test "page: in a browser: devices, a killed one turns red, by keyboard, dark and on a phone" {
	browser
	cluster 3
	browse 'wait=document.querySelectorAll("#device-rows tr[data-state=free]").length === 3' \
		'wait=document.getElementById("link").dataset.state === "live"' \
		'wait=/joined/.test(document.getElementById("events").textContent)' \
		'wait=document.getElementById("comms-made").textContent === "No communicator yet."' \
		'run=gpuctl barrier -n 3' 'wait=document.getElementById("comms-made").textContent === "No communicator now: 1 has ended."' \
		'key=Tab' 'wait=document.activeElement.getAttribute("href") === "#devices"' \
		'key=p' 'wait=document.getElementById("pause").getAttribute("aria-pressed") === "true"' \
		'key=p' 'wait=document.getElementById("pause").getAttribute("aria-pressed") === "false"' \
		"run=kill -KILL ${DEVICES[1]}" \
		'wait=document.querySelector("#device-rows tr[data-state=gone], #device-rows tr[data-state=lost]")' \
		'wait=document.querySelector("#device-rows tr[data-state=lost] .badge").textContent === "lost"' \
		'print=document.querySelector("tr[data-state=lost]").textContent' \
		'print=getComputedStyle(document.querySelector("tr[data-state=lost] .badge")).color' \
		scheme=dark 'print=getComputedStyle(document.documentElement).backgroundColor' \
		size=390x844 'print=document.documentElement.scrollWidth' "shot=$T/phone.png" >told
	mapfile -t told <told
	[[ ${told[0]} == *"${DEVICES[1]}"* ]]
	assert_equal "${told[1]}" 'rgb(201, 32, 26)'
	assert_equal "${told[2]}" 'rgb(13, 17, 23)'
	((told[3] <= 390))
	[ -s phone.png ]
}

@test "page: in a browser: each state has its colour, which can be read, and its arc; light, dark, on a phone" {
	browser
	cluster 1
	local look
	look=$(<"$ROOT/tests/bats/fixtures/page_states.js")
	look=print=${look/STATES/[$(states | sed 's/ .*//; s/.*/"&"/' | paste -sd ,)]}
	browse 'wait=document.querySelector("#device-rows tr[data-state=free]")' scheme=light "$look" scheme=dark "$look" \
		size=390x844 "$look" scheme=light "$look" >told
	assert_equal "$(sort -u told)" ''
	[ "$(wc -l <told)" -eq 4 ]
}

@test "page: in a browser: a training's curve, its ring, and the one that all wait for" {
	browser
	cluster 4 --allow-inject --heartbeat 400ms --missed 64/64 # a stopped device is not lost before the browser has seen it
	background mnist-train --devices 4 --data "$ROOT/tests/data/digits.csv.gz" \
		--layers 784,256,10 --batch 16 --epochs 100000 --algo ring >out
	wait_until 20 grep -q 'epoch 3/' out
	local pid
	pid=$(body /status.json | python3 -c 'import json, sys; print(json.load(sys.stdin)["devices"][2]["pid"])')
	browse 'wait=!document.getElementById("training").hidden' \
		'wait=document.querySelector("#c-loss .l").getAttribute("d").length > 10' \
		'wait=document.querySelectorAll(".card svg .node").length === 4' \
		'wait=document.querySelectorAll(".card svg .node[data-state=runs] .done").length > 1' \
		'wait=document.querySelectorAll("#device-rows tr[data-state=runs]").length === 4' \
		'wait=document.querySelector(".card svg").getAttribute("aria-label").includes("as a ring")' \
		'wait=points.length > 0 && points[points.length - 1][1] > 0' \
		'run=gpuctl inject --comm 1 stop rank=2 at=allreduce#next.step2' \
		'wait=document.querySelector("#device-rows tr:nth-child(3)").dataset.state === "stopped"' \
		'wait=document.getElementById("culprit").textContent.includes("rank 1:2 (device ")' \
		'wait=document.querySelectorAll(".card svg path.wait.blame").length > 0' \
		"run=kill -CONT $pid" \
		'wait=document.getElementById("culprit").hidden'
}
