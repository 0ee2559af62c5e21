# Training that is spread over a grid: sharded, tensor and pipeline parallel; the same weights, after every failure too.
# shellcheck disable=SC2016,SC2030,SC2031
load helper
load training

setup() {
	house_setup
	images data 14 120
	NET=(mnist-train --data data --model vit --hidden 16 --heads 4 --blocks 2 --patch 7 --optimizer adamw --lr 0.003
		--global-batch 48)
	EPOCHS=2
}

# weights FILE OPTION... - train, and print the digest of the weights
weights() { bounded "${NET[@]}" --epochs "$EPOCHS" "$@" | sed -n 's/^params sha256 //p'; }


@test "zero 1 to 3, pipelines of every schedule and recomputation have the bits of one device" {
	local one
	one=$(weights --deterministic --leaf 8 --devices 1)
	[[ $one ]]
	while read -r -a how; do
		assert_equal "${how[*]} $(weights --deterministic --leaf 8 "${how[@]}")" "${how[*]} $one"
	done <<-END
		--parallel dp=3 --zero 1
		--parallel dp=3 --zero 2 --micro 2
		--parallel dp=3 --zero 3 --micro 2
		--parallel dp=2 --zero 3 --no-reshard
		--parallel dp=4 --zero 1 --shard-size 2
		--parallel dp=6 --zero 2 --shard-size 3 --micro 2
		--parallel dp=4,pp=2 --zero 3 --shard-size 2 --schedule zb-h1 --micro 3
		--parallel dp=2 --recompute full
		--parallel dp=1,pp=2 --schedule gpipe
		--parallel dp=2,pp=2 --schedule 1f1b --zero 3 --recompute selective
		--parallel dp=1,pp=3 --schedule zb-h1 --micro 4
		--parallel dp=1,pp=2 --schedule zb-h2 --zero 2
		--parallel dp=1,pp=2 --schedule zb-v
		--parallel dp=1,pp=2 --schedule interleaved=2
	END
}

@test "tensor parallel: the loss is that of one device but for rounding, the bits are those of every other grid of it" {
	local how one two rows
	bounded "${NET[@]}" --epochs 2 --devices 1 >one
	for how in dp=1,tp=2 dp=1,tp=4 dp=2,tp=2; do
		bounded "${NET[@]}" --epochs 2 --parallel "$how" >two
		close_to "$(loss two)" "$(loss one)" 2e-4
		bounded "${NET[@]}" --epochs 2 --parallel "$how" --sequence-parallel >two
		close_to "$(loss two)" "$(loss one)" 2e-4
	done
	for how in "--zero 2" "--parallel dp=2,tp=2 --sequence-parallel"; do
		# shellcheck disable=SC2086
		bounded "${NET[@]}" --epochs 2 --devices 4 --algo tree $how >two
		close_to "$(loss two)" "$(loss one)" 2e-4
	done
	two=$(weights --deterministic --leaf 8 --parallel dp=1,tp=2)
	assert_equal "$(weights --deterministic --leaf 8 --parallel dp=2,tp=2 --zero 3 --micro 2)" "$two"
	assert_equal "$(weights --deterministic --leaf 8 --parallel dp=1,tp=2,pp=2 --schedule zb-h1)" "$two"
	rows=$(weights --deterministic --leaf 8 --parallel dp=1,tp=2 --sequence-parallel)
	assert_equal "$(weights --deterministic --leaf 8 --parallel dp=2,tp=2,pp=2 --sequence-parallel --zero 2 --recompute full)" \
		"$rows"
}

@test "an mlp, its layers divided by columns and rows in turn, and cut between any two" {
	local how
	NET=(mnist-train --data data --layers "196,24,16,12,4" --activation tanh --global-batch 48)
	bounded "${NET[@]}" --epochs 2 --devices 1 >one
	for how in dp=1,tp=2 dp=1,tp=4 dp=1,pp=4 dp=1,tp=2,pp=4 dp=2,pp=2; do
		bounded "${NET[@]}" --epochs 2 --parallel "$how" >two
		close_to "$(loss two)" "$(loss one)" 2e-4
	done
	NET=(mnist-train --data data --layers "196,24,4" --global-batch 48)
	bounded "${NET[@]}" --epochs 2 --devices 1 >one
	bounded "${NET[@]}" --epochs 2 --parallel dp=1,tp=3 --zero 1 >two
	close_to "$(loss two)" "$(loss one)" 2e-4
}

# killed POLICY DEVICES OPTION... - kill a device in the midst of a training, and again; leaves out, again.npz
killed() {
	local spares=0
	[[ $1 != spare ]] || spares=2
	LIMIT=80 bounded gpuctl run -n "$2" --on-failure "$1" --spares "$spares" -- \
		bash -c "$TRAINING"'
		lose() {
			local before; before=$(grep -c "ms lost$" out)
			reached "$1" || return
			kill -STOP "$trainer"
			kill -KILL "$(gpuctl devices | awk "\$5 == \"busy\" { print \$7 }" | sed -n "$2p")"
			kill -CONT "$trainer"
			said "ms lost$" $((before + 1))
		}
		train "$@" --save again.npz; lose 3 2; lose 8 3; wait $trainer' -- "${NET[@]}" --epochs 40 "${@:3}"
}

