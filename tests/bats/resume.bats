# Checkpoints: training that is killed at any moment continues as if it had not been killed.
load helper

setup() {
	house_setup
	DATA=$ROOT/tests/data
	TRAIN=(--data "$DATA" --layers "784,32,10" --batch 16)
	DAEMONS=()
}

# daemon NAME CMD... - ready, and one of DAEMONS
daemon() {
	ready "$@"
	DAEMONS+=("$PID")
}

# cluster N - a coordinator and N devices, each a process that can be killed
cluster() {
	DAEMONS=()
	export GPUSIM_COORD=ipc://$T/coord.sock
	daemon coord gpucoord --listen "$GPUSIM_COORD"
	for ((d = 0; d < $1; d++)); do
		daemon "dev$d" gpudev --listen "ipc://$T/dev$d.sock" --ordinal $d -m 64M --mem-scratch "$T/mem$d"
	done
}

# checkpoints - those that are in ck, by number, newest last
checkpoints() {
	(cd ck && ls ckpt-*.npz) | tr -dc '0-9\n' | sed 's/^0*//'
}

past() { [[ $(checkpoints | tail -n 1) -ge $1 ]]; }

@test "killed, all of it, in mid-training, and resumed: the same weights as undisturbed" {
	for optimizer in sgd adam; do
		all=("${TRAIN[@]}" --optimizer "$optimizer" --epochs 120)
		bounded mnist-train "${all[@]}" --devices 2 --save whole.npz >whole
		for _ in 1 2 3 4 5; do
			rm -rf ck
			cluster 2
			background mnist-train "${all[@]}" --checkpoint ck --checkpoint-every 7 >first
			wait_until 20 past 100
			kill -KILL "$PID" "${DAEMONS[@]}"
			wait_until 5 gone "$PID" "${DAEMONS[@]}"
			rm -f ./*.sock ./*.lock mem*
			past 1900 || break
		done
		past 1900 && fail 'each time it was too fast to be killed'
		cluster 2
		run bounded mnist-train "${all[@]}" --checkpoint ck --checkpoint-every 500 --resume --save again.npz
		assert_status 0
		assert_match 'continues from ck: [0-9]+ epochs and [0-9]+ of 16 steps done'
		assert_equal "$(tail -n 1 <<<"$output" | grep -o 'loss.*%')" "$(tail -n 1 whole | grep -o 'loss.*%')"
		cmp whole.npz again.npz
		kill -TERM "${DAEMONS[@]}"
		wait_until 5 gone "${DAEMONS[@]}"
		unset GPUSIM_COORD
		rm -rf ck coord.sock*
	done
}

# again - start the coordinator that was killed again, with the same options
again() {
	wait_until 5 gone "${DAEMONS[0]}"
	daemon coord gpucoord --listen "$GPUSIM_COORD"
}

@test "the coordinator killed, twice, and started again: training continues to the same weights" {
	cluster 2
	all=("${TRAIN[@]}" --epochs 120 --on-failure respawn)
	bounded mnist-train "${all[@]}" --save whole.npz >/dev/null
	background mnist-train "${all[@]}" --save again.npz >out 2>err
	trainer=$PID
	for epoch in 3 20; do
		wait_until 20 grep -q "^epoch $epoch/" out
		kill -KILL "${DAEMONS[0]}"
		again
		DAEMONS[0]=$PID
	done
	wait_until 30 gone "$trainer"
	assert_equal "$(cat err)" ''
	cmp whole.npz again.npz
}

@test "the coordinator and a device killed together: started again, it trains on the one left" {
	cluster 2
	background mnist-train "${TRAIN[@]}" --epochs 120 --on-failure shrink >out 2>err
	trainer=$PID
	wait_until 20 grep -q '^epoch 3/' out
	kill -KILL "${DAEMONS[0]}" "${DAEMONS[2]}"
	again
	wait_until 40 gone "$trainer"
	assert_equal "$(cat err)" ''
	grep -q 'shrink, 1 rank ' out
	grep -q '^epoch 120/120 .* accuracy [89][0-9]' out
}

@test "without --checkpoint-every there is one at each epoch's end; the newest two stay" {
	bounded mnist-train "${TRAIN[@]}" --devices 2 --epochs 3 --checkpoint ck >/dev/null
	assert_equal "$(checkpoints | xargs)" '32 48'
	run bounded mnist-train "${TRAIN[@]}" --devices 2 --epochs 4 --checkpoint ck --resume
	assert_status 0
	assert_match '3 epochs and 0 of 16 steps done.*epoch 4/4 '
	assert_equal "$(checkpoints | xargs)" '48 64'
	run bounded mnist-train "${TRAIN[@]}" --devices 2 --epochs 4 --checkpoint ck --resume
	assert_status 0
	[[ $output != *epoch\ * ]]
}

@test "--resume with nothing there begins; --checkpoint-every leaves one at the end, too" {
	run bounded mnist-train "${TRAIN[@]}" --devices 1 --epochs 1 --checkpoint ck --checkpoint-every 20 --resume
	assert_status 0
	assert_match 'no checkpoint in ck: training starts from the beginning'
	assert_equal "$(checkpoints | xargs)" '20 32'
}

@test "another number of devices continues with the same global batch" {
	bounded mnist-train "${TRAIN[@]}" --devices 2 --epochs 3 --json whole >/dev/null
	bounded mnist-train "${TRAIN[@]}" --devices 2 --epochs 1 --checkpoint ck --json parts >/dev/null
	bounded mnist-train "${TRAIN[@]}" --devices 3 --epochs 2 --checkpoint ck --resume --json parts >/dev/null
	bounded mnist-train "${TRAIN[@]}" --devices 1 --epochs 3 --checkpoint ck --resume --json parts >/dev/null
	assert_equal "$(wc -l <parts)" 3
	paste <(sed 's/.*"loss":\([^,]*\).*/\1/' whole) <(sed 's/.*"loss":\([^,]*\).*/\1/' parts) |
		awk '{ d = $1 - $2; if (d > 1e-4 || d < -1e-4) { print; bad = 1 } } END { exit bad }'
}

