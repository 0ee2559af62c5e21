# Training continues when devices are killed, and when others join.
# shellcheck disable=SC2016
load helper
load training

setup() {
	house_setup
	TRAIN=(mnist-train --data "$ROOT/tests/data" --layers "784,32,10" --batch 16)
	EPOCHS=60
}

# machine N OPTION... SCRIPT - run a bash script with N devices. In it, beside what TRAINING has, and with
# "$@" what trains:
#	members			the processes of devices that are in a communicator
#	lose E			when epoch E is done kill one of them, and wait for the line about it
machine() {
	LIMIT=50 bounded gpuctl run -n "$1" "${@:2:$#-2}" -- bash -c "$TRAINING"'
		members() { gpuctl devices | awk "\$5 == \"busy\" { print \$7 }"; }
		lose() {
			local before; before=$(grep -c "ms lost$" out)
			reached "$1" || return
			kill -STOP "$trainer" # it must not be done before
			kill -KILL "$(members | sed -n "${2}p")"
			kill -CONT "$trainer"
			said "ms lost$" $((before + 1))
		}
		'"${*: -1}" -- "${TRAIN[@]}" --epochs "$EPOCHS"
}

# undisturbed N POLICY - leaves whole and whole.npz
undisturbed() {
	bounded gpuctl run -n "$1" --on-failure "$2" -- "${TRAIN[@]}" --epochs "$EPOCHS" --save whole.npz >whole
}

@test "respawn: two killed, one after the other, and the weights are those of one undisturbed" {
	undisturbed 3 respawn
	run machine 3 --on-failure respawn 'train "$@" --save again.npz; lose 3 2; lose 10 1; wait $trainer'
	assert_status 0
	assert_equal "$(grep -c '^epoch [0-9]*: rank [0-2] (device .*) .*respawn, 3 ranks.* restore [0-9]* ms, redo [0-9]* ms; [0-9]* ms lost$' out)" 2
	cmp whole.npz again.npz
	assert_equal "$(loss out)" "$(loss whole)"
}

@test "spare: one killed, a spare has its place and memory, and the weights are the same" {
	undisturbed 3 spare
	run machine 3 --on-failure spare --spares 1 'train "$@" --save again.npz; lose 3 2; wait $trainer'
	assert_status 0
	assert_equal "$(grep -c '^epoch [0-9]*: rank [0-2] (device .*) .*spare, 3 ranks.* ms lost$' out)" 1
	cmp whole.npz again.npz
}

@test "shrink: killed until one is left, which ends with the same loss but for rounding" {
	undisturbed 3 shrink
	run machine 3 --on-failure shrink 'train "$@"; lose 3 2; lose 10 1; wait $trainer'
	assert_status 0
	assert_equal "$(cat err)" ''
	assert_equal "$(grep -o 'shrink, [12] rank' out | xargs)" 'shrink, 2 rank shrink, 1 rank'
	close_to "$(loss out)" "$(loss whole)" 2e-4
}

@test "shrink with nobody left, and abort with one lost, end with a line" {
	EPOCHS=100000
	run machine 1 --on-failure shrink 'train "$@"; reached 3; kill -KILL "$(members)"; wait $trainer'
	assert_status 1
	assert_equal "$(wc -l <err)" 1
	grep -q '^mnist-train: .*no rank is left' err
	run machine 2 'train "$@"; reached 3; kill -KILL "$(members | head -n 1)"; wait $trainer'
	((status != 0))
	assert_equal "$(wc -l <err)" 1
	grep -q '^mnist-train: .*rank ' err
}

# Between two epochs, as long as nobody reads what it says of the one.
@test "abort with one lost while nothing runs: the line names rank and device as well" {
	EPOCHS=100000
	run --separate-stderr machine 2 '
		mkfifo said
		exec 7<>said
		perl -e "fcntl(STDIN, 1031, 4096) or die" <&7 # F_SETPIPE_SZ
		"$@" >said 2>err & trainer=$!
		until [[ $(cat /proc/$trainer/wchan) == *pipe_write* ]]; do alive || exit; moment; done
		kill -KILL "$(members | head -n 1)"
		until gpuctl devices | grep -q lost; do moment; done
		cat <&7 >/dev/null & reader=$!
		wait $trainer; echo $?
		kill $reader
		cat err'
	assert_equal "${lines[0]}" 3
	assert_equal "${#lines[@]}" 2
	[[ ${lines[1]} =~ ^'mnist-train: '.*'rank 0 (device '[0-9a-f]*') lost: killed by signal 9' ]] || fail "${lines[1]}"
}

