# gpusim.bash - gpusim's side of the measurements, and timings around it. Sourced by run.
# shellcheck shell=bash disable=SC2154 # of run

# shellcheck disable=SC2034 # for run: images
# All of MNIST if it was downloaded, else the included sample, whose epochs are short.
data=$here/../data/mnist images='60000 images' epochs=3
[ -e "$data" ] || data=$here/../tests/data images='512 images' epochs=20
[ -z "$short" ] || epochs=2

# Return success if a verb of gpuctl has this option.
gpuctl_has() { [[ $(gpuctl "$1" -h) == *" $2 "* ]]; }

# The address of messages between devices in the tcp case.
gpusim_sockets() { if gpuctl_has run --transport; then echo TCP; else echo 'sockets (gpusim: ipc)'; fi; }

# iters SIZE TRANSPORT - operations a run: a tenth of a second or so
iters() {
	local small=500
	[ "$2" = tcp ] || small=10000
	if [ -n "$short" ]; then
		echo 2
	else
		awk -v size="$1" -v small=$small \
			'BEGIN { print (size > 2^25 ? 2 : size > 2^22 ? 8 : size >= 2^20 ? 40 : small) }'
	fi
}

# gpuctl_bench TRANSPORT SIZE - the row of that size as BYTES MICROSECONDS WRONG, out of place, by the names in
# the table's head
gpuctl_bench() {
	local options=(-b "$2" -e "$2" --iters "$(iters "$2" "$1")" --warmup 2)
	[ "$2" -lt 1048576 ] || ! gpuctl_has bench --rewrite || options+=(--rewrite)
	gpuctl bench "${options[@]}" "${@:3}" | awk '
		/^# +size / { for (i = 2; i <= NF; i++) if (!($i in at)) at[$i] = i - 1 }
		!/^#/ && NF { print $at["size"], $at["time"], $at["#wrong"] }'
}

# gpusim TRANSPORT N - all sizes over the devices of one gpuctl run
gpusim() {
	local options=()
	if [ "$1" = tcp ]; then
		export GPUSIM_P2P_DISABLE=1
		! gpuctl_has run --transport || options=(--transport tcp)
	fi
	export short
	export -f gpuctl_bench gpuctl_has iters
	# shellcheck disable=SC2016 # for the inner shell
	gpuctl run -n "$2" "${options[@]}" -- bash -c 'set -e -o pipefail
		for size in "${@:2}"; do gpuctl_bench "$1" "$size"; done' bash "$1" "${sizes[@]}"
	unset GPUSIM_P2P_DISABLE
}

# Microseconds of one size.
gpusim_one() { # TRANSPORT N SIZE
	local sizes=("$3")
	gpusim "$1" "$2" | awk '{ print $2 }'
}

# gpusim_coll COLLECTIVE SIZE - microseconds over peer memory, n=2
gpusim_coll() {
	export short
	export -f gpuctl_bench gpuctl_has iters
	# shellcheck disable=SC2016 # for the inner shell
	gpuctl run -n 2 -- bash -c 'gpuctl_bench shm "$2" "$1"' bash "$1" "$2" | awk '$3 != 0 { exit 1 } { print $2 }'
}

# ---- one call

nccl_call() { # N [BYTES]
	gpuctl run --nccl -n "$1" -- mpirun.openmpi --oversubscribe -n "$1" "$programs/nccl_call" "${@:2}"
}

nccl_large() { nccl_call 2 "$1" | awk '$1 == "large" { print $2 }'; }

bench_large() {
	gpuctl run -n 2 -- gpuctl bench -b "$1" -e "$1" --iters 10 --warmup 2 | awk '!/^#/ && NF { print $6 }'
}

call_allreduce() { gpuctl run -n 2 -- "$programs/call" "$1"; }

# python_call N [CALLS] - microseconds of NumPy and of C, which take turns in the same processes
python_call() {
	BENCH_ID=$(gpuctl unique-id) gpuctl run -n "$1" --each -- "$python" "$here/python.py" call "$programs/rank_call" "${@:2}"
}

