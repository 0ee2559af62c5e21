# Ways to synchronise, models and schedules, on the shipped sample of MNIST.
# shellcheck disable=SC2016
load helper
load training

setup() {
	house_setup
	TRAIN=(mnist-train --data "$ROOT/tests/data" --layers "784,32,10")
}

# same_losses FILE FILE TOLERANCE - as many lines, each to within a factor of 1 + TOLERANCE
same_losses() {
	losses "$1" >a
	losses "$2" >b
	paste a b | awk -v t="$3" '
		NF != 2 { bad = 1 }
		{ d = ($1 - $2) / $2; if (d > t || d < -t) bad = 1 }
		END { exit bad || NR == 0 }' || fail "losses differ: $(paste a b)"
}

# trained NAME OPTION... - leaves NAME.json and NAME.npz
trained() { LIMIT=50 bounded "${TRAIN[@]}" --json "$1.json" --save "$1.npz" "${@:2}" >"$1"; }

# learns FILE - the last loss is below half of the first
learns() {
	losses "$1" | awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(NR > 1 && last < first / 2) }' ||
		fail "does not learn: $(losses "$1" | tr '\n' ' ')"
}

@test "sendrecv: as many workers with the same global batch learn what all-reduce does" {
	trained all --workers 3 --batch 20 --epochs 4
	trained one --workers 1 --batch 60 --epochs 4 --sync sendrecv
	trained three --workers 3 --batch 20 --epochs 4 --sync sendrecv
	same_losses all.json one.json 1e-4
	same_losses all.json three.json 1e-4
	learns three.json
	grep -q ' 4 devices$' three
}

@test "local: the mean of every step's weights is the step of the mean gradient" {
	trained all --workers 2 --batch 32 --epochs 4
	trained each --workers 2 --batch 32 --epochs 4 --sync local --local-steps 1
	same_losses all.json each.json 1e-4
}

@test "local: every n steps; resumed in between it ends with the same weights" {
	trained whole --workers 3 --batch 16 --epochs 6 --sync local --local-steps 4
	learns whole.json
	trained half --workers 3 --batch 16 --epochs 3 --sync local --local-steps 4 --checkpoint ck
	trained rest --workers 3 --batch 16 --epochs 6 --sync local --local-steps 4 --checkpoint ck --resume
	cmp whole.npz rest.npz
	run bounded "${TRAIN[@]}" --workers 3 --batch 16 --epochs 8 --checkpoint ck --resume
	assert_status 2
	assert_match 'made with a different --sync'
}

@test "lenet: three devices learn what one does" {
	TRAIN=(mnist-train --data "$ROOT/tests/data" --lr 0.02)
	trained one --model lenet --workers 1 --batch 24 --epochs 6
	trained three --model lenet --workers 3 --batch 8 --epochs 6
	learns three.json
	# Then rounding, which depends on the processor, decides which of two pixels a pooling takes.
	for file in one three; do head -n 3 $file.json >$file; done
	same_losses one three 1e-3
}

# resnet NAME OPTION... - train the model with batch norm on small images: 28, so that the last step has fewer
resnet() {
	[[ -d small ]] || images small 8 28
	TRAIN=(mnist-train --data small --model resnet9 --lr 0.01 --normalize standard --epochs 1)
	trained "$@" 2>"$1.err"
}

@test "batch norm: all-reduce and sendrecv norm a whole step, with any number of workers" {
	local w
	resnet all --workers 1 --batch 12
	resnet two --workers 2 --batch 6
	same_losses all.json two.json 1e-3
	for w in 1 3; do
		resnet "send$w" --workers "$w" --batch $((12 / w)) --sync sendrecv
		same_losses all.json "send$w.json" 1e-3
		assert_equal "$(<"send$w.err")" ''
	done
}

@test "batch norm: ps and local, where each worker normalizes by itself, report it" {
	local s
	for s in ps local; do
		resnet one --workers 1 --batch 12 --sync $s
		assert_equal "$(<one.err)" ''
		resnet two --workers 2 --batch 6 --sync $s
		grep -q "^mnist-train: --sync $s: batch norm is over each worker's own samples" two.err || fail "$(<two.err)"
	done
}

