# training.bash - what .bats files about training share:   load training, after helper
# shellcheck shell=bash disable=SC2016,SC2034

# For a bash script in which something trains:
#	train CMD...		start it; it says on `out` what it does, on `err` what went wrong
#	alive			it has not ended
#	reached E		wait until epoch E is done
#	said TEXT [N]		wait until N lines of `out` hold it, or one
#	moment			before one looks again
TRAINING='
	exec {tick}<> <(:)
	moment() { read -r -t 0.01 -u "$tick" || true; }
	train() { : >out; "$@" >out 2>err & trainer=$!; }
	alive() { kill -0 "$trainer" 2>/dev/null; }
	reached() { until grep -q "^epoch $1/" out; do alive || return 1; moment; done; }
	said() { until [ "$(grep -c "$1" out)" -ge "${2-1}" ]; do alive || return 1; moment; done; }
'

# loss FILE, accuracy FILE - of the last of EPOCHS epochs, in what mnist-train has printed
loss() { sed -n "s/^epoch $EPOCHS\/$EPOCHS  loss \([0-9.]*\) .*/\1/p" "$1"; }
accuracy() { sed -n "s/^epoch $EPOCHS\/$EPOCHS .* accuracy \([0-9.]*\) .*/\1/p" "$1"; }

# losses FILE - one a line, of a --json file
losses() { sed -n 's/.*"loss":\([^,}]*\).*/\1/p' "$1"; }
