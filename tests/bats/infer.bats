# A trained net that is asked: mnist-train --eval and --infer.
load helper

setup() {
	house_setup
	DATA=$ROOT/tests/data
	unset GPUSIM_ON_FAILURE GPUSIM_DATA
}

# trained [ARG...] - a model of the sample data in m.npz; what was said in said
trained() {
	bounded mnist-train --data "$DATA" --layers 0,32,0 --batch 16 --epochs 3 --devices 2 \
		--save m.npz "$@" >said
}

# labels - of the sample's test images, one a line
labels() { zcat "$DATA/t10k-labels-idx1-ubyte.gz" | tail -c +9 | od -An -v -tu1 -w1 | tr -d ' '; }

# said_accuracy - in percent, of the last epoch
said_accuracy() { tail -n 1 said | sed 's/.*test accuracy \([0-9.]*\) %.*/\1/'; }

# right FILE - the percentage of answers that are the labels
right() { paste <(cut -d ' ' -f 1 "$1") <(labels) | awk '$1 == $2 { n++ } END { printf "%.2f\n", 100 * n / NR }'; }

# pgm N - the Nth test image, from 0
pgm() {
	printf 'P5\n28 28\n255\n'
	zcat "$DATA/t10k-images-idx3-ubyte.gz" | tail -c +$((17 + 784 * $1)) | head -c 784
}

# same FILE - are the answers on standard input those in FILE? Other batches may round the last digit differently.
same() {
	paste -d '|' - "$1" | awk -F '|' '{ n = split($1, a, " "); if (split($2, b, " ") != n || n < 2 || a[1] != b[1]) exit 1
		for (i = 2; i <= n; i++) if (a[i] - b[i] > 2e-6 || b[i] - a[i] > 2e-6) exit 1 }'
}

@test "eval: the accuracy of the last epoch, and the confusion matrix" {
	trained
	run bounded mnist-train --eval --load m.npz --data "$DATA"
	assert_status 0
	assert_match "^test accuracy $(said_accuracy) %  loss [0-9.]+  256 items"$'\n''class '
	# Each row sums to how many there are of that class.
	assert_equal "$(awk 'NR > 2 { n = 0; for (i = 2; i <= 11; i++) n += $i; print $1, n }' <<<"$output")" \
		"$(labels | sort -n | uniq -c | awk '{ print $2, $1 }')"
	# On devices that are there, without saying the net, by a name for it, and by another.
	GPUSIM_DATA=$DATA bounded gpuctl run -n 2 -- mnist-train --eval --load m.npz >again
	assert_equal "$(cat again)" "$output"
	bounded mnist-train --eval --load m.npz --data "$DATA" --layers 784,32,10 >again
	assert_equal "$(cat again)" "$output"
	run bounded mnist-train --eval --load m.npz --data "$DATA" --layers 784,33,10
	assert_status 5
	assert_output 'mnist-train: m.npz: fc1.weight is [32, 784]; mlp 784-33-10 relu cross-entropy has [33, 784]'
	run bounded mnist-train --eval --load m.npz --data "$DATA" --model lenet
	assert_status 5
	assert_output 'mnist-train: m.npz: array conv1.weight of lenet 1x28x28-10 cross-entropy is missing'
}

@test "eval: another file's classes are the model's by their names; all of a file is tested" {
	iris=$ROOT/tests/data/iris.csv
	bounded mnist-train --data "$iris" --normalize standard --devices 1 --batch 8 --epochs 20 \
		--save iris.npz >said
	run bounded mnist-train --eval --load iris.npz --data "$iris" --split 0,1
	assert_status 0
	assert_match '  150 items'$'\n'
	all=$(awk '/^v/ { print $1, $2, $3, $4 }' <<<"$output")
	# Without the first, the others have other numbers.
	grep -v -i setosa "$iris" >two.csv
	run bounded mnist-train --eval --load iris.npz --data two.csv --split 0,1
	assert_status 0
	assert_match '  100 items'$'\n'
	assert_equal "$(awk '/^v/ { print $1, $2, $3, $4 }' <<<"$output")" "$all"
	sed 's/virginica/virginia/' two.csv >other.csv
	run bounded mnist-train --eval --load iris.npz --data other.csv --split 0,1
	assert_status 5
	assert_output "mnist-train: other.csv: class 'virginia' is not a class of the model"
	run bounded mnist-train --data "$iris" --split 0,1 --epochs 1
	assert_status 5
	assert_match 'leaves none to train on$'
}

