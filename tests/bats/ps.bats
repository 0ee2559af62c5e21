# A parameter server: learners are killed, come, and are all gone; and its models over HTTP.
# shellcheck disable=SC2016,SC2030,SC2031
load helper
load training

setup() {
	house_setup
	TRAIN=(mnist-train --data "$ROOT/tests/data" --train-items 120 --layers "784,16,10" --batch 16)
	EPOCHS=40
}

# machine N OPTION... SCRIPT - run a bash script with N devices. In it, beside what TRAINING has, and with
# "$@" what trains:
#	learners		their processes
#	address			where the server is
#	frozen CMD...		do that while the server stands still, so that it is not done before
machine() {
	LIMIT=${LIMIT:-50} bounded gpuctl run -n "$1" "${@:2:$#-2}" -- bash -c "$TRAINING"'
		learners() { pgrep -P "$trainer"; }
		address() { sed -n "s/.* parameter server at //p" out; }
		frozen() { kill -STOP "$trainer"; "$@"; kill -CONT "$trainer"; }
		'"${*: -1}" -- "${TRAIN[@]}" --epochs "$EPOCHS" --sync ps
}

# undisturbed N OPTION... - leaves whole and whole.npz
undisturbed() {
	bounded gpuctl run -n "$1" -- "${TRAIN[@]}" --epochs "$EPOCHS" --sync ps "${@:2}" --save whole.npz >whole
}

@test "synchronous: the same as all-reduce, with a last batch that is smaller, too" {
	TRAIN+=(--train-items 116)
	bounded gpuctl run -n 3 -- "${TRAIN[@]}" --epochs "$EPOCHS" >allreduce
	undisturbed 4
	close_to "$(loss whole)" "$(loss allreduce)" 0.0002
	close_to "$(accuracy whole)" "$(accuracy allreduce)" 0.4
}

@test "batch norm, an adaptive optimizer, a schedule and more learners than gradients of an update" {
	images small 8 40
	run bounded gpuctl run -n 4 -- mnist-train --data small --sync ps --model resnet9 --batch 8 --epochs 1 \
		--optimizer adam --lr-schedule cosine --ps-aggregate 2
	assert_status 0
	assert_match 'epoch 1/1  loss [0-9.]+ '
}

@test "asynchronous, and bounded: it learns" {
	local how
	for how in async 2; do
		undisturbed 4 --staleness $how
		awk -v l="$(loss whole)" 'BEGIN { exit !(l != "" && l < 0.5) }' || fail "$(cat whole)"
	done
}

@test "learners that are killed: another does their work, and the weights are the same to the bit" {
	undisturbed 4
	run machine 4 'train "$@" --save again.npz
		reached 2; frozen kill -KILL $(learners | head -n 1); said "; 2 left"
		reached 6; frozen kill -KILL $(learners | tail -n 1); said "; 1 left"; wait $trainer'
	assert_status 0
	assert_equal "$(grep -c '^learner [0-9]* (device [0-9a-f]*, process [0-9]*) is gone; [12] left$' out)" 2
	assert_equal "$(cat err)" ''
	cmp whole.npz again.npz
	assert_equal "$(loss out)" "$(loss whole)"
}

@test "a learner whose device is killed leaves, with a line, and nothing is lost" {
	undisturbed 3
	run machine 3 'train "$@" --save again.npz; reached 2
		frozen kill -KILL $(gpuctl devices | awk '\''$5 == "busy" && $6 != 1 { print $7; exit }'\'')
		said "; 1 left"; wait $trainer'
	assert_status 0
	assert_equal "$(grep -c '^learner [0-9]* (device .*) \(leaves: .*\|is gone\); 1 left$' out)" 1
	assert_equal "$(grep -c '^mnist-train: learner: ' err)" 1
	cmp whole.npz again.npz
}

@test "one killed among asynchronous ones: training continues" {
	run machine 4 'train "$@" --staleness async; reached 2
		frozen kill -KILL $(learners | head -n 1); said "; 2 left"; wait $trainer'
	assert_status 0
	assert_equal "$(grep -c '^epoch ' out)" "$EPOCHS"
	awk -v l="$(loss out)" 'BEGIN { exit !(l != "" && l < 0.5) }' || fail "$(cat out)"
}