# torch_gloo N BYTES, torch_gpusim N BYTES - microseconds of an all_reduce by the same program
torch_gloo() { timeout -k 5 60 "$python" "$programs/torch" "$@" | awk '$3 != 0 { exit 1 } { print $2 }'; }
torch_gpusim() {
	gpuctl run -n "$1" --torch --procs 1 -- "$python" "$programs/torch" "$@" | awk '$3 != 0 { exit 1 } { print $2 }'
}

# record_against_none N SIZE - microseconds with a recorder, without, and the ratio: two clusters take turns
record_against_none() {
	# shellcheck disable=SC2016 # for the inner shells
	gpuctl run -n "$1" --recorder 0 -- bash -c 'exec gpuctl run -n "$1" -- "$2" "$GPUSIM_COORD" "$1" "${@:3}"' \
		bash "$1" "$programs/recorder" "$2" ${short:+1}
}

# Each all-reduce a gpuctl of its own.
call_process() {
	# shellcheck disable=SC2016 # for the inner shell
	gpuctl run -n 2 -- bash -c '
		comm=$(gpuctl comm-init -n 2)
		a=$(gpuctl malloc --comm "$comm" --rank 0 256)
		b=$(gpuctl malloc --comm "$comm" --rank 1 256)
		begin=$(date +%s%N)
		for ((i = 0; i < 20; i++)); do
			gpuctl allreduce --comm "$comm" --addr "$a,$b" --count 1
		done
		end=$(date +%s%N)
		echo $(((end - begin) / 20000))'
}

# ---- naive against ring

# shaped ALGO N SIZE LATENCY [BANDWIDTH] - milliseconds
shaped() {
	gpuctl run -n "$2" --latency "$4" ${5:+--bandwidth "$5"} -- \
		gpuctl bench -b "$3" -e "$3" --algo "$1" --chunk 256K --iters 3 --warmup 1 |
		awk '/^# +size / { for (i = 2; i <= NF; i++) if (!($i in at)) at[$i] = i - 1 }
			!/^#/ && NF { if ($at["#wrong"]) exit 1; print $at["time"] / 1e3 }'
}

# formula_ratio N SIZE LATENCY [BANDWIDTH] - the ratio naive : ring of README.md's formula
formula_ratio() {
	local window
	window=$(sed -n 's/^#define XPORT_WINDOW[[:space:]]*\([0-9]*\).*/\1/p' "$here/../lib/transport/xport/xport.h")
	awk -v p="$1" -v size="$2" -v latency="$3" -v bandwidth="${4-}" -v w="${window:-8}" '
	function ceil(x) { return x == int(x) ? x : int(x) + 1 }
	function max(x, y) { return x > y ? x : y }
	BEGIN {
		bytes = size * (size ~ /M$/ ? 2^20 : 2^10)
		a = latency + 0				# milliseconds
		tau = bandwidth ? 2^18 * 8 / (bandwidth * 1e6) : 0
		m = ceil(bytes / 2^18)
		part = ceil(bytes / p / 2^18)
		naive = 2 * ((p - 1) * max(m * tau, a * (ceil(m / w) - 1)) + a)
		last = 2 * (p - 1) * part
		for (k = 0; k < last; k++) {
			t = k ? leave[k - 1] + tau : 0
			if (k >= w) t = max(t, leave[k - w] + tau + a)
			if (k >= part) t = max(t, leave[k - part] + tau + a)
			leave[k] = t
		}
		printf "%.2f\n", naive / (leave[last - 1] + tau + a)
	}'
}

formula() { # N SIZE LATENCY [BANDWIDTH]
	formula=$(formula_ratio "$@") pair "naive : ring, n=$1, $2, $3${4:+, $4/s}" ms "$bar_formula" \
		shaped naive "$@" against shaped ring "$@"
}

# ---- pipes and processes

# milliseconds COMMAND... - how long it takes
milliseconds() {
	local begin=${EPOCHREALTIME/[.,]/} end
	"$@" >/dev/null 2>"$tmp/err" </dev/null || return
	end=${EPOCHREALTIME/[.,]/}
	awk -v us=$((end - begin)) 'BEGIN { print us / 1e3 }'
}

