# mnist-train --account: what a step should take and send, by formulas, is what devices' recorders and allocators say.
# shellcheck disable=SC2016,SC2054
load helper
load training

setup() {
	house_setup
	images data 14 120
	VIT=(mnist-train --data data --model vit --hidden 16 --heads 4 --blocks 2 --patch 7 --optimizer adamw --lr 0.003
		--global-batch 48 --epochs 1 --account)
	MLP=(mnist-train --data data --layers 196,24,16,12,4 --activation tanh --global-batch 48 --epochs 1 --account)
}

# agrees LEAST CMD... - all lines of the account agree, at least so many
agrees() {
	bounded "${@:2}" >out || fail "$(grep -e DIFFERS -e 'pipeline rank' out; echo "${@:2}")"
	not grep DIFFERS out
	at_least "$(grep -c '^  ' out)" "$1"
}

@test "a vit over every kind of grid: all numbers agree" {
	local least how
	while read -r least how; do
		# shellcheck disable=SC2086
		agrees "$least" "${VIT[@]}" $how
	done <<-END
		8 --devices 1
		10 --devices 4
		12 --parallel dp=3 --zero 2 --micro 2
		12 --parallel dp=4 --zero 3
		12 --parallel dp=3 --zero 3 --no-reshard --micro 2
		14 --parallel dp=4 --zero 1 --shard-size 2
		14 --parallel dp=6 --zero 2 --shard-size 3 --micro 2
		14 --parallel dp=4 --zero 3 --shard-size 2 --no-reshard --micro 2 --deterministic --leaf 8
		28 --parallel dp=4,pp=2 --zero 3 --shard-size 2 --schedule zb-h1 --precision f16
		10 --parallel dp=2 --recompute full
		10 --parallel dp=1,tp=4 --recompute selective
		14 --parallel dp=2,tp=2 --sequence-parallel --recompute full
		24 --parallel dp=1,tp=2,pp=2 --sequence-parallel --schedule zb-h1 --micro 3
		18 --parallel dp=2,pp=2 --schedule 1f1b --zero 3 --recompute selective
		18 --parallel dp=1,pp=2 --schedule interleaved=2
		18 --parallel dp=1,pp=2 --schedule zb-h2
		18 --parallel dp=1,pp=2 --schedule zb-v --micro 4
		12 --parallel dp=3 --zero 3 --deterministic --leaf 8 --micro 2
		28 --parallel dp=2,tp=2,pp=2 --zero 1
		10 --devices 4 --precision bf16
		14 --devices 4 --precision f16 --zero 1
		14 --devices 4 --precision f16 --zero 2
		14 --devices 4 --precision f16 --zero 3
		14 --parallel dp=2,tp=2 --precision bf16 --sequence-parallel
		24 --parallel dp=2,pp=2 --precision bf16 --schedule zb-h1 --clip 1
	END
}

@test "an mlp, and gradients by PowerSGD" {
	local least how
	while read -r least how; do
		# shellcheck disable=SC2086
		agrees "$least" "${MLP[@]}" $how
	done <<-END
		10 --parallel dp=1,tp=4 --optimizer adam
		28 --parallel dp=2,tp=2,pp=2 --layer-norm --zero 2
		14 --parallel dp=1,pp=2 --activation gelu --recompute full
		10 --parallel dp=1,tp=2 --activation gelu
		2 --devices 3 --compress powersgd=2
	END
}

