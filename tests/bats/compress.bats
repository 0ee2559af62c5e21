# Trainings that send less than their gradients: --compress, and DiLoCo.
# shellcheck disable=SC2016
load helper
load training

setup() {
	house_setup
	TRAIN=(mnist-train --data "$ROOT/tests/data" --layers "784,32,10" --batch 16)
	EPOCHS=40
	# Each with a warm-up that ends within the training.
	WAYS=("--compress powersgd=2" "--compress topk=0.01 --compress-warmup 40"
		"--optimizer adam --compress onebit --compress-warmup 20"
		"--sync local --outer nesterov --local-steps 5 --optimizer adamw")
}

# trained NAME OPTION... - leaves NAME.json, NAME.npz and, of the text, NAME
trained() { LIMIT=50 bounded "${TRAIN[@]}" --json "$1.json" --save "$1.npz" "${@:2}" >"$1"; }

# field NAME FILE - of each epoch in a --json file
field() { sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p" "$2"; }

# near NAME NAME TOLERANCE - the losses of the epochs
near() {
	losses "$1.json" >a
	losses "$2.json" >b
	paste a b | awk -v t="$3" 'NF != 2 || $1 - $2 > t * $2 || $2 - $1 > t * $2 { bad = 1 }
		END { exit bad || NR == 0 }' || fail "losses differ: $(paste a b)"
}

@test "compress, outer: what contradicts them is refused before a device is taken" {
	local common='needs training with --sync allreduce on gpusim.s devices; cannot be used with --deterministic, --compare, or a net that is spread'
	export GPUSIM_COORD=ipc://$T/nobody # no call gets an answer
	while IFS='|' read -r args sentence; do
		# shellcheck disable=SC2086 # several arguments
		run bounded mnist-train --data "$ROOT/tests/data" $args
		assert_status 2
		assert_match "^mnist-train: ${sentence/COMMON/$common}\$"
	done <<-'END'
		--compress zip|--compress: 'zip': must be one of powersgd=RANK, topk=FRACTION, onebit, none
		--compress powersgd=0|--compress: 0 is out of range .1 to 65536.
		--compress topk=0|--compress: a fraction of 0 sends nothing
		--compress topk=1.5|--compress: .*
		--compress onebit|--compress: onebit is 1-bit Adam: needs --optimizer adam or adamw
		--compress topk=1 --optimizer adam|--compress: topk needs --optimizer sgd, momentum or nesterov
		--compress powersgd=2 --bucket-bytes 1K|--compress: cannot be used with --bucket-bytes
		--compress powersgd=2 --deterministic|--compress: COMMON
		--compress powersgd=2 --sync sendrecv|--compress: COMMON
		--compress powersgd=2 --sync ps|--compress: COMMON
		--compress powersgd=2 --sync local|--compress: COMMON
		--compress powersgd=2 --backend mpi|--compress: COMMON
		--compress powersgd=2 --compare allreduce|--compress: COMMON
		--compress powersgd=2 --zero 1|--compress: COMMON
		--compress powersgd=2 --compress-warmup 3|--compress-warmup: needs --compress topk or onebit
		--outer nesterov|--outer: needs --sync local
		--sync local --outer-lr 1|--outer-lr: needs --outer nesterov
		--sync local --outer-momentum 0|--outer-momentum: needs --outer nesterov
		--sync local --verify|--verify: needs --deterministic, --compress or --outer nesterov; .*
	END
	printf 'compress = topk=0.01\ncompress-warmup = 7\n' >ways.conf
	bounded "${TRAIN[@]}" --config ways.conf --print-config >again.conf
	grep -qx 'compress = topk=0.01' again.conf
	grep -qx 'compress-warmup = 7' again.conf
	bounded "${TRAIN[@]}" --config again.conf --print-config | cmp - again.conf
}

@test "compress: the gradients that nothing is left out of are all-reduce's" {
	local o
	for o in sgd nesterov; do
		trained all --workers 3 --epochs 4 --optimizer $o --weight-decay 0.001
		trained top --workers 3 --epochs 4 --optimizer $o --weight-decay 0.001 --compress topk=1 --verify
		near all top 1e-4
		trained full --workers 3 --epochs 4 --optimizer $o --weight-decay 0.001 --compress powersgd=32 --verify
		near all full 1e-4
	done
	trained all --workers 3 --epochs 3 --optimizer adam
	trained warm --workers 3 --epochs 3 --optimizer adam --compress onebit --compress-warmup 100
	cmp all.npz warm.npz
	trained later --workers 3 --epochs 3 --optimizer adam --compress onebit --compress-warmup 99 --lr-schedule cosine
	trained less --workers 3 --epochs 3 --optimizer adam --compress onebit --compress-warmup 20 --lr-schedule cosine
	if cmp -s later.npz less.npz; then fail "the same weights with signs and without"; fi
}

@test "compress: every model learns, with batch norm and steps in which a rank has no row, and ranks stay alike" {
	images small 8 28
	local model way
	for model in lenet resnet9; do
		for way in "${WAYS[@]}"; do
			[[ $model != lenet ]] || images small 32 28
			# shellcheck disable=SC2086 # several arguments
			LIMIT=50 bounded mnist-train --data small --model $model --workers 3 --batch 4 --epochs 2 --lr 0.01 \
				--normalize standard $way --verify --json m.json >/dev/null 2>&1 || fail "$model $way"
			losses m.json | awk '$1 != $1 + 0 { bad = 1 } END { exit bad || NR != 2 }' || fail "$model $way: $(losses m.json)"
			[[ $model != lenet ]] || images small 8 28
		done
	done
}

# epoch_bytes WAY... - the bytes of each of the last of 6 epochs, of both devices, as reported
epoch_bytes() {
	trained bytes --workers 2 --epochs 6 "$@"
	assert_equal "$(field allreduce_bytes bytes.json | sort -u)" $((16 * 2 * P * 4))
	field sent_bytes bytes.json | tail -n 1
}

@test "bytes: each method sends what its formula says; the line at the end has their sum" {
	local P=$((784 * 32 + 32 + 32 * 10 + 10)) sum k
	# The second weight, 32 x 10, by rank 2 as well: 84 elements for 320; and 42 biases. 16 steps an epoch.
	assert_equal "$(epoch_bytes --compress powersgd=2)" $((16 * 2 * (2 * (784 + 32) + 2 * (32 + 10) + 42) * 4))
	# By rank 9 it would be 378, so it is sent as it is.
	assert_equal "$(epoch_bytes --compress powersgd=9)" $((16 * 2 * (9 * (784 + 32) + 320 + 42) * 4))
	# 0.01 of 25088, 32, 320 and 10, each rounded up: pairs of 8 bytes to the other.
	k=$((251 + 1 + 4 + 1))
	assert_equal "$(epoch_bytes --compress topk=0.01 --compress-warmup 40)" $((16 * 2 * k * 8))
	# Halves in whole words: 12736 bits and a scale to the other's half, and the own half's mean.
	assert_equal "$(epoch_bytes --optimizer adam --compress onebit --compress-warmup 20)" $((16 * 2 * 2 * (12736 / 8 + 4)))
	assert_equal "$(epoch_bytes --sync local --outer nesterov --local-steps 5)" $((4 * 2 * P * 4))
	sum=$(field sent_bytes bytes.json | awk '{ s += $1 } END { print s }')
	assert_equal "$(tail -n 1 bytes)" "--outer nesterov: $sum bytes sent instead of $((6 * 16 * 2 * P * 4)), 4.0 times fewer"
}

# sent - the bytes of chunks that the devices say they have sent
sent() {
	local fd
	exec {fd}<>"/dev/tcp/127.0.0.1/$PORT" || return
	printf 'GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n' >&"$fd"
	timeout 20 cat <&"$fd" | awk '/^gpusim_device_sent_bytes_total/ { s += $2 } END { printf "%d\n", s }'
	exec {fd}>&-
}

@test "bytes: the recorders of the devices count the same" {
	local k way before between after
	export GPUSIM_COORD=ipc://$T/coord
	background gpucoord --listen "$GPUSIM_COORD" --state none --http 127.0.0.1:0 -v 2>said
	wait_until 10 grep -q 'http://127' said
	PORT=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\).*|\1|p' said | head -n 1)
	for k in 0 1; do
		background gpudev --listen "ipc://$T/dev$k" --ordinal $k -m 32M --mem-scratch "$T/mem$k"
	done
	wait_until 10 sh -c '[ "$(gpuctl devices 2>/dev/null | grep -c free)" -eq 2 ]'
	for way in "${WAYS[@]}"; do
		before=$(sent)
		# shellcheck disable=SC2086 # several arguments
		trained two --epochs 2 --algo ring $way
		between=$(sent)
		# shellcheck disable=SC2086
		trained five --epochs 5 --algo ring $way
		after=$(sent)
		# What is sent once, the weights at the beginning, is in both.
		assert_equal "$way: $((after - between - (between - before)))" \
			"$way: $(field sent_bytes five.json | tail -n 3 | awk '{ s += $1 } END { print s }')"
	done
}