# Make two vectors of this many bytes in $tmp/vectors, whose sums are whole numbers.
pipe_input() {
	perl -e 'my $v = pack "f<*", map { $_ & 15 } 1 .. 16000 / 4;
		print $v x ($ARGV[0] / 16000) for 1 .. 2' "$1" >"$tmp/vectors"
}

# shellcheck disable=SC2016 # for the inner shells
pipe_gpusim() {
	gpuctl run -n 2 --mem 512M -- bash -c '
		begin=${EPOCHREALTIME/[.,]/}
		cat "$1" | gpuctl allreduce --raw f32 -n 2 | cat >"$1.gpusim"
		end=${EPOCHREALTIME/[.,]/}
		echo $(((end - begin) / 1000))' bash "$tmp/vectors"
}

# shellcheck disable=SC2016 # for the inner shell
pipe_peer() {
	bash -c 'begin=${EPOCHREALTIME/[.,]/}
		cat "$1" | "$2" | cat >"$1.peer"
		end=${EPOCHREALTIME/[.,]/}
		echo $(((end - begin) / 1000))' bash "$tmp/vectors" "$programs/pipe_sum"
	cmp "$tmp/vectors.gpusim" "$tmp/vectors.peer" >&2
}

# blocks N - of 4 lines of 16 numbers; microseconds that one of them takes:
blocks() { seq -s ' ' 16 | awk -v n=$((4 * $1)) '{ while (n--) print }'; }

# shellcheck disable=SC2016 # for the inner shells
blocks_stream() { # N
	blocks "$1" >"$tmp/blocks"
	gpuctl run -n 4 -- bash -c 'begin=${EPOCHREALTIME/[.,]/}
		gpuctl allreduce --stream <"$1" | cmp - <(yes "$(seq -s " " 4 4 64)" | head -n "$2") >&2 || exit
		end=${EPOCHREALTIME/[.,]/}
		echo $(((end - begin) / $2))' bash "$tmp/blocks" "$1"
}

# shellcheck disable=SC2016 # for the inner shells
blocks_filters() { # N
	blocks 1 >"$tmp/block"
	gpuctl run -n 4 -- bash -c 'begin=${EPOCHREALTIME/[.,]/}
		for ((i = 0; i < $2; i++)); do gpuctl allreduce <"$1" || exit; done >/dev/null
		end=${EPOCHREALTIME/[.,]/}
		echo $(((end - begin) / $2))' bash "$tmp/block" "$1"
}

# ---- images a second: the median epoch; the first warms up

rate() { sed -n 's/^epoch \([2-9]\|[1-9][0-9]\).* \([0-9]*\) images.*/\2/p' | median; }
epoch() { mnist-train --devices "$1" --batch 64 --epochs "$epochs" --data "$data" | rate; }
epoch_ddp() { "$python" "$programs/mnist_ddp" "$data" "$1" "$epochs" 64 | rate; }
epoch_ddp_gpusim() {
	gpuctl run -n "$1" --torch --procs 1 -- "$python" "$programs/mnist_ddp" "$data" "$1" "$epochs" 64 | rate
}
epoch_loop() {
	OPENBLAS_NUM_THREADS=1 "$programs/mnist_loop" "$data" "$epochs" 64 | rate | awk -v n="$1" '{ print n * $1 }'
}

epoch_vit() {
	OPENBLAS_NUM_THREADS=1 mnist-train --model vit --devices 1 --batch 128 --optimizer adamw --lr 0.002 --data "$data" \
		--train-items "$([ -n "$short" ] && echo 128 || echo 6400)" --test-items 1 --epochs 3 | rate
}
# The model with which the tests compare every gradient.
steps_vit_torch() { OPENBLAS_NUM_THREADS=1 "$python" -W ignore "$here/../tests/python/torch_vit.py" "$([ -n "$short" ] && echo 0.1 || echo 5)"; }
