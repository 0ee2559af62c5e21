# Python's examples, and programs in the manner of courses for torch.distributed: over gloo, and unchanged over gpusim.
# And those of gpusim-python(7) and README.md, as docs.bats runs the others.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154
load python
load docs

setup() {
	python_setup
	export GPUSIM_DATA=$ROOT/tests/data
	E=$ROOT/examples
}

# like FILE FILE DIFFERENCE - the numbers of each line are the same, up to the difference; there are some
like() {
	paste "$1" "$2" | awk -v d="$3" '
		{ half = NF / 2
		  for (i = 1; i <= half; i++) {
			x = $i - $(i + half)
			if ($i !~ /^[-0-9.]+$/) { if ($i != $(i + half)) bad = 1 } else { n++; if (x > d || -x > d) bad = 1 } } }
		END { exit bad || n < 2 || NF % 2 }' || fail "$1: $(cat "$1")"$'\n'"$2: $(cat "$2")"
}

@test "lab_part_a_numpy: on a machine of its own, and on that of gpuctl run; errors are one line" {
	for n in 1 3; do
		run bounded "$PYTHON" "$E/lab_part_a_numpy.py" $n
		assert_status 0
		assert_output "$n devices, 1000 doubles each: 0 wrong"
	done
	run bounded gpuctl run -n 2 -- "$E/lab_part_a_numpy.py"
	assert_output '2 devices, 1000 doubles each: 0 wrong'
	run bounded gpuctl run -n 2 -- "$E/lab_part_a_numpy.py" 3 10
	assert_status 1
	assert_output 'lab_part_a_numpy: needs 3 devices; 2 exist'
	run bounded "$E/lab_part_a_numpy.py" none
	assert_status 2
	assert_nothing_left
}

@test "mnist_numpy: 60 lines; any number of devices learns the same" {
	at_least 60 "$(wc -l <"$E/mnist_numpy.py")"
	for n in 1 2 4; do
		bounded "$E/mnist_numpy.py" $n 3 32 >"by.$n"
		assert_equal "$(wc -l <"by.$n")" 3
	done
	like by.1 by.2 0.0002
	like by.1 by.4 0.0002
	at_least "$(awk 'END { print $(NF - 1) }' by.4)" 70
	bounded gpuctl run -n 2 -- "$E/mnist_numpy.py" 0 3 32 >under.run
	cmp by.2 under.run
	assert_nothing_left
}

# over WHAT N PROGRAM - its output over gloo, or over gpusim, whose trace then has its operations
over() {
	case $1 in
	gloo) bounded gpuctl run -n "$2" --each -- "$PYTHON" "$3" ;;
	gpusim)
		bounded gpuctl run -n "$2" --torch --trace trace -- "$PYTHON" "$3"
		grep -q "\"name\":\"$OPERATION\"" trace || fail "no $OPERATION in the trace: $(head -c 2000 trace)"
		;;
	esac
}

@test "a transformer in tensor parallel: the same losses over gloo and unchanged over gpusim, by 1, 2 and 4 ranks" {
	needs_modules torch
	program=$ROOT/tests/python/torch_tensor_parallel.py OPERATION=allgather
	over gloo 1 "$program" >one
	over gloo 2 "$program" >over.gloo
	over gpusim 2 "$program" >two
	BACKEND=nccl over gpusim 4 "$program" >four
	like one over.gloo 0.00005
	like one two 0.00005
	like one four 0.00005
	assert_nothing_left
}

@test "a pipeline: the same losses over gloo and unchanged over gpusim, by 1, 2 and 4 stages, 1F1B and GPipe" {
	needs_modules torch
	program=$ROOT/tests/python/torch_pipeline.py OPERATION=send
	over gloo 1 "$program" >one
	over gloo 2 "$program" >over.gloo
	SCHEDULE=gpipe over gpusim 2 "$program" >two
	over gpusim 4 "$program" >four
	like one over.gloo 0.00005
	like one two 0.00005
	like one four 0.00005
	assert_nothing_left
}

@test "torch_ddp: a rank that is killed is waited for, and what is learnt is what an undisturbed run learns" {
	needs_modules torch
	export GPUSIM_DETERMINISTIC=1
	bounded gpuctl run --torch -n 4 -- "$E/torch_ddp.py" --steps 40 >calm
	bounded gpuctl run --torch -n 4 --inject 'kill rank=2 at=allreduce#50' -- "$E/torch_ddp.py" --steps 40 >killed 2>said || fail "$(cat said)"
	grep -q 'rank [013]: .*rank 2 .*; waiting for it' said
	assert_equal "$(tail -n 2 killed)" "$(tail -n 2 calm)"
	at_least "$(awk 'END { print $2 }' calm)" 70
	assert_nothing_left
}

@test "torch_ddp: it goes on at a checkpoint, and without MNIST learns digits that it makes up" {
	needs_modules torch
	export GPUSIM_DETERMINISTIC=1 GPUSIM_DATA=$T
	bounded gpuctl run --torch -n 2 -- "$E/torch_ddp.py" --steps 30 --checkpoint whole >whole.out
	bounded gpuctl run --torch -n 2 -- "$E/torch_ddp.py" --steps 21 --checkpoint part >part.out
	bounded gpuctl run --torch -n 2 -- "$E/torch_ddp.py" --steps 30 --checkpoint part >rest.out
	assert_equal "$(head -n 1 rest.out)" "$(sed -n 3p whole.out)"
	assert_equal "$(tail -n 1 rest.out)" "$(tail -n 1 whole.out)"
}

@test "gpusim-python(7): every example runs and prints what it shows" {
	needs_modules torch pytest
	blocks "$ROOT/man/gpusim-python.7"
	[[ $(echo block.* | wc -w) -ge 5 ]] || fail "only $(echo block.*)"
	for b in block.*; do
		run_block "$b"
	done
	assert_nothing_left
}

@test "README.md: the program in Python prints what it says" {
	awk '/^```/ { on = $0 == "```python"; next } on' "$ROOT/README.md" >sum.py
	run bounded python3 sum.py
	assert_status 0
	assert_output "$(sed -n '$s/.*# //p' sum.py)"
}
