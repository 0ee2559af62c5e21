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

# images DIR ROWS N [T] - an IDX data set of 4 classes: N training and T (12) test images of ROWS x ROWS, where even the
# largest model is fast from 8 on; stripes distinguish the classes
images() {
	mkdir -p "$1"
	perl -e '
		my ($dir, $rows, $n, $tests) = @ARGV;
		srand 1;
		for (["train", $n], ["t10k", $tests // 12]) {
			my ($part, $count) = @$_;
			open my $x, ">:raw", "$dir/$part-images-idx3-ubyte" or die;
			open my $y, ">:raw", "$dir/$part-labels-idx1-ubyte" or die;
			print $x pack "N*", 0x803, $count, $rows, $rows;
			print $y pack "N*", 0x801, $count;
			for my $i (0 .. $count - 1) {
				print $x pack "C*", map { ($_ % 4 == $i % 4) * 150 + int rand 100 } 1 .. $rows * $rows;
				print $y pack "C", $i % 4;
			}
		}' "$@"
}