@test "checkpoints: resumed it ends with the same weights; another method or number of devices is refused" {
	local way
	for way in "${WAYS[@]}"; do
		rm -rf ck
		# shellcheck disable=SC2086 # several arguments
		{
			trained whole --workers 2 --epochs 6 $way
			trained half --workers 2 --epochs 3 --checkpoint ck --checkpoint-every 7 $way
			trained rest --workers 2 --epochs 6 --checkpoint ck --resume $way
		}
		cmp whole.npz rest.npz || fail "$way"
	done
	run bounded "${TRAIN[@]}" --devices 3 --checkpoint ck --resume --sync local --outer nesterov --local-steps 5 \
		--optimizer adamw
	assert_status 2
	assert_output 'mnist-train: ck: was made on 2 devices, each with state of its own: it needs as many'
	run bounded "${TRAIN[@]}" --devices 2 --checkpoint ck --resume --sync local --local-steps 5 --optimizer adamw
	assert_status 2
	assert_match '^mnist-train: ck: was made with a different --compress or --outer'
}

# machine N OPTION... SCRIPT - as in train-failure.bats
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

@test "respawn: one killed, before and after the warm-up, and the weights are those of one undisturbed" {
	local way all=("${TRAIN[@]}")
	for way in "${WAYS[@]}"; do
		# shellcheck disable=SC2206 # several arguments
		TRAIN=("${all[@]}" $way)
		bounded gpuctl run -n 3 --on-failure respawn -- "${TRAIN[@]}" --epochs "$EPOCHS" --save whole.npz >whole
		run machine 3 --on-failure respawn 'train "$@" --verify --save again.npz; lose 1 2; lose 8 1; wait $trainer'
		assert_status 0
		assert_equal "$(grep -c 'respawn, 3 ranks.* ms lost$' out)" 2
		cmp whole.npz again.npz || fail "$way"
	done
}

