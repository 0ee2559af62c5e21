#!/usr/bin/env bash
# train-compare.sh [DIR [EPOCHS]] - the same training on 1, 2 and 4 devices.
#
# DIR holds MNIST (default data/mnist of this tree, else the sample in tests/data); EPOCHS is 2 at
# first. The global batch is 256 in each run, so loss and accuracy agree to rounding.
set -euo pipefail

root=$(dirname "$(readlink -f "$0")")/..
data=${1-$root/data/mnist}
[ $# -gt 0 ] || [ -e "$data/train-images-idx3-ubyte" ] || data=$root/tests/data
epochs=${2-2}
PATH=$PATH:$root/build/bin
unset GPUSIM_COORD # each run has a machine of its own

json=$(mktemp)
trap 'rm -f "$json"' EXIT
printf '%7s %12s %10s %13s %9s\n' devices batch/device loss 'test accuracy' images/s
for devices in 1 2 4; do
	mnist-train --data "$data" --devices "$devices" --batch $((256 / devices)) \
		--epochs "$epochs" --json "$json" >/dev/null
	sed -n '$s/[{}"]//gp' "$json" | awk -F '[:,]' -v devices="$devices" '{
		for (i = 1; i < NF; i += 2)
			value[$i] = $(i + 1)
		printf "%7d %12d %10.6f %11.2f %% %9d\n", devices, 256 / devices,
		    value["loss"], value["test_accuracy"] * 100, value["images_per_s"]
	}'
done