@test "eval: --json agrees with the table; it is rejected where it has no meaning" {
	bounded mnist-train --data "$ROOT/tests/data/iris.csv" --devices 1 --epochs 3 --save iris.npz >said
	run bounded mnist-train --eval --load iris.npz --data "$ROOT/tests/data/iris.csv" --json out
	assert_status 0
	perl -MJSON::PP -e 'my ($o, @rows) = decode_json(<STDIN>);
		join(" ", sort keys %$o) eq "classes items loss right taken test_accuracy" or die;
		printf "test accuracy %.2f %%  loss %.4f  %d items\n", 100 * $o->{test_accuracy}, @$o{qw(loss items)};
		my $right = 0;
		for my $k (0 .. $#{$o->{classes}}) {
			print join(" ", $o->{classes}[$k], @{$o->{taken}[$k]}), "\n";
			$right += $o->{taken}[$k][$k];
		}
		$right == $o->{right} && @{$o->{taken}} == 3 or die' <out >again
	assert_equal "$(cat again)" "$(awk 'NR == 1 { print } NR > 2 { print $1, $2, $3, $4 }' <<<"$output")"
	run bounded mnist-train --eval --load iris.npz --data "$ROOT/tests/data/iris.csv" --json nowhere/x
	assert_status 1
	assert_output 'mnist-train: nowhere/x: No such file or directory'
	run bounded mnist-train --eval --load iris.npz --data "$ROOT/tests/data/iris.csv" --json /dev/full
	assert_status 1
	assert_match 'mnist-train: --json: No space left on device$'
	run bounded mnist-train --infer --load iris.npz --json out
	assert_status 2
	assert_output 'mnist-train: --json: cannot be used with --infer'
}

@test "infer: the test images, raw, gzipped, in parts; each answer is that of training" {
	trained --normalize standard
	zcat "$DATA/t10k-images-idx3-ubyte.gz" >images
	bounded mnist-train --infer --load m.npz <images >out
	assert_equal "$(wc -l <out)" 256
	assert_equal "$(right out)" "$(said_accuracy)"
	awk 'NF != 11 { exit 1 } { s = 0; for (i = 2; i <= 11; i++) s += $i
		if (s < 0.9999 || s > 1.0001) exit 1 }' out
	bounded mnist-train --infer --load m.npz <"$DATA/t10k-images-idx3-ubyte.gz" | cmp - out
	bounded mnist-train --infer --load m.npz < <(head -c 1000 images; tail -c +1001 images) | cmp - out
	# It sees what it was trained with, whatever the options say now.
	bounded mnist-train --infer --load m.npz --normalize raw <images | cmp - out
}

@test "infer: a convolutional net" {
	trained --model lenet --layers 784,10 2>/dev/null && fail 'lenet has no layers'
	bounded mnist-train --data "$DATA" --model lenet --batch 32 --epochs 2 --optimizer adam \
		--devices 1 --save m.npz >said
	bounded mnist-train --infer --load m.npz <"$DATA/t10k-images-idx3-ubyte.gz" >out
	assert_equal "$(right out)" "$(said_accuracy)"
	run bounded mnist-train --eval --load m.npz --data "$DATA"
	assert_match "^test accuracy $(said_accuracy) %"
}

@test "infer: PGM, one by one as they come" {
	trained
	bounded mnist-train --infer --load m.npz <"$DATA/t10k-images-idx3-ubyte.gz" | head -n 3 >want
	{ pgm 0; pgm 1; pgm 2; } | bounded mnist-train --infer --load m.npz >out
	cmp out want
	# An answer is there before the next image is.
	mkfifo in answers
	background bash -c 'exec mnist-train --infer --load m.npz <in >answers'
	exec {to}>in {from}<answers
	pgm 0 >&"$to"
	read -r -t 20 line <&"$from"
	assert_equal "$line" "$(sed -n 1p want)"
	pgm 1 >&"$to"
	read -r -t 20 line <&"$from"
	assert_equal "$line" "$(sed -n 2p want)"
	exec {to}>&-
	not read -r -t 20 line <&"$from"
	exec {from}<&-
}

