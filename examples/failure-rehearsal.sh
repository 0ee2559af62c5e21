#!/usr/bin/env bash
# failure-rehearsal.sh [-d DIR] [-e EPOCHS] [-n DEVICES] [POLICY...] - kill devices of a training, and compare what
# it learns.
#
# Trains once undisturbed, then once with each POLICY (default: shrink respawn spare). In every epoch but the first it
# kills a device with SIGKILL at a random moment; with shrink at least one device is left. DIR holds MNIST (default:
# data/mnist of this tree, else the sample in tests/data); EPOCHS and DEVICES are 4 by default. Prints, for each
# training: the number of killed devices, the accuracy at the end, its difference from the undisturbed one in points,
# and the largest time that one failure cost.
set -euo pipefail

root=$(dirname "$(readlink -f "$0")")/..
data=$root/data/mnist
[ -e "$data/train-images-idx3-ubyte" ] || data=$root/tests/data
epochs=4 devices=4
usage='usage: failure-rehearsal.sh [-d DIR] [-e EPOCHS] [-n DEVICES] [POLICY...]'
while getopts d:e:n: option; do
	case $option in
	d) data=$OPTARG ;;
	e) epochs=$OPTARG ;;
	n) devices=$OPTARG ;;
	*) echo "$usage" >&2 && exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- shrink respawn spare
for policy; do
	case $policy in
	shrink | respawn | spare) ;;
	*) echo "$usage" >&2 && exit 2 ;;
	esac
done
data=$(readlink -f "$data")
PATH=$root/build/bin:$PATH
unset GPUSIM_COORD # each run has a cluster of its own
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# Under gpuctl run: train, and kill a device of the communicator after each epoch but the last.
cat >killer <<'END'
exec {tick}<> <(:) # a pipe without data: reading it with a timeout is a pause
mnist-train --data "$1" --epochs "$2" >out &
trainer=$! killed=0
for ((epoch = 1; epoch < $2; epoch++)); do
	until grep -q "^epoch $epoch/" out; do
		kill -0 $trainer 2>/dev/null || break 2
		read -r -t 0.01 -u "$tick" || true
	done
	read -r -t "0.$((RANDOM % 3))$((RANDOM % 10))" -u "$tick" || true
	mapfile -t pids < <(gpuctl devices | awk '$5 == "busy" { print $7 }')
	[ ${#pids[@]} -gt "$3" ] || continue
	kill -KILL "${pids[RANDOM % ${#pids[@]}]}" && killed=$((killed + 1))
	until [ "$(grep -c 'ms lost$' out)" -ge $killed ]; do # one at a time
		kill -0 $trainer 2>/dev/null || break 2
		read -r -t 0.01 -u "$tick" || true
	done
done
echo $killed >killed
wait $trainer
END

# train POLICY FEWEST [OPTION...] - leaves `out` and `killed`
train() {
	rm -f out
	if ! gpuctl run -n "$devices" --on-failure "$1" "${@:3}" -- bash killer "$data" "$epochs" "$2" \
		2>errors; then
		cat out errors >&2
		return 1
	fi
}

accuracy() { sed -n "s/^epoch $epochs\/.*accuracy \([0-9.]*\) %.*/\1/p" out; }

printf '%-12s %7s %10s %11s %18s\n' policy killed accuracy difference 'most time lost'
train abort "$devices"
undisturbed=$(accuracy)
printf '%-12s %7s %8s %%\n' undisturbed "$(cat killed)" "$undisturbed"
for policy; do
	case $policy in
	shrink) train shrink 1 ;;
	spare) train spare 0 --spares "$epochs" ;;
	*) train "$policy" 0 ;;
	esac
	sed -n 's/.* \([0-9]*\) ms lost$/\1/p' out | sort -n | tail -n 1 |
		awk -v policy="$policy" -v killed="$(cat killed)" -v now="$(accuracy)" \
			-v then="$undisturbed" '{ lost = $1 }
			END { printf "%-12s %7d %8s %% %+11.2f %15d ms\n", policy, killed, now, now - then, lost }'
done
