# A training step on a cluster: gpuctl simulate step, and gpusim-step(7).
load helper

setup() { house_setup; }
teardown() { house_teardown; }

# field NAME - the first number of that name in the file json
field() { grep -oE "\"$1\":[-0-9.e+]+" json | head -n 1 | cut -d : -f 2; }

# holds EXPRESSION - of awk
holds() { awk "BEGIN { exit !($1) }" || fail "$1"; }

GPT3=(--layers 96 --hidden 12288 --heads 96 --seq 2048 --batch 1536 --vocab 51200)

@test "the page's tables have what is predicted" {
	rows=0
	while read -r -a row; do
		n=${#row[@]}
		later=(--zero "${row[10]}")
		((n == 14)) || later=(--recompute selective --sequence-parallel)
		gpuctl simulate step -c a100-hdr --json --layers "${row[1]}" --hidden "${row[2]}" --heads "${row[3]}" \
			--batch "${row[4]}" --parallel "tp=${row[5]},pp=${row[6]},dp=${row[7]}" --micro-batch "${row[8]}" \
			--interleave "${row[9]}" "${later[@]}" >json
		rate=$(field tflops)
		((n == 14)) || rate=$(awk -v x="$(field model_tflops)" 'BEGIN { print x / 3.12 }')
		assert_equal "$(printf %.1f "$rate")" "${row[n - 2]}"
		assert_equal "$(awk -v a="$rate" -v b="${row[n - 3]}" 'BEGIN { printf "%+.1f", 100 * (a / b - 1) }')" "${row[n - 1]}"
		rows=$((rows + 1))
	done < <(sed -n 's/^\.It \([0-9.]*B Ta\)/\1/p' "$ROOT/man/gpusim-step.7" | sed 's/ Ta / /g')
	assert_equal "$rows" 26
}

@test "parts add up, as text and as JSON; one GPU sends nothing" {
	gpuctl simulate step --model gpt "${GPT3[@]}" --parallel tp=8,pp=8,dp=16 --micro-batch 1 -c a100-hdr --json >json
	holds "$(field nranks) == 1024 && $(field microbatches) == 96"
	sum=0
	for name in matrix elementwise optimizer tp pp dp bubble; do sum="$sum + $(field ${name}_s)"; done
	holds "($sum) / $(field step_s) > 0.999999 && ($sum) / $(field step_s) < 1.000001"
	gpuctl simulate step "${GPT3[@]}" --parallel tp=8,pp=8,dp=16 -c a100-hdr >text
	# shellcheck disable=SC2016
	holds "$(grep -v '^#' text | awk '/compute|messages|bubble/ { n += $2 } END { print n }') > 99.9"
	grep -q 'fits into 80 GB' text
	gpuctl simulate step --layers 2 --hidden 1024 --heads 16 --batch 4 --parallel dp=1 -c a100-hdr --json >json
	for name in tp pp dp bubble; do holds "$(field ${name}_s) == 0"; done
}

@test "each way to spread a model changes what it should" {
	step() { gpuctl simulate step "${GPT3[@]}" --parallel tp=8,pp=8,dp=16 -c a100-hdr --json "$@" >json; }
	step
	bubble=$(field bubble_s) tp=$(field tp_s) matrix=$(field matrix_s) optimizer=$(field optimizer_s)
	step --interleave 3
	holds "$(field bubble_s) > 0.33 * $bubble && $(field bubble_s) < 0.35 * $bubble"
	step --recompute none # of 12 layers and the head: 49 all-reduces, not 73
	holds "$(field tp_s) / $tp > 0.671 && $(field tp_s) / $tp < 0.672 && $(field matrix_s) < 0.77 * $matrix"
	step --recompute selective
	holds "$(field matrix_s) < 0.85 * $matrix"
	step --zero 1 --dtype f16
	holds "$(field optimizer_s) / $optimizer > 0.0624 && $(field optimizer_s) / $optimizer < 0.0626"
	step --sequence-parallel --schedule gpipe
	activations=$(field activations)
	step --sequence-parallel --schedule 1f1b
	holds "$activations > 10 * $(field activations)"
	step --zero 3 --flat-gather
	all=$(field dp_s)
	step --zero 3 --flat-gather --overlap 0.1
	holds "$(field dp_s) / $all > 0.899 && $(field dp_s) / $all < 0.901 && $(field hidden_s) > 0"
}

@test "a schedule from a file: as by its name, and proved" {
	step() { gpuctl simulate step "${GPT3[@]}" --parallel tp=8,pp=4,dp=32 -c a100-hdr --json "$@"; }
	for name in 1f1b interleaved=2 zb-h1; do
		gpuctl pipeline make $name -p 4 -m 48 >schedule.csv
		step --schedule $name >named
		step --schedule schedule.csv | cmp - named
	done
	step --interleave 2 >named
	step --schedule interleaved=2 | cmp - named
	sed '1s/,0B0/,0B1/' schedule.csv >wrong.csv
	sed -i '1s/,[0-9]*I0/,0I1/' wrong.csv
	run -5 step --schedule wrong.csv
	[[ ${#lines[@]} -eq 1 && $output == *wrong.csv* ]] || fail "$output"
	gpuctl pipeline make 1f1b -p 4 -m 8 >other.csv
	run -2 step --schedule other.csv
	assert_output 'gpuctl: simulate: other.csv: it has 4 ranks and 8 microbatches'
}

@test "a training's step by its model" {
	gpuctl simulate step "${GPT3[@]}" --parallel tp=8,pp=8,dp=16 -c a100-hdr --json >json
	step=$(field step_s) dp=$(field dp_s)
	gpuctl simulate training "${GPT3[@]}" --parallel tp=8,pp=8,dp=16 -c a100-hdr --policy restart --days 1 --json >json
	holds "$(field step_s) + $(field exposed_s) - $step < 1e-6 && $(field exposed_s) == $dp && $(field params) > 1.7e11"
	run -2 gpuctl simulate training "${GPT3[@]}" --step-time 3s -c a100-hdr
	assert_output "gpuctl: simulate: --layers: a model's step is predicted; leave out --params, --step-time and --bucket"
	run -2 gpuctl simulate training --layers 4 -c a100-hdr
	assert_output "gpuctl: simulate: a model's step needs --layers, --hidden, --heads and --batch"
}

@test "what cannot be is refused in a line that says what can" {
	refused() { # TEXT ARG...
		run -2 gpuctl simulate step "${@:2}"
		[[ $output == *"$1"* && ${#lines[@]} -eq 1 ]] || fail "$output"
	}
	refused 'step: needs --cluster' "${GPT3[@]}"
	refused 'needs --layers, --hidden, --heads and --batch' -c a100-hdr --layers 4
	refused '--parallel: tp 8 x pp 8 x dp 100 is not 4480 GPUs; dp can be 1 to 70' "${GPT3[@]}" -c a100-hdr --parallel tp=8,pp=8,dp=100
	refused 'dp can be 16' "${GPT3[@]}" -c a100-hdr -n 1024 --parallel tp=8,pp=8,dp=8
	refused 'does not divide 1000 GPUs' "${GPT3[@]}" -c a100-hdr -n 1000 --parallel tp=8,pp=8,dp=8
	refused 'is more than 4480 GPUs' "${GPT3[@]}" -c a100-hdr --parallel tp=8192
	refused 'tp 16 x pp 1' "${GPT3[@]}" -c a100-hdr -n 8 --parallel tp=16
	refused '96 layers are not a multiple of pp 7 x 1 stages; pp x stages can be 1, 2, 3' "${GPT3[@]}" -c a100-hdr --parallel tp=8,pp=7,dp=1
	refused 'tp 7 does not divide the 96 heads; tp can be 1, 2, 3' "${GPT3[@]}" -c a100-hdr --parallel tp=7,dp=1
	refused 'with dp 16 micro-batch can be 1, 2, 3' "${GPT3[@]}" -c a100-hdr --parallel tp=8,pp=8,dp=16 --micro-batch 5
	refused 'the schedules are gpipe, 1f1b, ' "${GPT3[@]}" -c a100-hdr --parallel dp=1 --schedule nothing
	refused 'must be one of' "${GPT3[@]}" -c a100-hdr --model bert
	refused 'out of range (0 to 3)' "${GPT3[@]}" -c a100-hdr --zero 4
	refused 'an option for training was given, which step does not accept' "${GPT3[@]}" -c a100-hdr --days 3
	run -2 gpuctl simulate allreduce -c a100-hdr --zero 1
	assert_output 'gpuctl: simulate: an option for step and training was given, which a collective does not accept'
}