@test "infer: vectors, and the names of classes" {
	cp "$ROOT/examples/data/iris.csv" .
	bounded mnist-train --config "$ROOT/examples/config/iris.ini" --data iris.csv --epochs 40 \
		--save iris.npz >said
	needs unzip
	unzip -p iris.npz gpusim.classes.npy | tail -n 3 >names
	run bounded mnist-train --infer --load iris.npz <<<$'5.1,3.5,1.4,0.2\n6.3,3.3,6.0,2.5'
	assert_status 0
	assert_match "^$(sed -n 1p names) [01]\.[0-9 .]*"$'\n'"$(sed -n 3p names) [01]\.[0-9 .]*$"
	run bounded mnist-train --eval --load iris.npz --data iris.csv --format csv --split 0,0,1
	assert_status 0
	assert_match '  150 items'
	run bounded mnist-train --infer --load iris.npz <<<$'5.1,3.5,1.4,0.2\n6.3,3.3,6.0'
	assert_status 5
	assert_equal "${lines[0]%% *}" "$(sed -n 1p names)"
	assert_equal "${lines[1]}" 'mnist-train: standard input:2: 3 values; the model takes 4 values: features, 32-bit numbers normalised as in training'
}

@test "infer: malformed input ends it, earlier samples are answered" {
	trained
	bounded mnist-train --infer --load m.npz <"$DATA/t10k-images-idx3-ubyte.gz" >want
	zcat "$DATA/t10k-images-idx3-ubyte.gz" >images
	run bounded mnist-train --infer --load m.npz < <(head -c $((16 + 784 * 5 + 3)) images)
	assert_status 5
	assert_output "$(head -n 5 want)"$'\nmnist-train: standard input: image 5: truncated'
	run bounded mnist-train --infer --load m.npz < <(cat images; echo x)
	assert_status 5
	assert_equal "${lines[256]}" 'mnist-train: standard input: trailing bytes after the last image'
	run bounded mnist-train --infer --load m.npz < <(pgm 0; echo P5 27 28 255; cat images)
	assert_status 5
	assert_output "$(head -n 1 want)"$'\nmnist-train: standard input: image 1 is 1x28x27; the model takes 1x28x28'
	run bounded mnist-train --infer --load m.npz </dev/null
	assert_status 5
	assert_output 'mnist-train: standard input: no samples'
	run bounded mnist-train --infer --load m.npz < <(head -c 3000 "$DATA/t10k-images-idx3-ubyte.gz")
	assert_status 5
	assert_equal "${lines[-1]}" 'mnist-train: standard input: the gzip data are truncated'
	run bounded sh -c 'mnist-train --infer --load m.npz <images >/dev/full'
	assert_status 1
}