@test "a damaged checkpoint is named and the one before is used" {
	bounded mnist-train "${TRAIN[@]}" --devices 1 --epochs 3 --checkpoint ck --save whole.npz >/dev/null
	printf x | dd of=ck/ckpt-000000000096.npz bs=1 seek=30000 conv=notrunc status=none
	run --separate-stderr bounded mnist-train "${TRAIN[@]}" --devices 1 --epochs 3 --checkpoint ck \
		--resume --save again.npz
	assert_status 0
	assert_match '2 epochs and 0 of 32 steps'
	assert_equal "$stderr" 'mnist-train: ck/ckpt-000000000096.npz: params.npy: wrong checksum: damaged; trying the previous checkpoint'
	cmp whole.npz again.npz
	for file in ck/*; do
		head -c 1000 "$file" >short
		mv short "$file"
	done
	run --separate-stderr bounded mnist-train "${TRAIN[@]}" --devices 1 --epochs 3 --checkpoint ck --resume
	assert_status 5
	assert_equal "$(tail -n 1 <<<"$stderr")" 'mnist-train: ck: none of the checkpoints can be read'
}

# refused REGEX OPTION... - one line that matches, exit 2
refused() {
	run bounded mnist-train "${TRAIN[@]}" --devices 1 --epochs 2 "${@:2}"
	assert_status 2
	assert_equal "${#lines[@]}" 1
	assert_match "^mnist-train: $1"
}

@test "options that do not go together are rejected in one line" {
	bounded mnist-train "${TRAIN[@]}" --devices 1 --epochs 1 --checkpoint ck >/dev/null
	refused 'ck: has checkpoints; use --resume' --checkpoint ck
	refused 'ck: was made with --batch 16; it is now 8' --checkpoint ck --resume --batch 8
	refused 'ck: was made with a different model: mlp 784-32-10' --checkpoint ck --resume --layers "784,33,10"
	refused 'ck: was made with a different --optimizer' --checkpoint ck --resume --optimizer adam --lr 0.1
	refused 'ck: was made with --seed 1; it is now 2' --checkpoint ck --resume --seed 2
	refused 'ck: was made with --lr 0.1; it is now 0.2' --checkpoint ck --resume --lr 0.2
	refused 'ck: was made with --momentum' --checkpoint ck --resume --momentum 0
	refused 'ck: was made with --weight-decay' --checkpoint ck --resume --weight-decay 1e-3
	refused '--resume: needs --checkpoint DIR' --resume
	refused '--checkpoint-every: needs --checkpoint DIR' --checkpoint-every 3
	cp -r "$DATA" data
	gzip -d data/train-labels-idx1-ubyte.gz
	printf '\3' | dd of=data/train-labels-idx1-ubyte bs=1 seek=100 conv=notrunc status=none
	refused 'ck: was made with different --data' --checkpoint ck --resume --data data
}

@test "a folder that can no longer be written to: reported, training ends, exit 1, the old one stays" {
	bounded mnist-train "${TRAIN[@]}" --devices 2 --epochs 3 --save whole.npz >/dev/null
	bounded mnist-train "${TRAIN[@]}" --devices 2 --epochs 1 --checkpoint ck >/dev/null
	# A file of at most 40 KiB is what this process and those it starts may write: copies go by calls.
	# shellcheck disable=SC2016
	run bounded gpuctl run -n 2 -- bash -c '
		trap "" XFSZ
		export GPUSIM_P2P_DISABLE=1
		ulimit -f 40
		exec mnist-train "$@"' sh "${TRAIN[@]}" --epochs 3 --checkpoint ck --resume
	assert_status 1
	assert_match 'epoch 3/3 '
	assert_equal "$(grep -c 'cannot write a checkpoint, training continues: ck/ckpt-0000000000[34][28].npz: File too large' <<<"$output")" 3
	assert_match 'mnist-train: the last checkpoint: ck/ckpt-000000000048.npz: File too large'
	assert_equal "$(ls ck)" ckpt-000000000016.npz
}

@test "two trainings do not share a folder" {
	background mnist-train "${TRAIN[@]}" --devices 1 --epochs 100000 --checkpoint ck >/dev/null
	first=$PID
	wait_until 20 past 32
	run bounded mnist-train "${TRAIN[@]}" --devices 1 --epochs 100000 --checkpoint ck --resume
	assert_status 8
	assert_match 'ck: another training is writing its checkpoints here'
	kill -TERM "$first"
	wait_until 15 gone "$first"
}

@test "a coordinator that is away for 3 s while a training is set up: it begins well, with respawn" {
	coordinator() { ready coord gpucoord --listen "$GPUSIM_COORD" --state "$T/state"; }
	export GPUSIM_COORD=ipc://$T/coord.sock
	coordinator
	local coord=$PID
	ready dev0 gpudev --listen "ipc://$T/dev0.sock" -m 64M --mem-scratch "$T/mem0"
	local device=$PID
	kill -STOP "$device"
	background mnist-train "${TRAIN[@]}" --epochs 1 --on-failure respawn >out 2>err
	local trainer=$PID
	wait_until 10 bash -c 'gpuctl status --json | grep -q "\"comms\":\[{"'
	kill -KILL "$coord"
	wait_until 5 gone "$coord"
	kill -CONT "$device"
	read -r -t 3 -u "$TICK" || true # so long it is away: calls wait for 2 s by themselves
	coordinator
	wait_until 20 gone "$trainer"
	assert_equal "$(<err)" ''
	grep -q '^epoch 1/1 ' out
}
