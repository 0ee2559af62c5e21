# mnist-train on data sets of every format: it learns, and what is malformed is refused in one line.
load helper

setup() {
	house_setup
	DATA=$ROOT/tests/data
}

# accuracy OPTION... - the test accuracy in per cent after training on two devices
accuracy() {
	LIMIT=50 bounded mnist-train --devices 2 --json log "$@" >out || return
	sed -n '$s/.*"test_accuracy":\([0-9.e+-]*\).*/\1/p' log | awk '{ print $1 * 100 }'
}

# refused CODE WANT OPTION... - one line that contains WANT, that exit code, and no cluster before it
refused() {
	run bounded mnist-train --devices 2 "${@:3}"
	assert_status "$1"
	[[ ${#lines[@]} -eq 1 && $output == "mnist-train: "*"$2"* ]] ||
		fail "expected one line with: $2"$'\n'"got: $output"
}

@test "formats: irises, from a CSV file" {
	got=$(accuracy --data "$DATA/iris.csv" --normalize standard --epochs 30 --batch 8 \
		--optimizer adam --lr 0.02)
	at_least "$got" 93
}

@test "formats: digits, from a gzipped CSV file, as IDX, as CIFAR-10 and as pictures" {
	at_least "$(accuracy --data "$DATA/digits.csv.gz" --epochs 10)" 70
	at_least "$(accuracy --data "$DATA" --epochs 10)" 70
	at_least "$(accuracy --data "$DATA/cifar10" --epochs 10 --lr 0.02)" 60
	at_least "$(accuracy --data "$DATA/scenes" --image-size 28 --channels 1 --epochs 20 --batch 8)" 85
}

@test "formats: a folder is read in the given format, or as what it contains" {
	refused 1 "train.csv not found" --data "$DATA" --format csv
	refused 1 "data_batch_1.bin not found" --data "$DATA" --format cifar10
	refused 1 "Not a directory" --data "$DATA/iris.csv" --format folder
	mkdir empty
	refused 1 "empty: not a data set" --data empty
	refused 1 "No such file" --data nowhere
}

@test "formats: tables that are malformed are refused, by their line" {
	printf '1,2,a\n3,4,b\n5,b\n' >t.csv
	refused 5 "t.csv:3: 2 fields; the lines before have 3" --data t.csv
	printf 'x,y,label\n1,2,a\n3,,b\n' >t.csv
	refused 5 "t.csv:3: column 'y' is empty" --data t.csv
	printf 'x,y,label\n1,2,a\n3,nan,b\n' >t.csv
	refused 5 "t.csv:3: column 'y': 'nan' is not finite" --data t.csv
	printf 'x,y,label\n1,2,a\n3,4,"b\n' >t.csv
	refused 5 "t.csv:3: a quote is not closed" --data t.csv
	refused 5 "no column has the name 'kind'" --data "$DATA/iris.csv" --label-column kind
	head -c 1000 "$DATA/digits.csv.gz" >t.csv
	refused 5 "t.csv: the gzip data are truncated" --data t.csv
	: >t.csv
	refused 5 "t.csv: no samples" --data t.csv
}

@test "formats: batches and pictures that are malformed are refused" {
	cp -r "$DATA/cifar10" "$DATA/scenes" .
	gzip -dc cifar10/test_batch.bin.gz | head -c 10000 >cifar10/test_batch.bin
	refused 5 "test_batch.bin: 10000 bytes are not a multiple of the record" --data cifar10
	rm cifar10/data_batch_1.bin.gz
	refused 1 "cifar10: data_batch_1.bin not found" --data cifar10
	dir=scenes/seg_train/seg_train/one
	truncate -s 200 "$dir/003.jpg"
	refused 5 "$dir/003.jpg: damaged JPEG" --data scenes
	truncate -s 0 "$dir/003.jpg"
	refused 5 "$dir/003.jpg: empty" --data scenes
	echo text >"$dir/003.jpg"
	refused 5 "$dir/003.jpg: neither PNG nor JPEG" --data scenes
	rm "$dir/003.jpg"
	truncate -s 100 "$dir/002.png"
	refused 5 "$dir/002.png: damaged PNG" --data scenes
}

@test "formats: CIFAR-10 in Python's pickles, in its archives, and as arrays of numpy: the same samples" {
	needs python3
	mkdir bin py
	for f in "$DATA"/cifar10/*.bin.gz; do gzip -dc "$f" >bin/"$(basename "$f" .gz)"; done
	cp "$DATA"/cifar10/batches.meta.txt bin
	"$DATA/make-arrays" bin .
	tar xzf py.tar.gz -C py
	tar cf bin.tar bin
	for data in bin bin.tar py py/cifar-10-batches-py py.tar.gz a.npz; do
		bounded mnist-train --devices 2 --data $data --split 1,0,0 --train-items 64 --test-items 8 \
			--layers 0,8,0 --epochs 1 --save m.npz >out
		grep -q '^64 training and 8 test images' out
		python3 -c 'import sys, zipfile
z = zipfile.ZipFile("m.npz")
sys.stdout.buffer.write(b"".join(z.read(n) for n in z.namelist() if n.startswith("fc")))' >weights
		if [ -e first ]; then cmp weights first; else mv weights first; fi
	done
	printf '\200\002cos\nsystem\n(U\011touch badtR.' >py/cifar-10-batches-py/test_batch
	refused 5 "test_batch: the pickle calls os.system; only arrays of numpy are supported" --data py
	[ ! -e bad ]
	head -c 3000 py.tar.gz >short.tar.gz
	refused 5 "short.tar.gz: the gzip data are truncated" --data short.tar.gz
	head -c 3000 a.npz >short.npz
	refused 5 "short.npz: not a zip archive, or truncated" --data short.npz
	refused 5 "m.npz: no arrays to train on" --data m.npz
	refused 1 "No such file" --data nowhere.npz
}