@test "a learner that comes by hand, and one that would learn something else" {
	EPOCHS=20
	# While its only learner stands still, training does.
	run machine 4 'train "$@" --workers 1; reached 1; one=$(learners); kill -STOP $one
		mnist-train --data "$3" --train-items 120 --layers 784,33,10 --learn "$(address)" 2>other || echo $? >>other
		mnist-train --data "$3" --train-items 120 --layers 784,16,10 --learn "$(address)" 2>third & third=$!
		said " has joined; 2 present"; kill -CONT $one; wait $third && echo learnt >>third; wait $trainer'
	assert_status 0
	assert_equal "$(cat third)" learnt
	assert_equal "$(cat other)" 'mnist-train: learner: the server trains mlp 784-16-10 relu cross-entropy, not mlp 784-33-10 relu cross-entropy
2'
	assert_equal "$(grep -c '^epoch ' out)" "$EPOCHS"
}

# nowhere CMD... - where there is no data set
nowhere() { (mkdir -p empty && cd empty && env -u GPUSIM_DATA "$@"); }

@test "fed with samples: learners without files learn the same, killed, and come by hand" {
	EPOCHS=20
	local options=(--augment "crop,flip" --normalize standard)
	undisturbed 4 "${options[@]}"
	cp -r "$BUILD/bin" bin # beside which there is no data set, as there is in the sources
	bounded gpuctl run -n 4 -- "${TRAIN[@]}" --epochs 20 --sync ps "${options[@]}" --feed data --save again.npz >fed
	cmp whole.npz again.npz
	assert_equal "$(loss fed)" "$(loss whole)"
	export -f nowhere
	run machine 4 'train "$@" --feed data --augment crop,flip --normalize standard --workers 2 --ps-aggregate 3 \
			--save joined.npz
		reached 1; pids=$(learners); kill -STOP $pids
		tr "\\0" "\\n" </proc/$(head -n 1 <<<"$pids")/cmdline | grep -c -e ^--data= >files
		nowhere "$PWD/bin/mnist-train" --learn "$(address)" 2>third & third=$!
		said " has joined; 3 in all"; kill -CONT $pids; kill -KILL $(head -n 1 <<<"$pids"); said "; 2 left"
		wait $third && echo learnt >>third; wait $trainer'
	assert_status 0
	assert_equal "$(<files)" 0
	assert_equal "$(<third)" learnt
	cmp whole.npz joined.npz
}

@test "fed with samples: what does not fit into a message, or has none, is refused" {
	run bounded gpuctl run -n 2 -- "${TRAIN[@]}" --sync ps --feed data --batch 1400
	assert_status 2
	assert_output 'mnist-train: --feed data: items of 1400 samples: a message of 1044480 bytes holds 1323 samples of 789 bytes'
	EPOCHS=20
	run machine 3 'train "$@" --workers 1; reached 1; one=$(learners); kill -STOP $one
		mnist-train --feed data --learn "$(address)" 2>other || echo $? >>other
		kill -CONT $one; wait $trainer'
	assert_status 0
	assert_equal "$(<other)" 'mnist-train: learner: the server does not feed samples: start it with --feed data, or give this learner --data
2'
}

# Both wait for what takes its time, so they do it beside each other.
@test "a learner that stood still until it was given up comes again; without any the server ends with a line" {
	local none
	EPOCHS=1000000
	mkdir none
	(
		cd none || exit
		status=0
		machine 3 'train "$@"; reached 2; kill -KILL $(learners); wait $trainer' >said 2>&1 || status=$?
		echo "$status" >status
	) 3>&- &
	none=$!
	run machine 3 'train "$@"; reached 1; one=$(learners | head -n 1); kill -STOP "$one"
		said "is silent; 1 left" && kill -CONT "$one" && said "process $one) has joined; 2 present" && echo back
		kill -KILL "$one" "$trainer"'
	assert_output back
	wait "$none"
	assert_equal "$(<none/status)" 1
	assert_equal "$(sed 's/epoch [0-9]*/epoch N/' none/err)" 'mnist-train: epoch N: no learner was present for 15 s'
}

