# mnist-train --model vit: everything that a training can do, with a transformer; and against PyTorch.
# shellcheck disable=SC2016
load python
load training

setup() {
	house_setup
	LIMIT=50
	images small 8 60
	# shellcheck disable=SC2054 # no list
	NET=(--model vit --blocks 2 --hidden 16 --heads 2 --patch 4)
	TRAIN=(mnist-train --data small "${NET[@]}" --optimizer adamw --lr 0.01 --epochs 3)
}

# trained NAME OPTION... - leaves NAME.json and NAME.npz
trained() { bounded "${TRAIN[@]}" --json "$1.json" --save "$1.npz" "${@:2}" >"$1"; }

# same_losses NAME NAME - as many, each to within a factor of 1.001
same_losses() {
	paste <(losses "$1.json") <(losses "$2.json") | awk '
		NF != 2 || $1 > 1.001 * $2 || $2 > 1.001 * $1 { bad = 1 }
		END { exit bad || NR != 3 }' || fail "losses differ: $(losses "$1.json" | xargs), $(losses "$2.json" | xargs)"
}

@test "vit: loss, gradients and ten steps of AdamW are PyTorch's" {
	python_setup
	needs_modules numpy torch
	run bounded python3 -W ignore "$ROOT/tests/python/torch_vit.py"
	assert_status 0
	assert_equal "$(grep -c 'loss off by' <<<"$output")" 2
}

@test "vit: devices learn what one does, by every way to synchronise" {
	trained one --workers 1 --batch 12
	losses one.json | awk 'NR == 1 { first = $1 } END { exit !($1 < first / 2) }' || fail "does not learn: $(<one)"
	for how in "allreduce --bucket-bytes 4K" sendrecv ps; do
		# shellcheck disable=SC2086 # several arguments
		trained more --workers 3 --batch 4 --sync $how
		same_losses one more
	done
	trained more --workers 1 --batch 12 --sync local
	same_losses one more
	run bounded "${TRAIN[@]}" --compare allreduce,ps --workers 1,2 --batch 6
	assert_status 0
	assert_equal "$(cut -d, -f1-2 compare.csv | tail -n +2 | sort -u | xargs)" 'allreduce,1 allreduce,2 ps,1 ps,2'
}

@test "vit: as a job of MPI" {
	[ -x "$BUILD/bin/mnist-train-mpi" ] || skip 'built without MPI'
	needs mpirun
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
		OMPI_MCA_mpi_yield_when_idle=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
	trained one --workers 1 --batch 12
	bounded mpirun -n 3 "$BUILD/bin/mnist-train" --backend mpi "${TRAIN[@]:1}" --batch 4 --json ranks.json >ranks
	same_losses one ranks
}

@test "vit: --deterministic has the same bits on any number of devices, and where one is killed" {
	TRAIN+=(--deterministic --global-batch 20 --leaf 3)
	bounded "${TRAIN[@]}" --devices 1 | grep '^params sha256 ' >want
	for n in 2 3; do
		bounded "${TRAIN[@]}" --devices $n | grep '^params sha256 ' | diff want -
	done
	bounded "${TRAIN[@]}" --devices 3 --sync sendrecv | grep '^params sha256 ' | diff want -
	bounded "${TRAIN[@]}" --epochs 40 --devices 1 | grep '^params sha256 ' >want
	for policy in respawn shrink; do
		bounded gpuctl run -n 3 --on-failure $policy -- bash -c "$TRAINING"'
			train "$@" --devices 3
			reached 1 || exit
			kill -STOP "$trainer" # it must not be done before
			kill -KILL "$(gpuctl devices | awk "\$5 == \"busy\" { print \$7 }" | sed -n 2p)"
			kill -CONT "$trainer"
			wait $trainer' -- "${TRAIN[@]}" --epochs 40
		grep -q "$policy, [23] rank.* ms lost$" out || fail "no device was lost: $(cat out err)"
		grep '^params sha256 ' out | diff want -
	done
}

@test "vit: checkpoints resume with the same bits, and know their net" {
	trained whole --workers 2 --batch 6
	trained begun --workers 2 --batch 6 --epochs 2 --checkpoint ck --checkpoint-every 3
	trained rest --workers 2 --batch 6 --checkpoint ck --resume
	cmp whole.npz rest.npz
	run bounded "${TRAIN[@]}" --workers 2 --batch 6 --hidden 18 --checkpoint ck --resume
	assert_status 2
	assert_match 'ck: .* not vit 1x8x8-4 blocks 2 hidden 18 heads 2 patch 4 cross-entropy$'
}

@test "vit: a saved model describes itself; --eval and --infer use it" {
	trained m --workers 1 --batch 12 --epochs 20
	assert_equal "$(grep -ao 'tokens\.[a-z]*\|block1\.[a-z0-9]*' m.npz | sort -u | xargs)" \
		'block1.fc1 block1.fc2 block1.ln1 block1.ln2 block1.proj block1.qkv tokens.cls tokens.pos'
	grep -aqz 'model vit
blocks 2
hidden 16
heads 2
patch 4' m.npz || fail 'no description'
	run bounded mnist-train --eval --load m.npz --data small
	assert_status 0
	assert_match "^test accuracy $(tail -n 1 m | grep -o 'accuracy [0-9.]* %' | cut -d' ' -f2-)"
	run bounded mnist-train --infer --load m.npz <small/t10k-images-idx3-ubyte
	assert_status 0
	assert_equal "$(wc -l <<<"$output")" 12
	run bounded mnist-train --eval --load m.npz --data small --model vit --blocks 2 --hidden 16 --heads 4 --patch 8
	assert_status 5
	assert_match 'm.npz: patch.weight is \[16, 16\]; vit 1x8x8-4 blocks 2 hidden 16 heads 4 patch 8 .* has \[16, 64\]$'
}

@test "vit: what does not fit is refused with what does" {
	while IFS='|' read -r code args sentence; do
		# shellcheck disable=SC2086 # several arguments
		run bounded mnist-train --data small $args
		assert_status "$code"
		assert_output "mnist-train: $sentence"
	done <<-'END'
		5|--model vit|patches of 7x7 do not divide items of 8x8: patch may be 1, 2, 4, 8
		5|--model vit --patch 4 --heads 5|5 heads do not divide the hidden size 64: heads may be 1, 2, 4, 8, 16, 32, 64
		2|--model vit --blocks 25|--blocks: 25 is out of range (1 to 24)
		2|--model lenet --heads 2|--heads: needs --model vit
		2|--model vit --layers 64,4|--layers: needs --model mlp
		2|--model vit --activation gelu|--activation: needs --model mlp
	END
	bounded mnist-train --data small --layers 64,20,4 --activation gelu --layer-norm --epochs 1 --quiet
}