@test "devices die and come back, under every way to spread: the same bits" {
	local how
	while read -r -a how; do
		bounded "${NET[@]}" --epochs 40 --deterministic --leaf 8 "${how[@]:1}" --save whole.npz >whole
		killed "${how[0]}" 4 --deterministic --leaf 8 "${how[@]:1}"
		assert_equal "${how[*]} $(grep -c 'ms lost$' out)" "${how[*]} 2"
		cmp whole.npz again.npz
	done <<-END
		respawn --parallel dp=4 --zero 3
		respawn --parallel dp=4 --zero 3 --shard-size 2
		spare --parallel dp=2,tp=2 --zero 2 --sequence-parallel
		respawn --parallel dp=2,pp=2 --schedule 1f1b --zero 1
		spare --parallel dp=1,pp=4 --schedule zb-h1
	END
}

@test "a stage behind another on one device: its gradient stays until that one has taken it" {
	local one
	one=$(weights --deterministic --leaf 8 --devices 1)
	echo 0F0,1F0,1B0,0F1,1F1,1B1,0B0,0B1 >late.csv
	assert_equal "$(weights --deterministic --leaf 8 --parallel dp=1 --schedule late.csv)" "$one"
	echo 0F0,1F0,1I0,1W0,0F1,1F1,1I1,0I0,0W0,1W1,0I1,0W1 >late.csv
	assert_equal "$(weights --deterministic --leaf 8 --parallel dp=2 --schedule late.csv --zero 2)" "$one"
}

@test "a step of more operations than a graph may have becomes several, with the same bits" {
	local one how
	one=$(weights --deterministic --leaf 1 --devices 1)
	while read -r -a how; do
		assert_equal "${how[*]} $(weights --deterministic --leaf 1 "${how[@]}")" "${how[*]} $one"
	done <<-END
		--parallel dp=2 --zero 3 --micro 8
		--parallel dp=1,pp=4 --micro 48 --schedule zb-h1
		--parallel dp=1,pp=2 --micro 24 --schedule zb-v
	END
	EPOCHS=1
	for how in 1f1b gpipe; do
		bounded "${NET[@]}" --epochs 1 --parallel dp=1,pp=2 --micro 300 --schedule "$how" >two
		bounded "${NET[@]}" --epochs 1 --devices 1 >one
		close_to "$(loss two)" "$(loss one)" 2e-4
	done
	run -2 bounded "${NET[@]}" --blocks 24 --epochs 1 --parallel dp=2 --zero 3 --micro 2048
	[[ ${#lines[@]} = 1 && $output = 'mnist-train: --micro: a step is more operations than 128 graphs'* ]]
}

@test "what contradicts or does not fit is refused by one line, before a device is taken" {
	local says how
	gpuctl pipeline make 1f1b -p 3 -m 4 >three.csv
	printf '0F0,\0' >nul.csv
	while IFS='|' read -r says how; do
		# shellcheck disable=SC2086
		run -2 bounded "${NET[@]}" --epochs 1 $how
		[[ ${#lines[@]} = 1 && $output = "mnist-train: $says"* ]] || fail "$how: $output"
	done <<-END
		--parallel: needs training with --sync allreduce|--parallel dp=1,tp=2 --sync ps
		--zero: needs training with --sync allreduce|--zero 1 --sync local
		--micro: needs training with --sync allreduce|--micro 2 --backend mpi
		--zero: cannot be used with --compare|--zero 1 --compare allreduce,ps
		--verify: needs --deterministic|--deterministic --verify --zero 1
		--bucket-bytes: cannot be used with|--bucket-bytes 1K --parallel dp=1,pp=2
		--parallel: tp=3: block0.qkv has outputs that tp does not divide; vit|--parallel dp=1,tp=3
		--parallel: vit 1x14x14-4 blocks 2 hidden 16 heads 4 patch 7 cross-entropy can be cut into at most 4|--parallel pp=5
		--parallel: dp=2,tp=1,pp=2 is 4 devices, and 3 are given|--parallel dp=2,pp=2 --devices 3
		--parallel: tp=1,pp=2: 2 must divide the 3 devices|--parallel pp=2 --devices 3
		--parallel: 'dp=4294967297' is not|--parallel dp=4294967297
		--micro: 4294967296 is out of range|--micro 4294967296
		--recompute: needs a schedule whose backward is whole|--parallel dp=1,pp=2 --schedule zb-h1 --recompute full
		--stages: needs 2 numbers whose sum is 4|--parallel dp=1,pp=2 --stages 1,2
		--stages: needs 1 numbers whose sum is 4|--devices 2 --stages 1,2
		--schedule: 'nosuch': no schedule|--devices 2 --schedule nosuch
		--schedule: it has 3 rows, and --parallel says pp=2|--parallel dp=1,pp=2 --schedule three.csv
		--schedule: it has 4 microbatches, and --micro says 8|--parallel dp=1,pp=3 --schedule three.csv --micro 8
		--schedule: nul.csv: not a schedule|--parallel dp=1 --schedule nul.csv
		--shard-size: needs --zero 1, 2 or 3|--shard-size 2
		--shard-size: 3 does not divide dp=4; it can be 1, 2 or 4|--parallel dp=4,tp=2 --zero 1 --shard-size 3
		--shard-size: 8 does not divide dp=4; it can be 1, 2 or 4|--devices 4 --zero 3 --shard-size 8
		--no-reshard: needs --zero 3|--zero 2 --no-reshard
		--sequence-parallel: needs --parallel tp=N|--sequence-parallel --zero 1
	END
}