@test "the server's device killed: the server reports it at once, with the reason" {
	EPOCHS=1000000
	# Also while it has nothing to do there, as its learners stand still.
	for still in : 'kill -STOP'; do
		run machine 3 'train "$@"; reached 2; '"$still"' $(learners)
			kill -KILL $(gpuctl devices | sort -n -k 6 | awk '\''$5 == "busy" { print $7; exit }'\''); wait $trainer'
		assert_status 3
		run tail -n 1 err
		assert_match "^mnist-train: comm 1 rank 0 [(]device [0-9a-f]*[)] lost: .+; it was the parameter server's device$"
		assert_equal "$(grep -c 'no learner' err)" 0
	done
}

# coordinator_with_state - at GPUSIM_COORD, as the one before it; sets COORD_PID
coordinator_with_state() {
	ready coord gpucoord --listen "$GPUSIM_COORD" --state "$T/state"
	COORD_PID=$PID
}

@test "the coordinator killed, and away for longer than calls wait: the same weights to the bit" {
	export GPUSIM_COORD=ipc://$T/coord
	coordinator_with_state
	devices 3
	EPOCHS=200
	bounded "${TRAIN[@]}" --epochs "$EPOCHS" --sync ps --save whole.npz >whole
	background "${TRAIN[@]}" --epochs "$EPOCHS" --sync ps --save again.npz >out 2>err
	local trainer=$PID
	wait_until 20 grep -q '^epoch 2/' out
	kill -KILL "$COORD_PID"
	wait_until 5 gone "$COORD_PID"
	read -r -t 2.5 -u "$TICK" || true # so long it is away: what is called waits for 2 s by itself
	coordinator_with_state
	wait_until 30 gone "$trainer"
	assert_equal "$(<err)" ''
	assert_equal "$(grep -vc '^epoch ' out)" 1
	cmp whole.npz again.npz
}

