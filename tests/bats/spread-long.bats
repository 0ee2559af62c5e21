# Training that is spread over a grid: against PyTorch, resharded, on odd batches, and where devices and coordinators die.
# shellcheck disable=SC2016,SC2086
load python
load training

setup() {
	house_setup
	images data 14 120
	NET=(mnist-train --data data --model vit --hidden 16 --heads 4 --blocks 2 --patch 7 --optimizer adamw --lr 0.003
		--global-batch 48 --deterministic --leaf 8)
}

# digest OPTION... - train, and print the digest of the weights
digest() { bounded "${NET[@]}" "$@" | sed -n 's/^params sha256 //p'; }

@test "tensor and pipeline parallel and ZeRO are what PyTorch computes by hand, and what one device does" {
	python_setup
	needs_modules torch
	LIMIT=100
	run bounded python3 -W ignore "$ROOT/tests/python/torch_spread.py"
	assert_status 0
	assert_equal "$(grep -c 'off by' <<<"$output")" 22
}

@test "a checkpoint of one grid goes on in any other: parameters and the optimizer's state to the bit" {
	local leg
	local one two
	one=$(digest --epochs 5 --devices 1)
	while read -r -a leg; do
		two=$(digest --checkpoint ck --resume "${leg[@]}")
	done <<-END
		--epochs 2 --parallel dp=4 --zero 3
		--epochs 2 --parallel dp=1,tp=2,pp=2
		--epochs 2 --devices 1
		--epochs 3 --parallel dp=1,pp=4 --schedule zb-h1
		--epochs 3 --parallel dp=4,pp=2 --zero 3 --shard-size 2
		--epochs 3 --parallel dp=2,tp=4 --sequence-parallel --zero 1
		--epochs 4 --parallel dp=3,pp=2 --zero 3 --micro 2
		--epochs 5 --parallel dp=2 --zero 2 --checkpoint-every 2
	END
	assert_equal "$two" "$one"
	for way in "--seed 2" "--lr 0.1" "--leaf 4" "--global-batch 40" "--optimizer sgd"; do
		run -2 bounded "${NET[@]}" --checkpoint ck --resume --epochs 6 --parallel dp=1,pp=2 $way
		[[ ${#lines[@]} = 1 && $output = "mnist-train: ck: was made with "* ]]
	done
	rm -rf ck
	for way in "--parallel dp=4 --zero 3|--parallel dp=1,tp=2,pp=2|--devices 1" \
		"--devices 2|--parallel dp=3,tp=2 --zero 3|--parallel dp=1,pp=4 --schedule zb-h1"; do
		IFS='|' read -r -a leg <<<"$way"
		for i in 0 1 2; do
			two=$(digest --checkpoint "ck${leg[0]}" --resume --epochs $((i + 2)) ${leg[i]})
		done
		assert_equal "$two" "${three-$two}"
		three=$two
	done
}

@test "the rest of an epoch, microbatches without images, fewer tested images than ranks: nothing changes" {
	local batch one
	images data 14 101
	for batch in 48 7 101; do
		one=$(digest --epochs 2 --global-batch $batch --leaf 3 --devices 1)
		while read -r -a how; do
			assert_equal "$batch ${how[*]} $(digest --epochs 2 --global-batch $batch --leaf 3 "${how[@]}")" \
				"$batch ${how[*]} $one"
		done <<-END
			--parallel dp=7 --zero 3
			--parallel dp=1,pp=4 --micro 9
			--parallel dp=3,pp=2 --zero 2 --schedule zb-v --micro 5
			--parallel dp=2,pp=2 --recompute full --micro 3
		END
	done
	bounded "${NET[@]}" --epochs 1 --devices 1 | grep -o 'accuracy.*%' >one
	for how in dp=13 dp=5,tp=2 dp=7,pp=2; do
		bounded "${NET[@]}" --epochs 1 --parallel $how | grep -o 'accuracy.*%' | diff one -
	done
}

@test "a test of many small batches, which ranks have unequal numbers of" {
	local one
	images data 14 60 1200
	NET+=(--blocks 4)
	one=$(bounded "${NET[@]}" --epochs 1 --devices 1 | grep -o 'accuracy.*%')
	for how in "dp=3 --zero 3" "dp=3,pp=2" "dp=2,tp=2 --leaf 1"; do
		assert_equal "$how $(bounded "${NET[@]}" --epochs 1 --parallel $how | grep -o 'accuracy.*%')" "$how $one"
	done
}

LOSE='
	lose() {
		local before; before=$(grep -c "ms lost$" out)
		reached "$1" || return
		kill -STOP "$trainer"
		kill -KILL "$(gpuctl devices | awk "\$5 == \"busy\" { print \$7 }" | sed -n "$2p")"
		kill -CONT "$trainer"
		said "ms lost$" $((before + 1))
	}'

@test "shrink leaves a group incomplete and its other device idle; one that joins completes it; the last group is needed" {
	local want how
	LIMIT=80
	# --shard-size 2 of 4, 3 of 3 ranks, 2 of 4 again
	for how in "dp=2,tp=2 --zero 3" "dp=4,tp=1 --zero 3 --shard-size 2"; do
		want=$(digest --epochs 40 --parallel "dp=1,${how:5:4}")
		bounded gpuctl run -n 4 --on-failure shrink -- bash -c "$TRAINING$LOSE"'
		train "$@"; lose 3 2
		rm -rf more*
		gpudev --listen "ipc://$PWD/more.sock" --ordinal 7 --join -m 64M --mem-scratch "$PWD/more" 2>/dev/null &
		more=$!
		said "1 device joined, 4 now" 1; wait $trainer; ended=$?; kill -KILL $more; exit $ended' -- "${NET[@]}" --epochs 40 --parallel $how
		grep -q "^params sha256 $want" out || fail "$how: $(cat out err)"
	done
	bounded gpuctl run -n 4 --on-failure shrink -- bash -c "$TRAINING$LOSE"'
		train "$@" --parallel tp=2,pp=2; lose 3 2; wait $trainer; test $? = 1' -- "${NET[@]}" --epochs 40
	assert_equal "$(grep -c 'needs 4 devices; there are 3$' err) $(wc -l <err)" '1 1'
}

@test "the coordinator killed in the midst, under every way to spread: the same bits" {
	local how one
	one=$(digest --epochs 40 --devices 1)
	export GPUSIM_COORD=ipc://$T/coord.sock
	ready coord gpucoord --listen "$GPUSIM_COORD"
	coord=$PID
	for d in 0 1 2 3; do
		ready dev$d gpudev --listen "ipc://$T/dev$d.sock" --ordinal $d -m 64M --mem-scratch "$T/mem$d"
	done
	for how in "dp=4 --zero 3" "dp=2,pp=2 --schedule zb-v --zero 2" "dp=1,pp=4 --micro 24 --schedule zb-h2"; do
		background "${NET[@]}" --epochs 40 --on-failure respawn --parallel $how >out 2>err
		trainer=$PID
		for epoch in 2 8; do
			wait_until 20 grep -q "^epoch $epoch/" out
			kill -KILL "$coord"
			wait_until 5 gone "$coord"
			ready coord gpucoord --listen "$GPUSIM_COORD"
			coord=$PID
		done
		wait_until 60 gone "$trainer"
		assert_equal "$how $(cat err) $(sed -n 's/^params sha256 //p' out)" "$how  $one"
	done
}

@test "a schedule's file is read once: a training outlives it, and losses of devices after that" {
	local want
	LIMIT=80
	gpuctl pipeline make 1f1b -p 4 -m 8 >mine.csv
	want=$(digest --epochs 40 --devices 1)
	bounded gpuctl run -n 4 --on-failure respawn -- bash -c "$TRAINING$LOSE"'
		train "$@" --parallel dp=1,pp=4 --schedule mine.csv; reached 1; echo >mine.csv; lose 3 2; wait $trainer' -- \
		"${NET[@]}" --epochs 40
	grep -q "^params sha256 $want" out || fail "$(cat out err)"
}

@test "two trainings at once on one cluster; what no training can use stays free" {
	local one
	one=$(digest --epochs 20 --devices 1)
	bounded gpuctl run -n 6 -- bash -c '
		"$@" --parallel dp=1,pp=4 --schedule zb-h2 >a & "$@" --parallel dp=2 --zero 3 >b && wait $!' -- "${NET[@]}" --epochs 20
	assert_equal "$(cat a b | sed -n 's/^params sha256 //p' | xargs)" "$one $one"
	bounded gpuctl run -n 5 -- "${NET[@]}" --epochs 1 --parallel tp=2 >out
	grep -q ', 4 devices$' out
}