@test "shrink, and a device that joins: what the lost one had not sent is lost, and all ranks stay alike" {
	local way all=("${TRAIN[@]}")
	for way in "${WAYS[@]}"; do
		# shellcheck disable=SC2206 # several arguments
		TRAIN=("${all[@]}" $way)
		run machine 3 --on-failure shrink '
			train "$@" --verify --json f.json
			lose 3 2
			gpudev --listen "ipc://$PWD/more.sock" --ordinal 7 --join -m 64M --mem-scratch "$PWD/more" 2>/dev/null &
			more=$!
			said "1 device joined, 3 now" 1
			wait $trainer; ended=$?
			kill -KILL $more
			exit $ended'
		assert_status 0
		losses f.json | awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(NR == 40 && last < first / 4) }' ||
			fail "$way: $(losses f.json | xargs)"
		rm -rf more*
	done
}

@test "on the whole of MNIST each is within a point of the training that sends all" {
	[[ -e $ROOT/data/mnist/train-images-idx3-ubyte ]] || skip 'without MNIST in data/mnist, which make data fetches'
	TRAIN=(mnist-train --data "$ROOT/data/mnist" --workers 2 --epochs 4)
	EPOCHS=4
	trained sgd
	trained adam --optimizer adam
	trained power --compress powersgd=4
	trained top --compress topk=0.01 --compress-warmup 468
	trained bit --compress onebit --optimizer adam
	trained outer --sync local --outer nesterov --local-steps 100 --optimizer adamw
	while read -r of than; do
		awk -v a="$(accuracy "$of")" -v b="$(accuracy "$than")" 'BEGIN { exit !(a > b - 1 && b > 90) }' ||
			fail "$of: $(accuracy "$of"), $than: $(accuracy "$than")"
	done <<<'power sgd
top sgd
bit adam
outer adam'
}

@test "--verify: a device with another bit in its weights is named" {
	EPOCHS=100000
	TRAIN+=(--sync local --outer nesterov)
	run machine 3 --allow-inject '
		train "$@" --verify
		reached 2
		gpuctl inject --comm "$(gpuctl devices | awk "\$5 == \"busy\" { print \$6; exit }")" flip rank=1 at=any#next.end seed=7
		wait $trainer; echo "exit $?"; cat err'
	assert_match 'exit 5'
	assert_match 'mnist-train: --verify: device [0-9a-f]+: rank 1: the weights differ from the other ranks'
}