@test "the server killed: learners end by themselves" {
	EPOCHS=4000
	run machine 3 'train "$@"; reached 2; pids=$(learners); kill -KILL $trainer
		for pid in $pids; do while kill -0 $pid 2>/dev/null; do moment; done; done
		until [ "$(grep -c "^mnist-train: learner: the parameter server at ipc://.* is unreachable$" err)" = 2 ]; do moment; done'
	assert_status 0
	assert_nothing_left
}

@test "resumed from its checkpoint, and killed in between: the same weights" {
	undisturbed 3
	run machine 3 'train "$@" --checkpoint c; reached 5; kill -KILL $trainer; wait $trainer
		while pgrep -f -- "--learn ipc://$GPUSIM_DIR" >/dev/null; do moment; done
		train "$@" --checkpoint c --resume --save again.npz; wait $trainer'
	assert_status 0
	cmp whole.npz again.npz
	run bounded "${TRAIN[@]}" --sync ps --checkpoint d --checkpoint-every 3
	assert_status 2
	assert_match "$(printf '^mnist-train: --checkpoint-every: .* only at the end of epochs$')"
}

@test "whatever strangers send, training continues" {
	undisturbed 3
	# It does not end meanwhile, as its learners stand still.
	run machine 3 'train "$@" --save again.npz; reached 1; pids=$(learners); kill -STOP $pids
		for seed in 1 2; do
			"$BUILD/e2e/hostile" "$(address)" rep $seed 20 &&
				"$BUILD/e2e/hostile" "$(address).data" frames $seed 20 && echo held >>held
		done; kill -CONT $pids; wait $trainer'
	[[ $status == 0 ]] || fail "$(cat err)"
	assert_file held
	cmp whole.npz again.npz
}

@test "one device is not enough" {
	run bounded gpuctl run -n 1 -- "${TRAIN[@]}" --sync ps
	assert_status 1
	assert_output 'mnist-train: only one device is free; the parameter server needs one, and each learner another'
}

# ---- models over HTTP

# get PATH [METHOD] - the answer, head and body
get() {
	local fd
	exec {fd}<>"/dev/tcp/127.0.0.1/$PORT" || return
	printf '%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n' "${2:-GET}" "$1" >&"$fd"
	timeout 10 cat <&"$fd"
	exec {fd}>&-
}
body() { get "$@" | LC_ALL=C sed '1,/^\r$/d'; }
export -f get body

# coordinator - one that serves models; sets PORT
coordinator() {
	export GPUSIM_COORD=ipc://$T/coord XDG_RUNTIME_DIR=$T PORT
	background gpucoord --listen "$GPUSIM_COORD" --state none --http 127.0.0.1:0 -v 2>said
	wait_until 10 grep -q 'models at http' said
	PORT=$(sed -n 's|.*models at http://127.0.0.1:\([0-9]*\)/model.*|\1|p' said)
	COORD_PID=$PID
}

devices() {
	local k
	for ((k = 0; k < $1; k++)); do
		background gpudev --listen "ipc://$T/dev$k" --ordinal "$k" -m 64M --mem-scratch "$T/mem$k"
	done
	wait_until 20 test_devices "$1"
}
test_devices() { [[ $(bounded gpuctl devices | wc -l) == $(($1 + 1)) ]]; }

has_model() { [[ $(get /model/version) == 'HTTP/1.1 200 '* ]]; }

@test "GET /model while it is trained: whole, and its version grows" {
	coordinator
	devices 3
	run get /model
	assert_match '^HTTP/1.1 404 '
	assert_match 'no model yet$'
	background "${TRAIN[@]}" --epochs 1000 --sync ps --save last.npz
	wait_until 20 has_model
	local last=0 seen=0 version pid=$PID
	while kill -0 "$pid" 2>/dev/null && ((seen < 5)); do
		get /model >whole
		version=$(sed -n 's/^X-Gpusim-Version: \([0-9]*\)\r$/\1/p' whole)
		((version >= last)) || fail "version $version after $last"
		((seen += version > last, 1))
		last=$version
		LC_ALL=C sed '1,/^\r$/d' whole >m.npz
		assert_equal "$(stat -c %s m.npz)" "$(sed -n 's/^Content-Length: \([0-9]*\)\r$/\1/p' whole)"
		! command -v unzip >/dev/null || unzip -tqq m.npz
	done
	((seen == 5)) || fail "only $seen versions"
	grep -q '^Content-Type: application/zip' whole
	wait_until 40 gone "$pid"
	body /model >m.npz
	cmp m.npz last.npz
	assert_equal "$(body /model/version)" $((1000 * 4))
}

@test "the other ways of training hand in their models, too" {
	coordinator
	devices 2
	bounded "${TRAIN[@]}" --epochs 2 --save last.npz
	body /model >m.npz
	cmp m.npz last.npz
	assert_equal "$(body /model/version)" 8
}

@test "gpuctl run --http: the coordinator's; without it no model is taken, and nobody minds" {
	run bounded gpuctl run -n 1 --http nowhere -- true
	assert_status 2
	assert_match "gpuctl: run: --http: 'nowhere' is neither PORT nor HOST:PORT"
	run bounded gpucoord --listen "ipc://$T/c" --state none --http 0.0.0.0:0
	assert_status 2
	assert_match '^gpucoord: --http: .* is reachable from other hosts'
	run bounded gpuctl run -n 2 -- "${TRAIN[@]}" --epochs 1 --sync ps
	assert_status 0
	assert_equal "${#lines[@]}" 2
}

@test "HTTP: strangers are refused, bounded, and hold nobody off" {
	local fd fds=() i
	coordinator
	devices 1
	run get / HEAD
	assert_match '^HTTP/1.1 200 '
	for i in POST PUT DELETE OPTIONS BREW; do
		run get /model $i
		assert_match '^HTTP/1.1 405 '
	done
	for i in /../etc/passwd /%2e%2e/%2e%2e/etc/passwd '/model/%00' //model /model/version/x; do
		run get "$i"
		assert_match '^HTTP/1.1 404 '
	done
	for i in 1 2 3 4 5 6 7 8; do # garbage, and heads without an end
		head -c 20000 /dev/urandom >"/dev/tcp/127.0.0.1/$PORT" || true
		head -c 200000 /dev/zero | tr '\0' a >"/dev/tcp/127.0.0.1/$PORT" || true
	done
	for ((i = 0; i < 400; i++)); do # who says nothing, or a letter
		exec {fd}<>"/dev/tcp/127.0.0.1/$PORT"
		((i % 2)) || printf G >&"$fd"
		fds+=("$fd")
	done
	run get /
	assert_match '^HTTP/1.1 200 '
	assert_match '/model/version'
	(($(find "/proc/$COORD_PID/fd" -mindepth 1 | wc -l) < 250))
	run bounded gpuctl devices
	assert_equal "${#lines[@]}" 2
	for fd in "${fds[@]}"; do exec {fd}>&-; done
	run get /
	assert_match '^HTTP/1.1 200 '
}
