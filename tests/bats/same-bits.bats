# The same bits where devices are lost at bad moments, and where ranks lie.
# shellcheck disable=SC2016
load helper
load training

setup() {
	house_setup
	export GPUSIM_DATA=$ROOT/tests/data
	LIMIT=50
	TRAIN=(mnist-train --layers "784,16,10" --deterministic --global-batch 100 --epochs 3)
}

digest() { grep '^params sha256 '; }

@test "a device is killed while the communicator of a training is made" {
	bounded "${TRAIN[@]}" --devices 1 | digest >want
	for policy in shrink respawn spare; do
		bounded gpuctl run -n 3 --spares 1 --on-failure $policy -- bash -c "$TRAINING"'
			victim=$(gpuctl devices | awk "\$5 == \"free\" { print \$7 }" | sed -n 2p)
			kill -STOP $victim # so it is in the communicator, and does not answer
			train "$@" --devices 3
			until [ "$(gpuctl devices | grep -c busy)" = 3 ]; do alive || break; moment; done
			kill -KILL $victim
			wait $trainer' -- "${TRAIN[@]}"
		assert_equal "$(sed -n 's/.* parameters, //p' out)" "$([ $policy = shrink ] && echo 2 || echo 3) devices"
		digest <out | diff want -
	done
}

@test "steps of very many leaves on many devices" {
	TRAIN+=(--data "$ROOT/tests/data" --global-batch 512 --leaf 1 --layers "784,3,3,3,3,10" --epochs 1)
	bounded "${TRAIN[@]}" --devices 1 | digest >want
	bounded gpuctl run -n 7 -- "${TRAIN[@]}" | digest | diff want -
}

@test "--verify names the rank whose gradients or result change, or learns on without them" {
	bounded "${TRAIN[@]}" --global-batch 512 --devices 1 | digest >want
	TRAIN+=(--global-batch 512 --verify --algo ring)
	for point in end step1; do
		run bounded gpuctl run -n 3 --allow-inject -- bash -c "
			gpuctl inject flip device=1 at=allreduce#1.$point && \"\$@\"" -- "${TRAIN[@]}"
		assert_status 5
		assert_match "allreduce#1.$point, ring, .*, element [0-9]+: was [^ ]+, is [^ ]+"
		assert_match '--verify: device [0-9a-f]+: rank 1: .*gradients'
	done
	bounded gpuctl run -n 3 --allow-inject -- bash -c '
		gpuctl inject flip device=1 at=allreduce#1.end && "$@" --on-failure respawn' -- "${TRAIN[@]}" 2>/dev/null |
		digest | diff want -
}

@test "bench --verify names the rank whose input or result changes" {
	local place
	for point in end:result step1:input; do
		place=${point#*:}
		run bounded gpuctl run -n 3 --allow-inject -- bash -c "
			gpuctl inject flip device=1 at=allreduce#0.${point%:*}
			gpuctl bench -b 4K -e 4K --iters 1 --warmup 0 --verify --algo ring"
		assert_status 5
		assert_match "bench: verify: rank 1 \(device [0-9a-f]{16}\) lies: element [0-9]+ of its $place is wrong"
	done
	bounded gpuctl run -n 3 -- gpuctl bench reduce-scatter -b 1K -e 2K --iters 1 --verify >table
}

@test "a program written for NCCL gets the bits that gpuctl gets" {
	awk 'BEGIN { srand(3); for (i = 0; i < 5 * 1003; i++) printf "%.7g%s", (rand() - 0.5) * 10 ^ int(rand() * 9), (i + 1) % 1003 ? " " : "\n" }' >in
	perl -ne 'print pack "f*", split' <in >in.raw
	export GPUSIM_DETERMINISTIC=1
	bounded gpuctl run -n 5 -- gpuctl allreduce --raw f32 --all <in.raw >want
	for options in '' '--transport tcp' '--transport ipc'; do
		# shellcheck disable=SC2086
		bounded gpuctl run --nccl -n 5 $options -- "$BUILD/e2e/nccl/nccl_sum" <in.raw | cmp want -
	done
	NCCL_ALGO=pairwise bounded gpuctl run --nccl -n 5 -- "$BUILD/e2e/nccl/nccl_sum" <in.raw | cmp want -
	unset GPUSIM_DETERMINISTIC
	for options in '' '--transport tcp'; do
		for config in same child; do
			# shellcheck disable=SC2086
			NCCL_ALGO=ring,pairwise bounded gpuctl run --nccl -n 5 $options -- "$BUILD/e2e/nccl/nccl_sum" $config <in.raw | cmp want -
		done
		# shellcheck disable=SC2086
		run bounded gpuctl run --nccl -n 5 $options -- "$BUILD/e2e/nccl/nccl_sum" other <in.raw
		assert_status 1
		assert_match 'the ranks disagree on the operation'
	done
	NCCL_ALGO=ring bounded gpuctl run --nccl -n 5 -- "$BUILD/e2e/nccl/nccl_sum" <in.raw >other
	assert_equal "$(cmp -s want other && echo same)" ''
}
