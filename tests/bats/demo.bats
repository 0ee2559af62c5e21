# Training on the shipped sample of MNIST, end to end.
load helper
load training

setup() {
	house_setup
	DATA=$ROOT/tests/data
	cp -r "$DATA" data
}

# Memory files that a launcher named after itself and that outlived it.
orphaned_memory() {
	local file pid
	for file in /dev/shm/gpusim-"$(id -u)"-*-*; do
		pid=${file#/dev/shm/gpusim-*-} pid=${pid%%-*}
		[[ ! -e $file || -e /proc/$pid ]] || echo "$file"
	done
}

none_orphaned() { [[ -z $(orphaned_memory) ]]; }

assert_all_gone() {
	assert_nothing_left
	wait_until 5 none_orphaned || fail "left: $(orphaned_memory)"
	assert_equal "$(find "$T" -type s)" ''
}

# refused FILE REGEX - training is refused with one line about data/FILE that matches, exit 5
refused() {
	run --separate-stderr bounded mnist-train --data data --devices 1 --epochs 1
	assert_status 5
	assert_output ''
	assert_equal "$(wc -l <<<"$stderr")" 1
	[[ $stderr == "mnist-train: "*"$1"* && $stderr =~ $2 ]] || fail "wrong reason: $stderr"
	cp "$DATA/$1" "data/$1"
}

@test "1, 2 and 4 devices at one global batch: the same losses to rounding, the same accuracy" {
	for n in 1 2 4; do
		run bounded mnist-train --data data --devices $n --batch $((64 / n)) --epochs 3 --json j$n
		assert_status 0
		assert_match "512 training and 256 test images, 101770 parameters, $n device"
		assert_equal "$(grep -c '^epoch [123]/3  loss ' <<<"$output")" 3
	done
	for n in 2 4; do
		paste -d ' ' <(losses j1) <(losses j$n) >pairs
		assert_equal "$(wc -l <pairs)" 3
		while read -r one many; do
			close_to "$one" "$many" 1e-4
		done <pairs
	done
	assert_all_gone
}

@test "--bucket-bytes: gradients summed during backward, in buckets, are the same sums" {
	deep=(--data data --epochs 2 --layers "784,64,48,32,10")
	for size in 0 1 10000 1G; do
		bounded mnist-train "${deep[@]}" --devices 2 --bucket-bytes $size --json two.$size >/dev/null
		assert_equal "$(losses two.$size)" "$(losses two.0)"
		bounded mnist-train "${deep[@]}" --devices 3 --algo naive --bucket-bytes $size \
			--json three.$size >/dev/null
		assert_equal "$(losses three.$size)" "$(losses three.0)"
	done
	assert_equal "$(losses two.0 | wc -l)" 2
	bounded mnist-train "${deep[@]}" --devices 3 --bucket-bytes 1 --optimizer adam --json ring.1 >/dev/null
	bounded mnist-train "${deep[@]}" --devices 3 --optimizer adam --json ring.0 >/dev/null
	paste -d ' ' <(losses ring.0) <(losses ring.1) | while read -r one other; do
		close_to "$one" "$other" 1e-4
	done
	run bounded mnist-train --data data --devices 1 --bucket-bytes lots
	assert_status 2
	assert_match '^mnist-train: --bucket-bytes: .*lots'
	assert_all_gone
}

@test "devices without memory for all images get those of each epoch; the losses are the same" {
	bounded mnist-train --data data --devices 3 --epochs 2 --layers 784,10 --json all >/dev/null
	for mem in 1400K 1200K; do # all take 1362K, those of an epoch 1096K
		bounded gpuctl run -n 3 --mem $mem -- mnist-train --data data --epochs 2 --layers 784,10 \
			--json few >/dev/null
		assert_equal "$(losses few)" "$(losses all)"
	done
	run bounded gpuctl run -n 3 --mem 1M -- mnist-train --data data --epochs 1 --layers 784,10
	assert_status 1
	assert_match '^mnist-train: .*no room'
}

@test "--json: one valid object an epoch, with every field in its range" {
	bounded mnist-train --data data --devices 2 --batch 32 --epochs 2 --json out >/dev/null
	perl -MJSON::PP -ne '
		my $o = decode_json($_);
		my @keys = qw(epoch loss test_accuracy images_per_s seconds compute_s comm_s);
		join(" ", sort keys %$o) eq join(" ", sort @keys) or die "keys: $_";
		$o->{epoch} == $. or die "epoch: $_";
		$o->{loss} > 0 && $o->{loss} < 10 or die "loss: $_";
		$o->{test_accuracy} > 0.3 && $o->{test_accuracy} <= 1 or die "test_accuracy: $_";
		$o->{images_per_s} > 0 && $o->{seconds} > 0 or die "speed: $_";
		$o->{compute_s} > 0 && $o->{comm_s} >= 0 or die "times: $_";
		$o->{compute_s} + $o->{comm_s} <= $o->{seconds} * 1.05 or die "sum of times: $_";
		END { $. == 2 or die "$. lines\n" }' out
}

@test "--json: a loss that is not finite is null; printed as nan, without a sign" {
	for sync in allreduce ps; do
		run bounded mnist-train --data "$ROOT/tests/data/iris.csv" --devices 2 --epochs 4 \
			--lr 1e6 --activation linear --loss l2 --sync $sync --json out
		assert_status 0
		assert_match 'loss nan '
		perl -MJSON::PP -ne 'my $o = decode_json($_);
			exists $o->{loss} or die; $null++ if !defined $o->{loss};
			END { $null && $. == 4 or die "$. lines\n" }' out
	done
}

@test "--json: a training that cannot begin leaves the file as it was" {
	run --separate-stderr bounded gpuctl run -n 1 -- bash -c '
		mnist-train --data data --epochs 1000000 --json log >out & one=$!
		until grep -q "^epoch" out; do kill -0 $one || exit 9; done
		kill -STOP $one
		before=$(wc -l <log)
		mnist-train --data data --epochs 1 --json log; echo $?
		echo $(($(wc -l <log) - before))
		kill -KILL $one'
	assert_equal "$output" 8$'\n'0
	[[ $stderr == *'mnist-train: no device is free: busy: needs 1 device; 0 of 1 are free: comm 1 of mnist-train (pid '*') has 1' ]] ||
		fail "$stderr"
}

@test "--save: a file that cannot be made is reported before training, for every backend" {
	mkdir folder
	echo old >old
	for sync in allreduce ps; do
		for path in nowhere/m.npz folder; do
			run --separate-stderr bounded mnist-train --data data --devices 2 --epochs 1 \
				--sync $sync --save $path --json old
			assert_status 1
			assert_equal "$output" ''
			[[ $stderr == "mnist-train: $path: "* ]] || fail "$stderr"
		done
	done
	assert_equal "$(cat old)" old
	assert_equal "$(ls -A folder)" ''
	assert_all_gone
}

@test "it learns: the loss falls in each epoch and ends below half, for sgd and adam" {
	for optimizer in sgd adam; do
		bounded mnist-train --data data --devices 2 --batch 16 --epochs 4 \
			--optimizer $optimizer --json j >/dev/null
		losses j | awk 'NR > 1 && $1 >= last { exit 1 } { last = $1 } NR == 1 { first = $1 }
			END { if (last > first / 2) exit 1 }' || fail "$optimizer: $(losses j)"
	done
}

@test "the same seed gives the same numbers, another seed others" {
	for run in a b; do
		bounded mnist-train --data data --devices 2 --epochs 1 --seed 7 --json $run >/dev/null
	done
	bounded mnist-train --data data --devices 2 --epochs 1 --seed 8 --json c >/dev/null
	assert_equal "$(losses a)" "$(losses b)"
	[[ $(losses a) != "$(losses c)" ]]
}

@test "raw files give what gzipped files give" {
	bounded mnist-train --data data --devices 1 --epochs 1 --json gzipped >/dev/null
	gzip -d data/*.gz
	bounded mnist-train --data data --devices 1 --epochs 1 --json raw >/dev/null
	assert_equal "$(losses gzipped)" "$(losses raw)"
}

@test "--save: an .npz with each layer's weights and biases, and nothing beside it" {
	mkdir saved
	bounded mnist-train --data data --devices 2 --epochs 1 --layers 784,32,10 \
		--save saved/model.npz >/dev/null
	assert_equal "$(ls -A saved)" model.npz
	run perl -MIO::Uncompress::Unzip -e '
		my $zip = IO::Uncompress::Unzip->new($ARGV[0]) or die "no zip\n";
		do {
			local $/;
			my $npy = <$zip>;
			my $name = $zip->getHeaderInfo()->{Name};
			if ($name !~ /^(gpusim|input)\./) { # those say what net it is
				$npy =~ /^\x93NUMPY.{4}\{.descr.: .<f4., .fortran_order.: False, .shape.: \(([^)]*)\)/s or die;
				print $name, " ($1) ", length($npy), "\n";
			}
		} while ($zip->nextStream() == 1);' saved/model.npz
	assert_status 0
	assert_match '\(784, 32\)|\(32, 784\)'
	assert_match '\(32,\)'
	assert_match '\(32, 10\)|\(10, 32\)'
	assert_match '\(10,\)'
	assert_equal "${#lines[@]}" 4
}

@test "a truncated file is refused with the reason" {
	head -c 3000 "$DATA/train-images-idx3-ubyte.gz" >data/train-images-idx3-ubyte.gz
	refused train-images-idx3-ubyte.gz 'gzip|end'
	gzip -dc "$DATA/t10k-labels-idx1-ubyte.gz" | head -c 100 | gzip >data/t10k-labels-idx1-ubyte.gz
	refused t10k-labels-idx1-ubyte.gz '256|bytes'
	: >data/train-labels-idx1-ubyte.gz
	refused train-labels-idx1-ubyte.gz 'empty|short|byte'
}

@test "a mislabelled file is refused with the reason" {
	cp data/train-labels-idx1-ubyte.gz data/train-images-idx3-ubyte.gz
	refused train-images-idx3-ubyte.gz 'dimension|images|labels'
	cp data/t10k-labels-idx1-ubyte.gz data/train-labels-idx1-ubyte.gz
	refused train-labels-idx1-ubyte.gz '512.*256|256.*512'
	echo 'not IDX' >data/t10k-images-idx3-ubyte.gz
	refused t10k-images-idx3-ubyte.gz 'IDX|magic'
	# item 3 of the test labels becomes 11
	{
		gzip -dc "$DATA/t10k-labels-idx1-ubyte.gz" | head -c 11
		printf '\13'
		gzip -dc "$DATA/t10k-labels-idx1-ubyte.gz" | tail -c +13
	} | gzip >data/t10k-labels-idx1-ubyte.gz
	refused t10k-labels-idx1-ubyte.gz 'label 11'
}

@test "under a machine that is there it takes the devices that are free" {
	run bounded gpuctl run -n 3 -- mnist-train --data data --epochs 1
	assert_status 0
	assert_match ', 3 devices'
	run bounded gpuctl run -n 2 -- mnist-train --data data --epochs 1 --devices 3
	assert_status 1
	assert_match '^mnist-train: .*3'
	assert_all_gone
}

@test "interrupted in the middle it leaves nothing" {
	background mnist-train --data data --devices 4 --epochs 100000 >progress
	wait_until 20 grep -q '^epoch 1/' progress
	kill -TERM "$PID"
	wait_until 15 gone "$PID"
	assert_all_gone
}

@test "the terminal gets a progress bar, a file plain lines" {
	needs script
	bounded mnist-train --data data --devices 1 --epochs 1 >plain 2>&1
	[[ $(cat plain) != *$'\r'* ]]
	bounded script -qec 'mnist-train --data data --devices 1 --epochs 1' /dev/null >bar </dev/null
	[[ $(cat bar) == *$'\r'*'epoch 1/1'* ]]
}

@test "--json - writes JSON alone to standard output, --quiet leaves out all else" {
	train=(bounded mnist-train --data data --devices 1 --epochs 2 --json -)
	run --separate-stderr "${train[@]}"
	assert_status 0
	assert_equal "$(grep -c '^{"epoch":[12],"loss":[0-9.]*,.*}$' <<<"$output")" 2
	assert_equal "${#lines[@]}" 2
	[[ $stderr == *$'\nepoch 2/2  loss '* ]]
	run --separate-stderr "${train[@]}" --quiet
	assert_equal "${#lines[@]}" 2
	assert_equal "$stderr" ''
	run bounded mnist-train --data data --devices 1 --epochs 1 --quiet --save model.npz
	assert_status 0
	assert_output ''
	run bounded mnist-train --data data --devices 1 --eval --load model.npz --quiet --json -
	assert_match '^\{"test_accuracy":[0-9.]+,[^'$'\n'']*\}$'
	run bash -c 'mnist-train --data data --devices 1 --epochs 1 --quiet --json - 2>&1 >/dev/full'
	assert_status 1
	assert_output 'mnist-train: --json: No space left on device'
}