@test "a device that joins is taken in, and may be lost again" {
	undisturbed 2 shrink
	run machine 2 --on-failure shrink '
		train "$@"
		reached 3
		gpudev --listen "ipc://$PWD/more.sock" --ordinal 7 --join -m 64M --mem-scratch "$PWD/more" 2>/dev/null &
		more=$!
		said "1 device joined, 3 now" 1
		reached 10
		kill -KILL $more
		said "ms lost$" 1
		wait $trainer'
	assert_status 0
	close_to "$(loss out)" "$(loss whole)" 2e-4
}

@test "with checkpoints as well: what is left behind is whole, and resumed it ends the same" {
	undisturbed 3 respawn
	run machine 3 --on-failure respawn 'train "$@" --checkpoint ck --checkpoint-every 7; lose 3 2
		reached 8; kill -KILL $trainer; wait $trainer'
	assert_status 137
	bounded gpuctl run -n 3 --on-failure respawn -- "${TRAIN[@]}" --epochs "$EPOCHS" --checkpoint ck --resume \
		--save again.npz >/dev/null
	cmp whole.npz again.npz
}

@test "--on-failure takes a policy" {
	run bounded "${TRAIN[@]}" --on-failure maybe
	assert_status 2
	assert_match '^mnist-train: --on-failure: .*maybe'
	GPUSIM_ON_FAILURE=never run bounded "${TRAIN[@]}"
	assert_status 2
	assert_match '^mnist-train: GPUSIM_ON_FAILURE: .*never'
}

@test "sendrecv: rank 0 is lost, then another: those that are left learn the same" {
	TRAIN+=(--sync sendrecv)
	bounded gpuctl run -n 3 --on-failure shrink -- "${TRAIN[@]}" --batch 24 --epochs "$EPOCHS" >whole
	run machine 4 --on-failure shrink 'train "$@"; lose 3 1; lose 10 1; wait $trainer'
	assert_status 0
	assert_equal "$(grep -c '^epoch [0-9]*: rank 0 (device .*) .*shrink, [23] ranks.* ms lost$' out)" 2
	close_to "$(loss out)" "$(loss whole)" 2e-4
}

@test "local: one is started again on its memory, and training continues from where all agreed" {
	TRAIN+=(--sync local --local-steps 4)
	undisturbed 3 respawn
	run machine 3 --on-failure respawn 'train "$@" --save again.npz; lose 3 2; wait $trainer'
	assert_status 0
	cmp whole.npz again.npz
}

@test "abort: a device stands still; training ends with a line that names it, and waits for nothing" {
	EPOCHS=1000000
	for sync in allreduce ps; do # the one that holds the weights is the first
		run machine 3 "train \"\$@\" --sync $sync; reached 2
			kill -STOP \$(members | head -n 1); wait \$trainer; echo \$? >code; cat err"
		assert_equal "$(cat code)" 3
		assert_match '^mnist-train: (the parameter server.*: )?comm 1.*rank 0 \(device [0-9a-f]*\) lost: no word from it'
	done
}

# away CMD... - trains where the coordinator is away at first, and is killed again when it has been back for a moment
away() {
	export GPUSIM_COORD=ipc://$T/c
	ready coord gpucoord --state "$T/state"
	coord=$PID
	ready one gpudev -m 64M
	ready two gpudev -m 64M
	kill -KILL "$coord" && wait_until 5 gone "$coord"
	background "$@" --devices 2 --epochs 1 >out 2>err
	trainer=$PID
	wait_until 10 grep -q 'waiting for the coordinator' err
	ready coord gpucoord --state "$T/state"
	kill -KILL "$PID" && wait_until 5 gone "$PID"
	ready coord gpucoord --state "$T/state"
	wait "$trainer" || fail "$? $(cat out err)"
	grep -q '^epoch 1/1 ' out || fail "$(cat out err)"
}

@test "a coordinator that is away when a training begins is waited for" {
	away "${TRAIN[@]}" --on-failure respawn
}

@test "so does a parameter server, whatever the policy; without a policy the training ends at once" {
	GPUSIM_COORD=ipc://$T/c run bounded "${TRAIN[@]}" --devices 2 --epochs 1
	assert_status 3
	away "${TRAIN[@]}" --sync ps
}
