# Trainings that end with the same weights, bit by bit, however they were computed.
# shellcheck disable=SC2016,SC2086
load helper
load training

setup() {
	house_setup
	export GPUSIM_DATA=$ROOT/tests/data
	LIMIT=50
	TRAIN=(mnist-train --layers "784,16,10" --deterministic --global-batch 100 --epochs 3)
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
	export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
}

# learnt - of what a training says: losses, accuracies and the digest
learnt() { sed -nE 's/^epoch.*(loss [^ ]*) .*(accuracy [^ ]*).*/\1 \2/p; /^params sha256 [0-9a-f]{64}$/p'; }

@test "deterministic: any number of devices, way, algorithm, bucket, transport" {
	bounded "${TRAIN[@]}" --devices 1 | learnt >want
	bounded gpuctl run -n 8 -- bash -e -c '
		for options in "--devices 2" "--devices 3" "--devices 8" "--devices 3 --bucket-bytes 1" \
			"--devices 4 --bucket-bytes 60K --algo ring" "--devices 4 --algo naive --verify" \
			"--devices 3 --sync sendrecv --verify" "--workers 3 --sync ps" "--workers 2 --sync ps --feed data" \
			"--workers 7 --sync ps --leaf 16"; do
			echo "$options" >&2
			"$@" $options
		done' -- "${TRAIN[@]}" 2>ways | learnt >all
	assert_equal "$(wc -l <ways)" 10
	for _ in {1..10}; do cat want; done | diff - all
	bounded gpuctl run -n 3 --transport tcp -- "${TRAIN[@]}" --bucket-bytes 30K | learnt | diff want -
	# Other leaves are other sums.
	bounded "${TRAIN[@]}" --devices 1 --leaf 17 | learnt >other
	assert_equal "$(tail -n 1 want | grep -cxFf - other)" 0
}

@test "deterministic: an MPI job has the weights of devices" {
	[ -x "$BUILD/bin/mnist-train-mpi" ] || skip 'built without MPI'
	needs mpirun
	bounded "${TRAIN[@]}" --devices 2 | learnt >want
	bounded mpirun -n 3 "$BUILD/bin/mnist-train" "${TRAIN[@]:1}" --backend mpi | learnt | diff want -
}

@test "deterministic: the digest is that of the arrays of the file, sorted by name" {
	needs python3
	bounded "${TRAIN[@]}" --devices 2 --save model.npz | learnt >want
	python3 - <<-'END' >digest
		import hashlib, zipfile
		h = hashlib.sha256()
		with zipfile.ZipFile("model.npz") as z:
		    for name in sorted(n[:-4] for n in z.namelist()):
		        if not name.startswith(("gpusim.", "input.")):
		            b = z.read(name + ".npy")
		            h.update(name.encode() + b[10 + b[8] + 256 * b[9]:])
		print("params sha256", h.hexdigest())
	END
	assert_equal "$(cat digest)" "$(tail -n 1 want)"
}

@test "deterministic: batch norm by leaves, augmentation, adam: two devices learn what one does" {
	images data 8 10
	TRAIN=(mnist-train --data data --model resnet9 --deterministic --global-batch 8 --leaf 3 --epochs 1)
	TRAIN+=(--augment "crop,flip" --optimizer adamw --lr-schedule cosine)
	bounded "${TRAIN[@]}" --devices 1 | learnt >want
	for options in "--devices 2" "--workers 2 --sync ps"; do
		bounded "${TRAIN[@]}" $options | learnt | diff want -
	done
}

# killed POLICY OPTION... - three devices; two are killed one after the other
killed() {
	bounded gpuctl run -n 3 --on-failure "$1" "${@:2}" -- bash -c "$TRAINING"'
		lose() {
			reached "$1" || return
			kill -STOP "$trainer" # it must not be done before
			kill -KILL "$(gpuctl devices | awk "\$5 == \"busy\" { print \$7 }" | sed -n "$2p")"
			kill -CONT "$trainer"
			said "ms lost$" "$3"
		}
		train "$@"; lose 3 2 1; lose 10 1 2; wait $trainer' -- "${TRAIN[@]}"
	assert_equal "$(grep -c 'ms lost$' out)" 2
	learnt <out | diff want -
}

@test "deterministic: devices that are killed leave no trace, whatever the policy" {
	TRAIN+=(--epochs 50)
	bounded "${TRAIN[@]}" --devices 2 | learnt >want
	killed shrink
	killed respawn
	killed spare --spares 2
}

@test "deterministic: resumed with another number of devices, and refused with other terms" {
	bounded "${TRAIN[@]}" --devices 2 >said
	learnt <said | tail -n 2 >want
	bounded "${TRAIN[@]}" --devices 3 --epochs 1 --checkpoint ck --checkpoint-every 2 >/dev/null
	bounded "${TRAIN[@]}" --devices 2 --epochs 2 --checkpoint ck --resume >/dev/null
	bounded "${TRAIN[@]}" --devices 1 --checkpoint ck --resume | learnt | diff want -
	for other in "--leaf 8" "--deterministic=false" "--global-batch 99"; do
		run bounded "${TRAIN[@]}" $other --checkpoint ck --resume
		assert_status 2
		assert_match "ck: was made with.*${other:0:6}"
	done
}

@test "deterministic: numbers that do not fit end the training, and what cannot repeat is refused" {
	run bounded "${TRAIN[@]}" --devices 2 --lr 1e6
	assert_status 5
	assert_match '\): fixed_add: src\[[0-9]+\] is .* its magnitude must be below'
	[[ $output != *'fixed_add: fixed_add'* ]]
	run bounded "${TRAIN[@]}" --devices 2 --lr 1e6 --on-failure shrink
	assert_status 1
	assert_match 'given up after .* fixed_add: src\[[0-9]+\] is '
	run bounded "${TRAIN[@]}" --sync local
	assert_status 2
	assert_match 'deterministic: not with --sync local'
	run bounded "${TRAIN[@]}" --sync ps --staleness 1
	assert_status 2
	assert_match 'needs --staleness 0'
	run bounded "${TRAIN[@]}" --batch 3
	assert_status 2
	run bounded "${TRAIN[@]}" --sync ps --verify
	assert_status 2
	run bounded "${TRAIN[@]}" --leaf 1 --global-batch 5000 --devices 1
	assert_status 2
	assert_match 'a step of 5000 images has more than 4096 leaves of 1'
	run bounded mnist-train --leaf 3
	assert_status 2
}