# counted FILE - elements of f32 that each pair of ranks sends in a trace with the steps of one step, "FROM TO SUM", by the
# sends of collectives
counted() {
	perl -ne '
		$rank{$1} = $2 if /"pid":(\d+).*"process_name".*\(rank (\d+)\)/;
		$sent{$1, $2} += $3 / 4 if /"pid":(\d+).*"cat":"step","name":"send","args":\{"step":\d+,"peer":(\d+),"bytes":(\d+)/;
		END {
			for (keys %sent) { my ($from, $to) = split /$;/; print "$rank{$from} $to $sent{$_}\n" }
		}' "$1" | sort -n
}

# told FILE WHAT - the sum of the numbers of that name that the JSON has as measured
told() {
	grep -o "\"what\":\"$2, elements sent\"[^}]*" "$1" | sed 's/.*"measured":\([0-9.]*\).*/\1/' | awk '{ n += $1 } END { print n + 0 }'
}

@test "what is called measured is what the devices recorded, counted here from their steps" {
	# dp=2,tp=2: ranks 0 and 1 share layers, 0 and 2 gradients
	bounded gpuctl run -n 4 -- sh -c '"$@" --json json >out; gpuctl trace -o trace 2>err' - "${VIT[@]}" --parallel dp=2,tp=2 --zero 3
	counted trace >pairs
	cat pairs
	assert_equal "$(awk '{ d = $1 - $2; n[d * d] += $3 } END { print n[1] / 4, n[4] / 4 }' pairs)" \
		"$(told json 'tp all-reduce') $(($(told json 'dp all-gather') + $(told json 'dp reduce-scatter')))"
	# 8 bsh (t-1)/t of 2 blocks, and the head's: by hand
	assert_equal "$(told json 'tp all-reduce')" $((8 * 24 * 5 * 16 / 2 * 2 + 2 * (24 * 16 + 4 * 24) / 2))

	# dp=4 in groups of 2: ranks 0 and 1 share a model, 0 and 2 are replicas
	bounded gpuctl run -n 4 -- sh -c '"$@" --json json >out; gpuctl trace -o trace 2>err' - "${VIT[@]}" --parallel dp=4 --zero 3 \
		--shard-size 2
	assert_equal "$(counted trace | awk '{ d = $1 - $2; n[d * d] += $3 } END { print n[1] / 4, n[4] / 4 }')" \
		"$(($(told json 'dp all-gather') + $(told json 'dp reduce-scatter'))) $(told json 'rep all-reduce')"
	assert_equal "$(told json 'rep all-reduce')" $((7556 / 2))
	assert_equal "$(grep -o '"group":"[a-z]*[0-9]*"' trace | sort -u | paste -sd ' ')" \
		'"group":"rep0" "group":"rep1" "group":"shard0" "group":"shard1"'

	bounded gpuctl run -n 4 -- sh -c '"$@" --json json >out; gpuctl trace -o trace 2>err' - "${VIT[@]}" --parallel dp=4
	assert_equal "$(counted trace | awk '{ n += $3 } END { print n / 4 }')" "$(told json 'dp all-reduce')"
	assert_equal "$(told json 'dp all-reduce')" $((2 * 3 * 7556 / 4))
}

@test "a number that differs is marked, and the status is 1 with one line" {
	run -1 --separate-stderr bounded gpuctl run -n 2 -- sh -c 'gpuctl malloc --device 1 1000 >where; mnist-train "$@"' - \
		"${MLP[@]:1}" --json json
	assert_equal "$(grep -c 'DIFFERS$' <<<"$output")" 1
	assert_match 'in use, bytes, most .*DIFFERS'
	assert_equal "${stderr_lines[*]}" 'mnist-train: --account: 1 of 10 numbers differ from what formulas give'
	tail -n 1 json | grep '"agrees":false}$'
}

@test "records that were lost are no account" {
	run -1 bounded gpuctl run -n 2 --recorder 256 -- "${MLP[@]}" --micro 20
	assert_match '--account: [0-9]+ records of the step were overwritten .* --recorder 256K$'
}

@test "what it cannot count is refused before a device is taken" {
	while IFS='|' read -r how why; do
		# shellcheck disable=SC2086
		run -2 bounded "${VIT[@]}" $how
		assert_match "^mnist-train: $why"
	done <<-END
		--algo tree|--account: needs --algo ring
		--deterministic --parallel tp=2|--account: not with --deterministic and tp
		--optimizer adam --compress onebit|--account: only powersgd
		--sync sendrecv|--account: needs training with --sync allreduce
	END
	run -2 bounded mnist-train --data data --model resnet9 --account
	assert_match '^mnist-train: --account: not for a model with batch norm$'
}

@test "ZeRO's table: bytes a parameter with f16 and Adam, of 7556 parameters on 4 devices" {
	local zero
	for zero in 0 1 2 3; do
		bounded "${VIT[@]}" --devices 4 --precision f16 --zero "$zero" --json json >out
		awk -v zero="$zero" -F '"measured":' '/account/ {
			for (i = 2; i <= 4; i++) sum += $i
			want = zero == 0 ? 16 : zero == 1 ? 4 + 12 / 4 : zero == 2 ? 2 + 14 / 4 : 16 / 4
			# parts of units are rounded up, and arrays to 256 bytes
			exit !(sum >= want * 7556 && sum <= want * 7556 + 5 * 256 + 16 * 4) }' json || fail "zero $zero"
	done
}
