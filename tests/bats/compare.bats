# mnist-train --compare: the same training by several methods and numbers of workers.
load helper

setup() {
	house_setup
	export GPUSIM_DATA=$ROOT/tests/data
	LIMIT=50
}

# without_programs CMD... - with an empty PATH: no gnuplot, no mpirun
without_programs() {
	mkdir -p "$T/none"
	run --separate-stderr bounded env PATH="$T/none" "$@"
}

# column NAME WHERE - of the rows of compare.csv for which the awk condition WHERE holds
column() {
	awk -F, -v name="$1" "NR == 1 { for (i = 1; i <= NF; i++) at[\$i] = i; next }
		$2 { print \$at[name] }" compare.csv
}

@test "compare: a row an epoch of each run, in order, with numbers that fit each other" {
	run --separate-stderr bounded mnist-train --compare allreduce --workers 2,1 --epochs 3 --batch 32
	assert_status 0
	assert_equal "$(head -n 1 compare.csv)" \
		method,workers,epoch,loss,test_accuracy,seconds,images_per_s,speedup,note
	assert_equal "$(cut -d, -f1-3 compare.csv | tail -n +2 | xargs)" \
		"$(echo allreduce,{1,2},{1,2,3})"
	awk -F, 'NR > 1 {
		if (NF != 9 || $9 != "" || !($4 > 0) || $5 < 0 || $5 > 1 || !($6 > 0) || !($7 > 0) || !($8 > 0)) exit 1
		if ($3 > 1 && !($6 > before)) exit 1
		before = $6
	}' compare.csv || fail "$(<compare.csv)"
	# The same global batch: 64 images a step, whoever many they are.
	assert_equal "$(awk -F, 'NR > 1 { $4 = sprintf("%.4f", $4); print $3, $4, $5 }' compare.csv |
		sort -u | wc -l)" 3
	assert_equal "$(column speedup '$2 == 1' | sort -u)" 1.000
	assert_nothing_left
}

@test "compare: a run has the same result as mnist-train itself" {
	bounded mnist-train --compare allreduce --workers 1,2 --epochs 2 --batch 32 --seed 9 \
		--optimizer adam --out x/../compare 2>/dev/null && fail 'x is not there'
	mkdir x
	run bounded mnist-train --compare allreduce --workers 1,2 --epochs 2 --batch 32 --seed 9 \
		--optimizer adam --out x/../compare
	assert_status 0
	bounded mnist-train --devices 2 --epochs 2 --batch 32 --seed 9 --optimizer adam --json log
	sed 's/.*"loss":\([^,]*\),"test_accuracy":\([^,]*\),.*/\1 \2/' log >expected
	assert_equal "$(awk -F, '$2 == 2 { print $4, $5 }' compare.csv)" "$(<expected)"
}

@test "compare: table and plot on standard output, a line a run on standard error" {
	run --separate-stderr bounded mnist-train --compare allreduce --workers 1,2,3 --epochs 2 --batch 33
	assert_status 0
	assert_match '^images a step: 100 on 2 workers, as 99 cannot be divided evenly'
	assert_match $'\nallreduce        2     50       2 '
	assert_match 'test accuracy in % over'
	assert_match $'speed-up over workers; dots: ideal\n'
	assert_match $'\n         a allreduce'
	awk 'length($0) > 80 { exit 1 }' <<<"$output" || fail "$output"
	assert_equal "$(grep -c '^allreduce, [123] workers\? ([123] of 3): test accuracy' <<<"$stderr")" 3
	assert_equal "$(grep -vc '^allreduce, ' <<<"$stderr")" "$(command -v gnuplot >/dev/null && echo 0 || echo 1)"
}

@test "compare: what is not the same training is marked, in the table and in CSV" {
	run --separate-stderr bounded mnist-train --compare allreduce,local --workers 1,2 --epochs 1
	assert_status 0
	assert_equal "$(grep -c '^local  .*\*$' <<<"$output")" 1
	assert_equal "$(grep -c '^allreduce  .*\*$' <<<"$output")" 0
	assert_match $'\n\\* differs from the reference training.*\n  local: each worker trains alone between two averages'
	assert_equal "$(column note '$1 == "allreduce" || $2 == 1' | sort -u)" ''
	assert_equal "$(column note '$1 == "local" && $2 == 2')" \
		'each worker trains alone between two averages of the weights'
}

