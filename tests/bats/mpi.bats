# mnist-train --backend mpi: the same training as a job of MPI.
load helper

setup() {
	house_setup
	export GPUSIM_DATA=$ROOT/tests/data
	LIMIT=50
	# The tests may run as root, with more ranks than processors, beside other jobs.
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
	export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
}

needs_mpi() {
	[ -x "$BUILD/bin/mnist-train-mpi" ] || skip 'built without MPI'
	needs mpirun
}

# job N OPTION... - a training as an MPI job of N ranks
job() {
	run --separate-stderr bounded mpirun -n "$1" "$BUILD/bin/mnist-train" --backend mpi "${@:2}"
}

# learnt FILE - losses and accuracies of a --json FILE, the losses to the digits that rounding leaves
learnt() {
	sed 's/.*"loss":\([^,]*\),"test_accuracy":\([^,]*\),.*/\1 \2/' "$1" |
		awk '{ printf "%.4f %s\n", $1, $2 }'
}

@test "mpi: as many ranks learn what as many devices do" {
	needs_mpi
	options=(--epochs 3 --batch 21 --seed 5 --lr-schedule cosine)
	job 3 "${options[@]}" --json ranks
	assert_status 0
	assert_match '^512 training and 256 test images, 101770 parameters, 3 ranks'
	assert_equal "$(grep -c '^epoch [123]/3  loss [0-9.]*  test accuracy [0-9.]* %' <<<"$output")" 3
	bounded gpuctl run -n 3 -- mnist-train "${options[@]}" --json devices
	assert_equal "$(learnt ranks)" "$(learnt devices)"
	assert_equal "$(wc -l <ranks)" 3
	assert_equal "$(cut -d: -f1 <<<"$(tr , '\n' <ranks)" | sort -u)" \
		"$(cut -d: -f1 <<<"$(tr , '\n' <devices)" | sort -u)"
}

@test "mpi: a convolutional net, adam, buckets" {
	needs_mpi
	options=(--model lenet --optimizer adam --epochs 2 --batch 32)
	job 2 "${options[@]}" --bucket-bytes 4K --json ranks
	assert_status 0
	bounded mnist-train --devices 2 "${options[@]}" --json devices
	assert_equal "$(learnt ranks)" "$(learnt devices)"
}

@test "mpi: the weights that are saved are those of devices but for rounding" {
	needs_mpi
	job 2 --epochs 1 --save ranks.npz
	assert_status 0
	bounded mnist-train --devices 2 --epochs 1 --save devices.npz
	assert_equal "$(grep -ao 'fc[12]\.[a-z]*' ranks.npz | sort -u | xargs)" \
		'fc1.bias fc1.weight fc2.bias fc2.weight'
	assert_equal "$(wc -c <ranks.npz)" "$(wc -c <devices.npz)"
	for file in ranks devices; do
		run bounded mnist-train --eval --load $file.npz
		assert_status 0
		grep -o 'accuracy [0-9.]*' <<<"$output" >$file
	done
	assert_equal "$(<ranks)" "$(<devices)"
}

@test "mpi: without mpirun it is a job of one rank" {
	needs_mpi
	run --separate-stderr bounded mnist-train --backend mpi --epochs 1 --workers 1
	assert_status 0
	assert_match ', 1 rank'$'\n'
}

@test "mpi: an error is reported once, by one rank" {
	needs_mpi
	while IFS='|' read -r code args sentence; do
		# shellcheck disable=SC2086 # several arguments
		job 2 --epochs 1 $args
		assert_status "$code"
		assert_equal "$(grep -c '^mnist-train: ' <<<"$stderr")" 1
		[[ $stderr == *"mnist-train: $sentence"* ]] || fail "$stderr"
	done <<-'END'
		2|--workers 3|--workers 3: must match the MPI job, which has 2 ranks
		2|--devices 1|--devices 1: must match the MPI job, which has 2 ranks
		2|--checkpoint x|--checkpoint: cannot be combined with --backend mpi
		2|--on-failure shrink|--on-failure: with --backend mpi
		5|--layers 785,10|
		1|--json nowhere/x|nowhere/x: No such file
		1|--save nowhere/x|nowhere/x: cannot create a file beside it: No such file
	END
	refute_file x
	job 2 --epochs 1 --sync local
	assert_status 2
}

@test "mpi: a rank that dies takes the job with it, and leaves nothing" {
	needs_mpi
	background mpirun -n 2 mnist-train --backend mpi --epochs 1000000 --json log >out 2>err
	wait_until 20 test -s log
	pid=$(pgrep -f "^$BUILD/bin/mnist-train-mpi .*--json=log" -n -P "$PID")
	refute_file "/dev/shm/gpusim-mpi-$(id -u)-$pid"
	kill -KILL "$pid"
	status=0
	wait "$PID" || status=$?
	((status != 0)) || fail 'the job has not failed'
	wait_until 10 not pgrep -P "$PID"
}

@test "mpi: a method of --compare" {
	needs_mpi
	run --separate-stderr bounded mnist-train --compare allreduce,mpi --workers 1,2 --epochs 2 --batch 32
	assert_status 0
	assert_equal "$(cut -d, -f1-3 compare.csv | tail -n +2 | xargs)" \
		"$(echo {allreduce,mpi},{1,2},{1,2})"
	assert_equal "$(awk -F, '$1 == "mpi" { printf "%s %.4f %s\n", $3, $4, $5 }' compare.csv | sort -u)" \
		"$(awk -F, '$1 == "allreduce" { printf "%s %.4f %s\n", $3, $4, $5 }' compare.csv | sort -u)"
}

@test "mpi: where it was not built, one line says so" {
	mkdir bin
	cp "$BUILD/bin/mnist-train" bin
	run bounded bin/mnist-train --backend mpi --epochs 1
	assert_status 1
	assert_output "mnist-train: --backend mpi: built without MPI: no $T/bin/mnist-train-mpi"
}