@test "augmented images and layer norm: any number of devices, every way, learns the same; resumed to the bit" {
	local sync w
	TRAIN=(mnist-train --data "$ROOT/tests/data" --train-items 100 --normalize standard --layers "784,24,10"
		--layer-norm --augment "crop,flip" --epochs 4)
	trained one --workers 1 --batch 24
	for sync in allreduce sendrecv ps; do
		for w in 2 3; do
			trained $sync$w --workers $w --batch $((24 / w)) --sync $sync
			same_losses one.json $sync$w.json 1e-4
		done
	done
	trained local --workers 1 --batch 24 --sync local
	same_losses one.json local.json 1e-4
	# Without memory for all images.
	LIMIT=50 bounded gpuctl run -n 2 --mem 2048K -- "${TRAIN[@]}" --batch 12 --json few.json >few
	same_losses one.json few.json 1e-4
	trained begun --workers 2 --batch 12 --epochs 2 --checkpoint ck --checkpoint-every 3
	[[ -e ck/ckpt-000000000009.npz ]]
	trained rest --workers 2 --batch 12 --checkpoint ck --checkpoint-every 3 --resume
	cmp allreduce2.npz rest.npz
	run bounded "${TRAIN[@]}" --workers 2 --batch 12 --augment crop --checkpoint ck --resume
	assert_status 2
	assert_match 'ck: was made with --augment crop,flip; it is now crop$'
}

@test "augmented images and layer norm: what has none is refused; a model knows that it is normed" {
	printf '1,2,%s\n' 0 1 0 1 0 1 >table.csv
	while IFS='|' read -r code args sentence; do
		# shellcheck disable=SC2086 # several arguments
		run bounded mnist-train --data "$ROOT/tests/data" $args
		assert_status "$code"
		assert_output "mnist-train: $sentence"
	done <<-'END'
		2|--augment rotate|--augment: 'rotate': must be one of none, crop, flip, crop,flip
		2|--eval --load x --augment flip|--augment: only for training
		5|--data table.csv --augment flip|--augment: the samples are not images: they have 2x1x1 values
		2|--model lenet --layer-norm|--layer-norm: needs --model mlp
		5|--layers 784,10 --layer-norm|the net has no hidden layer to normalise
	END
	trained m --workers 1 --epochs 1 --layer-norm --augment flip
	assert_equal "$(grep -ao 'ln[12]\.[a-z]*' m.npz | sort -u | xargs)" 'ln1.bias ln1.weight'
	run bounded mnist-train --eval --load m.npz --data "$ROOT/tests/data"
	assert_status 0
	assert_match "^test accuracy $(grep -o 'accuracy [0-9.]* %' m | cut -d' ' -f2-)"
	run bounded mnist-train --eval --load m.npz --data "$ROOT/tests/data" --layers 784,32,10
	assert_status 5
	assert_output 'mnist-train: m.npz: has array ln1.weight, which mlp 784-32-10 relu cross-entropy does not have'
}

@test "local: a worker without any of the last rows keeps its running statistics" {
	# One sample, so three of four have none: their variances stay 1.
	LIMIT=50 bounded mnist-train --data "$ROOT/tests/data" --model resnet9 --workers 4 --batch 1 \
		--train-items 1 --split 0.1,0,0.05 --epochs 1 --sync local --save few.npz
	run perl -MIO::Uncompress::Unzip -e '
		my $zip = IO::Uncompress::Unzip->new($ARGV[0]) or die "no zip\n";
		do {
			local $/;
			my $npy = <$zip>;
			my @v = unpack("f<*", substr($npy, 10 + unpack("x8 v", $npy)));
			if ($zip->getHeaderInfo()->{Name} =~ /running_var/) {
				$n += @v;
				$_ >= 0.9749 or die "$_\n" for @v;
			}
		} while ($zip->nextStream() == 1);
		print "$n\n"' few.npz
	assert_status 0
	assert_match '^[1-9][0-9]*$'
}

@test "every optimizer and schedule learns, and none is another" {
	local o lr
	for o in sgd nesterov adam adamw; do
		case $o in adam*) lr=0.005 ;; *) lr=0.1 ;; esac
		trained "$o" --workers 2 --batch 8 --epochs 4 --optimizer "$o" --lr "$lr"
		learns "$o.json"
	done
	for o in step cosine one-cycle; do
		[[ $o != step ]] || set -- --lr-step 2 --lr-gamma 0.5
		trained "$o" --workers 2 --batch 8 --epochs 4 --lr-schedule "$o" "$@"
		set --
		learns "$o.json"
	done
	for o in *.json; do losses "$o" | tail -n 1; done | sort -u >different
	assert_equal "$(wc -l <different)" 7
}

@test "a validation part is tested as well, and trained with it is not" {
	run bounded "${TRAIN[@]}" --workers 2 --epochs 1 --split 0.5,0.25,0.25 --json v.json
	assert_status 0
	assert_match '384 training'
	assert_match 'validation accuracy [0-9.]+ %'
	grep -q '"validation_accuracy":0\.' v.json
}