@test "compare: a picture" {
	needs gnuplot
	run bounded mnist-train --compare allreduce --workers 1,2 --epochs 2 --out "it's"
	assert_status 0
	assert_equal "$(head -c 8 "it's.png" | od -An -tx1 | xargs)" '89 50 4e 47 0d 0a 1a 0a'
	# Width and height are the first numbers behind the magic.
	assert_equal "$(od -An -tu1 -j16 -N8 "it's.png" | xargs)" '0 0 4 176 0 0 3 132'
	(($(wc -c <"it's.png") > 20000)) || fail 'an empty picture'
	assert_equal "$(find . -name '*.*' -type f | sort | paste -sd ' ')" "./it's.csv ./it's.png"
}

@test "compare: without gnuplot there is the text alone" {
	without_programs "$BUILD/bin/mnist-train" --compare allreduce --workers 1,2 --epochs 1
	assert_status 0
	[[ $stderr == *'gnuplot not found'* ]] || fail "$stderr"
	assert_match $'\n         a allreduce'
	assert_file compare.csv
	refute_file compare.png
}

@test "compare: a failure of gnuplot is reported, and the other files are written" {
	mkdir bin
	printf '#!/bin/sh\necho "line 3: oh dear" >&2\nexit 3\n' >bin/gnuplot
	chmod +x bin/gnuplot
	PATH=$T/bin:$PATH run --separate-stderr bounded mnist-train --compare allreduce --workers 1 --epochs 1
	assert_status 1
	[[ $stderr == *'mnist-train: gnuplot: line 3: oh dear' ]] || fail "$stderr"
	assert_match 'test accuracy in % over'
	assert_equal "$(wc -l <compare.csv)" 2
	refute_file compare.png
}

@test "compare: a run that fails is reported, the others continue, exit status 1" {
	without_programs "$BUILD/bin/mnist-train" --compare mpi,allreduce --workers 1,2 --epochs 1
	assert_status 1
	for n in '1 worker' '2 workers'; do
		[[ $stderr == *"mnist-train: mpi, $n: mpirun was not found"* ]] || fail "$stderr"
	done
	assert_equal "$(cut -d, -f1,2 compare.csv | xargs)" 'method,workers allreduce,1 allreduce,2'
	assert_match $'\nmpi              1    128  no result\n'
}

@test "compare: none of the runs is of use" {
	without_programs "$BUILD/bin/mnist-train" --compare mpi --workers 1 --epochs 1
	assert_status 1
	assert_equal "$(wc -l <compare.csv)" 1
	refute_file compare.png
}

@test "compare: runs have machines of their own, whatever coordinator there is" {
	run bounded gpuctl run -n 1 -- mnist-train --compare allreduce --workers 2 --epochs 1
	assert_status 0
	assert_equal "$(column workers 1)" 2
	assert_nothing_left
}

@test "compare: a signal ends the run that is under way, and finished runs are kept" {
	background bash -c 'exec mnist-train --compare allreduce --workers 1 --epochs 1000000 2>err >out'
	wait_until 20 pgrep -f "^gpudev .*$T/"
	kill -INT "$PID"
	status=0
	wait "$PID" || status=$?
	assert_status 130
	assert_equal "$(<err)" 'allreduce, 1 worker (1 of 1): ended'
	assert_equal "$(wc -l <compare.csv)" 1
	assert_nothing_left
	assert_equal "$(echo "$T"/gpusim.cmp*)" "$T/gpusim.cmp*"
}

@test "compare: killed, it leaves no device" {
	background mnist-train --compare allreduce --workers 2 --epochs 1000000 2>err >out
	wait_until 20 pgrep -f "^gpudev .*$T/"
	kill -KILL "$PID"
	wait "$PID" || true
	wait_until 10 not pgrep -f "$T/"
}

@test "compare: what cannot be compared is refused before anything runs" {
	while IFS='|' read -r code args sentence; do
		# shellcheck disable=SC2086 # several arguments
		run bounded mnist-train --workers 1,2 --epochs 1 $args
		assert_status "$code"
		assert_match "^mnist-train: $sentence"
		refute_file compare.csv
	done <<-'END'
		2|--compare ring|--compare: 'ring' is not a method: allreduce, sendrecv
		2|--compare ps,ps|--compare: ps is given twice
		2|--compare ps --workers 2,1,2|--workers: 2 is given twice
		2|--compare allreduce --json x|--json: cannot be combined with --compare
		2|--compare allreduce --save x|--save: cannot be combined with --compare
		2|--compare allreduce --checkpoint x|--checkpoint: cannot be combined with --compare
		2|--compare allreduce --epochs 0|--compare: .*--epochs
		2|--compare allreduce --out x/|--out: 'x/'
		1|--compare allreduce --out nowhere/x|--out: nowhere: No such file
		1|--compare allreduce --data nowhere|.*nowhere
	END
}