@test "infer: files that are not models" {
	trained
	head -c 5000 m.npz >short.npz
	run bounded mnist-train --infer --load short.npz </dev/null
	assert_status 5
	assert_output 'mnist-train: short.npz: not a zip archive, or truncated'
	run bounded mnist-train --infer --load nowhere.npz </dev/null
	assert_status 1
	run bounded mnist-train --eval --load m.npz --data "$ROOT/examples/data/iris.csv"
	assert_status 5
	assert_match "iris.csv: items are 4x1x1; the model takes 1x28x28"
	# A checkpoint has weights, but not the net's arrays.
	bounded mnist-train --data "$DATA" --layers 784,32,10 --batch 16 --epochs 1 --devices 1 \
		--checkpoint ck >/dev/null
	run bounded mnist-train --infer --load ck/*.npz </dev/null
	assert_status 5
	assert_match "does not describe its net's input"
}

@test "infer: numpy opens a model, and training begins with it" {
	trained
	python3 -c 'import numpy' 2>/dev/null || NUMPY=
	if [[ -n ${NUMPY-x} ]]; then
		python3 -c 'import numpy; m = numpy.load("m.npz"); print(bytes(m["gpusim.net"]).decode())' >about
		grep -qx 'layers 784,32,10' about
	fi
	! command -v unzip >/dev/null || unzip -tq m.npz
	bounded mnist-train --data "$DATA" --layers 784,32,10 --batch 16 --epochs 0 --devices 1 \
		--load m.npz --save same.npz >/dev/null
	cmp m.npz same.npz
}

@test "infer: whatever training takes, from standard input and as files; the same answers" {
	needs python3 unzip
	mkdir bin
	for f in "$DATA"/cifar10/*.bin.gz; do gzip -dc "$f" >bin/"$(basename "$f" .gz)"; done
	head -c $((3073 * 20)) bin/test_batch.bin >few.bin && mv few.bin bin/test_batch.bin
	"$DATA/make-arrays" bin .
	unzip -q a.npz
	bounded mnist-train --data bin --layers 0,8,0 --epochs 1 --batch 16 --devices 1 --save m.npz >said
	perl -e 'binmode STDIN; local $/; $_ = <STDIN>;
		for my $i (0 .. 19) { print join(",", unpack("C*", substr($_, $i * 3073 + 1, 3072))), "\n" }' \
		<bin/test_batch.bin >t.csv
	gzip -k t.csv
	export -f same
	bounded gpuctl run -n 1 -- bash -c '
		set -e -o pipefail
		mnist-train --infer --load m.npz <bin/test_batch.bin >want
		for f in t.csv t.csv.gz x_test.npy a.npz py.tar.gz; do
			mnist-train --infer --load m.npz <$f | same want
			mnist-train --infer --load m.npz $f | same want
		done
		printf "%s\n" x_test.npy t.csv | mnist-train --infer --load m.npz | same <(cat want want)
		mnist-train --infer --load m.npz --data a.npz | same want
		mnist-train --infer --load m.npz --data bin --test-items 20 | same want'
	assert_equal "$(wc -l <want)" 20
}

@test "infer: pictures, one after another, as files and as a list of names" {
	bounded mnist-train --data "$DATA/scenes" --image-size 28 --channels 1 --layers 0,16,0 --epochs 1 \
		--batch 8 --devices 1 --save m.npz >said
	mapfile -t files < <(find "$DATA/scenes" -path '*test*' \( -name '*.png' -o -name '*.jpg' \) | sort | head -n 12)
	[ ${#files[@]} -eq 12 ]
	bounded mnist-train --infer --load m.npz "${files[@]}" >want
	assert_equal "$(wc -l <want)" 12
	cat "${files[@]}" | bounded mnist-train --infer --load m.npz | same want
	printf '%s\n' "${files[@]}" | bounded mnist-train --infer --load m.npz | same want
	gzip -c "${files[3]}" | bounded mnist-train --infer --load m.npz | same <(sed -n 4p want)
	# As the test part of training.
	run bounded mnist-train --infer --load m.npz --data "$DATA/scenes"
	assert_status 0
	head -n 1 <<<"$output" | same <(sed -n 1p want)
	wants='784 values: images of 1x28x28, 0 to 255 scaled to 0..1'
	run bounded mnist-train --infer --load m.npz <<<$'1,2\n3'
	assert_status 5
	assert_output "mnist-train: standard input:1: 2 values; the model takes $wants"
	run bounded mnist-train --infer --load m.npz <<<'picture'
	assert_status 5
	assert_output "mnist-train: standard input:1: 'picture' is neither a number nor a file, and nothing follows; the model takes $wants"
	run bounded mnist-train --infer --load m.npz "${files[0]}" nowhere.png
	assert_status 1
	head -n 1 <<<"$output" | same <(sed -n 1p want)
	assert_equal "${lines[1]}" 'mnist-train: nowhere.png: No such file or directory'
	run bounded mnist-train --infer --load m.npz <<<$"${files[0]}"$'\nnowhere.png'
	assert_status 1
	head -n 1 <<<"$output" | same <(sed -n 1p want)
	assert_equal "${lines[1]}" 'mnist-train: nowhere.png: No such file or directory'
	head -c 100 "${files[0]}" >short.png
	run bounded mnist-train --infer --load m.npz short.png
	assert_status 5
	assert_match '^mnist-train: short.png: '
	run bounded mnist-train --infer --load m.npz --data x y
	assert_status 2
	assert_output 'mnist-train: --data: cannot be used with the files of --infer'
	run bounded mnist-train --load m.npz y
	assert_status 2
	assert_output "mnist-train: unexpected argument 'y'"
	# A model of features has no use for pictures.
	bounded mnist-train --data "$ROOT/tests/data/iris.csv" --devices 1 --epochs 1 --save iris.npz >said
	run bounded mnist-train --infer --load iris.npz "${files[0]}"
	assert_status 5
	assert_output "mnist-train: ${files[0]}: an image; the model takes 4 values: features, 32-bit numbers as they are"
}
