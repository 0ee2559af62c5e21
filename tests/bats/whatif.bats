# A training with failures, in virtual time: gpuctl simulate training.
load helper

setup() { house_setup; }
teardown() { house_teardown; }

# field NAME - the first number of that name in the file json
field() { grep -oE "\"$1\":[-0-9.e+]+" json | head -n 1 | cut -d : -f 2; }

# between LEAST X MOST
between() { awk -v a="$1" -v x="$2" -v b="$3" 'BEGIN { exit !(a <= x && x <= b) }' || fail "$2 is not in $1 .. $3"; }

@test "the shipped rates give what was published" {
	llama3=(-c h100-roce400 -n 16384 --fail-rate llama3 --days 54 --policy restart --json)
	gpuctl simulate training "${llama3[@]}" --checkpoint-time 3.24s --detect-time 10s --restart-time 150s >json
	between 418.9 "$(field failures)" 419.1
	between 3.08 "$(field mtbf_s | awk '{ print $1 / 3600 }')" 3.10
	between 358 "$(field happened)" 480
	assert_equal "$(grep -oE '"count":[0-9]+' json | awk -F: '{ n += $2 } END { print n }')" "$(field happened)"
	between 0.9 "$(field training)" 1
	for gpus in 16384:1.80 131072:0.225; do
		echo 'gpu = a100' >big.ini
		printf '%s\n' 'hosts = 16384' 'nics = 8 x 200Gb/s ib' >>big.ini
		gpuctl simulate training -c ./big.ini -n "${gpus%:*}" --fail-rate rsc1 --policy restart --json >json
		between "$(awk -v h="${gpus#*:}" 'BEGIN { print h * 0.995 }')" "$(field mtbf_s | awk '{ print $1 / 3600 }')" \
			"$(awk -v h="${gpus#*:}" 'BEGIN { print h * 1.005 }')"
	done
}

@test "every policy is in the table, its time in one account; assumptions are below; the same seed, the same bytes" {
	gpuctl simulate training -c h100-ib400 --gpus 1024 --seed 3 >one
	gpuctl simulate training -c h100-ib400 --gpus 1024 --seed 3 >two
	cmp one two
	grep -v '^#' one >rows
	assert_equal "$(awk '{ print $1 }' rows | xargs)" 'restart shrink respawn spare'
	awk '{ t = $2; for (k = 5; k <= 10; k++) t += $k; if (t < 99.9 || t > 100.1) exit 1 }' rows
	for word in detect-time restart-time checkpoint-time repair-time spares; do
		grep -qE -- "^#   --$word .*; default" one
	done
	grep -q '^#   failures from llama3: The Llama 3 Herd' one
}

@test "the share of useful time over the interval, as a picture" {
	needs gnuplot
	gpuctl simulate training -c h100-ib400 --gpus 1024 --plot goodput.svg >/dev/null
	grep -q '<svg' goodput.svg
}

@test "a training refuses in one line" {
	refused() { # STATUS TEXT ARG...
		run -"$1" gpuctl simulate training "${@:3}"
		[[ $output == *"$2"* && ${#lines[@]} -eq 1 ]] || fail "$output"
	}
	refused 2 'training: needs --cluster' -n 8
	refused 2 'not one of the built-in failures' -c h100-ib400 --fail-rate nothing
	refused 2 'the cluster has 16384' -c h100-ib400 -n 16385
	refused 2 'must be 1ms' -c h100-ib400 --step-time 0
	refused 2 '--checkpoint: ' -c h100-ib400 --checkpoint soon
	refused 2 'out of range (0 to 1)' -c h100-ib400 --overlap 1.5
	refused 2 'an option for collectives' -c h100-ib400 -b 8
	run -2 gpuctl simulate allreduce -c h100-ib400 --days 3
	printf 'hosts = 1\ndays = 1\n[failures]\na = -1\n' >bad.ini
	refused 2 'bad.ini:4: a: ' -c h100-ib400 --fail-rate bad.ini
}

@test "--parallel: data-parallel groups reduce their part of the gradients, and share a host's NICs; seeds are printed" {
	gpuctl simulate training -c h100-roce400 -n 16384 --params 405e9 --parallel tp=8,pp=16,dp=128 --days 1 --policy restart >one
	grep -q 'all-reduces of 6.33 GB' one # 2 x 405e9 / 128
	grep -q '^#   128 GPUs, 1 per host, reduce the same bf16 gradients: 1 of 128 parts of all' one
	grep -q 'by simulation (the mean of 8 seeds)' one
	gpuctl simulate training -c h100-roce400 -n 16384 --params 405e9 --parallel pp=16,tp=8 --days 1 --policy restart | cmp - one
	# 16 groups of 8 neighbours each reduce as a host's 8 GPUs do, without the network
	echo 'gpu = h100' >host.ini
	gpuctl simulate training -c h100-ib400 -n 128 --params 1e9 --parallel pp=16,dp=8 --days 1 --json >json
	parted=$(field reduce_s)
	gpuctl simulate training -c ./host.ini -n 8 --params 62500000 --days 1 --json >json
	between "$(awk -v x="$(field reduce_s)" 'BEGIN { print x * 0.999 }')" "$parted" "$(awk -v x="$(field reduce_s)" 'BEGIN { print x * 1.001 }')"
	for wrong in tp=8,pp=16,dp=100 tp=3 tp=0 'tp=8,' xx tp=2,tp=2; do
		run -2 gpuctl simulate training -c h100-roce400 -n 16384 --parallel $wrong
		[[ $output == *"--parallel: "* && ${#lines[@]} -eq 1 ]] || fail "$output"
	done
}
