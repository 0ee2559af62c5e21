# Training in 16 bits with masters of f32, a scaled loss, and gradients clipped by their norm: one decision of all devices.
# shellcheck disable=SC2016
load helper
load training

setup() {
	house_setup
	images data 14 120
	NET=(mnist-train --data data --model vit --hidden 16 --heads 4 --blocks 2 --patch 7 --global-batch 48)
	ADAM=(--optimizer adamw --lr 0.003)
	EPOCHS=2
}

# weights OPTION... - train, and print the digest of the weights
weights() { bounded "${NET[@]}" --epochs "$EPOCHS" "$@" | sed -n 's/^params sha256 //p'; }

# last KEY - its number in the last line of epochs.json
last() { tail -n 1 epochs.json | sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p"; }

# moved A B LR - the norm of (A - B) / LR, where A and B are the weights of two models
moved() {
	perl -e '
		my ($lr, @w) = pop;
		for my $file (@ARGV) {
			open my $f, "<:raw", $file or die;
			my ($all, @all) = join "", <$f>;
			while ($all =~ /\x93NUMPY\x01\x00(..)/gs) {
				my ($at, $n) = (pos $all, unpack "v", $1);
				next unless substr($all, $at, $n) =~ /<f4.*\(([0-9, ]*)\)/;
				my $count = 1;
				$count *= $_ for grep { length } split /[, ]+/, $1;
				push @all, unpack "f<$count", substr $all, $at + $n, 4 * $count;
			}
			push @w, \@all;
		}
		my $sum = 0;
		$sum += ($w[0][$_] - $w[1][$_]) ** 2 for 0 .. $#{$w[0]};
		printf "%.9g\n", sqrt($sum) / $lr;' "$@"
}

@test "bf16 and f16 learn as f32 does, on every grid" {
	local how
	EPOCHS=10
	NET+=("${ADAM[@]}" --clip 1)
	bounded "${NET[@]}" --epochs 10 --devices 1 >one
	while read -r -a how; do
		bounded "${NET[@]}" --epochs 10 "${how[@]}" >two
		close_to "$(loss two)" "$(loss one)" 0.1
		[[ $(loss two) != "$(loss one)" ]]
	done <<-END
		--precision bf16 --devices 1
		--precision f16 --loss-scale 1024 --devices 1
		--precision f16 --loss-scale 1024 --parallel dp=2 --zero 3 --micro 2
		--precision bf16 --parallel dp=1,tp=2,pp=2
		--precision f16 --loss-scale 1024 --parallel dp=2,tp=2 --sequence-parallel --zero 2
		--precision f16 --loss-scale 1024 --parallel dp=1,pp=2 --schedule zb-h1 --recompute none
		--precision bf16 --parallel dp=2,pp=2 --zero 1 --recompute full
	END
}

@test "with --deterministic a clipped step and a step in bf16 have the same bits on every grid" {
	local how half clipped
	NET+=("${ADAM[@]}" --deterministic --leaf 8 --clip 0.5)
	clipped=$(weights --devices 1)
	half=$(weights --devices 1 --precision bf16)
	[[ $clipped && $half && $clipped != "$half" && $clipped != "$(weights --devices 1 --clip 0)" ]]
	while read -r -a how; do
		assert_equal "${how[*]} $(weights "${how[@]}")" "${how[*]} $clipped"
		assert_equal "bf16 ${how[*]} $(weights --precision bf16 "${how[@]}")" "bf16 ${how[*]} $half"
	done <<-END
		--parallel dp=3 --zero 1
		--parallel dp=2 --zero 2 --micro 2
		--parallel dp=3 --zero 3
		--parallel dp=2 --zero 3 --no-reshard --micro 2
		--parallel dp=4 --zero 2 --shard-size 2 --micro 2
		--parallel dp=1,pp=2 --schedule gpipe
		--parallel dp=2,pp=2 --schedule zb-h1 --zero 1
	END
}

@test "a clipped step of plain SGD is the gradient, as long as --clip says; on every grid the same norm" {
	local how norm want
	NET+=(--momentum 0 --lr 1 --global-batch 120)
	bounded "${NET[@]}" --epochs 0 --devices 1 --save w0.npz >/dev/null
	bounded "${NET[@]}" --epochs 1 --devices 1 --save w1.npz >/dev/null
	norm=$(moved w0.npz w1.npz 1)
	want=$(awk -v n="$norm" 'BEGIN { print n / 3 }')
	while read -r -a how; do
		bounded "${NET[@]}" --epochs 1 --clip "$want" "${how[@]}" --save w2.npz >/dev/null
		close_to "$(moved w0.npz w2.npz 1)" "$want" 1e-5
		bounded "${NET[@]}" --epochs 1 --clip "$(awk -v n="$norm" 'BEGIN { print n * 1.01 }')" "${how[@]}" --save w2.npz
		close_to "$(moved w0.npz w2.npz 1)" "$norm" 1e-5
	done <<-END
		--devices 1
		--parallel dp=3 --zero 2
		--parallel dp=1,tp=2
		--parallel dp=2,tp=4 --zero 3
		--parallel dp=4,tp=2 --zero 3 --shard-size 2
		--parallel dp=2,tp=2,pp=2 --sequence-parallel
	END
	bounded "${NET[@]}" --epochs 1 --clip "$want" --parallel dp=2,tp=2 --precision bf16 --save w2.npz >/dev/null
	close_to "$(moved w0.npz w2.npz 1)" "$want" "$(awk -v n="$want" 'BEGIN { print n / 100 }')"
}

@test "a loss scale that overflows: all devices skip the step, and no weight changes" {
	local how none
	none=$(EPOCHS=0 weights --devices 1)
	while read -r -a how; do
		assert_equal "$(weights "${how[@]}" --precision f16 --loss-scale 1e30 --json epochs.json)" "$none"
		assert_equal "$(last skipped_steps) $(last loss_scale)" "6 1.00000002e+30"
	done <<-END
		--devices 1 --optimizer adam
		--parallel dp=2,tp=2 --zero 3 --optimizer nesterov
		--parallel dp=2,pp=2 --schedule 1f1b --zero 1
	END
}

@test "the scale is halved by a skipped step and doubled after 2000 good ones, as GradScaler does; it survives resuming" {
	local skipped
	NET=(mnist-train --data data --layers "196,8,4" --global-batch 4 --precision f16 --loss-scale dynamic --parallel dp=2
		--zero 1 --json epochs.json)
	bounded "${NET[@]}" --epochs 66 --checkpoint c >/dev/null
	skipped=$(last skipped_steps)
	assert_equal "$(last loss_scale)" "$(awk -v n="$skipped" 'BEGIN { printf "%.9g", 65536 / 2 ^ n }')"
	bounded "${NET[@]}" --epochs 68 --checkpoint c --resume >/dev/null # 2040 steps
	assert_equal "$(last skipped_steps)" "$skipped"
	assert_equal "$(last loss_scale)" "$(awk -v n="$skipped" 'BEGIN { printf "%.9g", 131072 / 2 ^ n }')"
}

@test "resumed, and after the loss of devices, masters and scale go on: the same bits" {
	local how whole
	NET+=("${ADAM[@]}" --epochs 30)
	while read -r -a how; do
		bounded "${NET[@]}" "${how[@]}" --save whole.npz --json epochs.json >/dev/null
		whole="$(last skipped_steps) $(last loss_scale)"
		rm -rf c
		bounded "${NET[@]}" "${how[@]}" --epochs 4 --checkpoint c >/dev/null
		bounded "${NET[@]}" "${how[@]}" --checkpoint c --resume --save again.npz --json epochs.json >/dev/null
		cmp whole.npz again.npz
		assert_equal "$(last skipped_steps) $(last loss_scale)" "$whole"
		LIMIT=80 bounded gpuctl run -n 4 --on-failure respawn -- bash -c "$TRAINING"'
			train "$@" --save again.npz --json epochs.json
			reached 3
			kill -KILL "$(gpuctl devices | awk "\$5 == \"busy\" { print \$7 }" | sed -n 2p)"
			said "ms lost$" && wait $trainer' -- "${NET[@]}" "${how[@]}"
		cmp whole.npz again.npz
		assert_equal "$(last skipped_steps) $(last loss_scale)" "$whole"
	done <<-END
		--precision f16 --parallel dp=2,pp=2 --zero 1
		--precision bf16 --deterministic --leaf 8 --clip 1 --parallel dp=4 --zero 3
	END
}

@test "what cannot be: one sentence before a device is taken" {
	local option why
	while IFS='|' read -r option why; do
		# shellcheck disable=SC2086
		run bounded "${NET[@]}" --devices 1 $option
		assert_equal "$status" 2
		[[ $output == *"$why"* ]] || fail "$option: $output"
	done <<-END
		--loss-scale dynamic|--loss-scale: needs --precision f16 or bf16
		--precision f16 --loss-scale 0|must be dynamic, or a number
		--precision f16 --loss-scale 1e39|must be dynamic, or a number
		--precision f8|must be one of f32, f16, bf16
		--clip -1|--clip
		--clip 1 --sync local|needs training with --sync allreduce
		--precision bf16 --backend mpi|needs training with --sync allreduce
		--precision f16 --deterministic|f16 cannot be used with --deterministic
	END
	run bounded mnist-train --data data --devices 1 --model resnet9 --precision bf16
	[[ $status -ne 0 && $output == *"not for a model with batch norm"* ]]
}
