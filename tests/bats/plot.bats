# Pictures of results: gpuctl bench --plot and mnist-train --plot, by gnuplot or as text.
# shellcheck disable=SC2016
load helper

setup() {
	house_setup
	export GPUSIM_DATA=$ROOT/tests/data
}

bench() { bounded gpuctl run -n 2 -- gpuctl bench -b 1K -e 64K -f 4 --iters 2 --warmup 0 "$@"; }

train() { bounded mnist-train --devices 2 --epochs 3 --batch 32 "$@"; }

# without_gnuplot CMD... - with a PATH that has gpusim's programs alone
without_gnuplot() {
	mkdir -p none
	ln -sf "$BUILD"/bin/* "$(command -v timeout)" none/
	PATH=$T/none "$@"
}

# fake_gnuplot LINE... - one that does this, before any other
fake_gnuplot() {
	mkdir -p fake
	printf '%s\n' '#!/bin/sh' "$@" >fake/gnuplot
	chmod +x fake/gnuplot
	PATH=$T/fake:$PATH
}

# is_svg FILE TITLE... - XML that has these texts
is_svg() {
	perl -0777 -ne 'exit 1 unless /^<\?xml/ && /<\/svg>\s*$/;
		my @open; while (/<(\/?)([a-zA-Z][\w:]*)[^>]*?(\/?)>/g) {
			if ($1) { exit 2 unless @open && pop(@open) eq $2 } elsif (!$3) { push @open, $2 } }
		exit 3 if @open' "$1" || fail "$1 is no XML"
	for title in "${@:2}"; do
		grep -qF ">$title<" "$1" || grep -qF "$title" "$1" || fail "$1 has no '$title'"
	done
}

needs_gnuplot() { needs gnuplot; }

@test "plot: bench draws a line for each algorithm, and the baseline beside" {
	needs_gnuplot
	bench --json >base
	run --separate-stderr bench --algo ring,tree --baseline base --plot busbw.svg
	assert_status 0
	assert_equal "$stderr" ''
	assert_equal "$(grep -c '^# allreduce algo' <<<"$output")" 2
	is_svg busbw.svg ring tree baseline 'allreduce, 2 ranks, f32' 4K
	assert_equal "$(grep -c '<g id="gnuplot_plot_' busbw.svg)" 3
	assert_equal "$(echo *)" 'base busbw.svg'
	run --separate-stderr bench --json --plot busbw.png
	assert_status 0
	assert_equal "$(head -c 8 busbw.png | od -An -tx1 | xargs)" '89 50 4e 47 0d 0a 1a 0a'
}

@test "plot: as text, after the table, and beside JSON on standard error" {
	run --separate-stderr bench --algo ring,oneshot --plot -
	assert_status 0
	assert_match $'\nbus bandwidth in GB/s over size in bytes\n'
	assert_match $'\n         1K  .*  64K\n'
	assert_match $'\n         r ring  o oneshot  # several$'
	run --separate-stderr bench --algo ring,oneshot --json --plot -
	assert_status 0
	assert_equal "$(perl -MJSON::PP -ne 'print decode_json($_)->{algo}, " "' <<<"$output")" 'ring oneshot '
	[[ $stderr == *'r ring  o oneshot'* ]] || fail "$stderr"
}

@test "plot: without gnuplot there is a warning, and text" {
	run --separate-stderr without_gnuplot bench --plot busbw.svg
	assert_status 0
	assert_equal "$stderr" 'gpuctl: gnuplot not found: text instead of busbw.svg'
	assert_match 'bus bandwidth in GB/s over size in bytes'
	refute_file busbw.svg
	run --separate-stderr without_gnuplot train --plot curves.png
	assert_status 0
	assert_equal "$stderr" 'mnist-train: gnuplot not found: text instead of curves.png'
	assert_match $'\nmean loss over epochs\n.*\naccuracy in % over epochs'
	refute_file curves.png
}

@test "plot: training draws loss and accuracy" {
	needs_gnuplot
	run train --plot curves.svg
	assert_status 0
	is_svg curves.svg Loss Accuracy 'mean loss over the training images' test
	assert_equal "$(grep -c '<g id="gnuplot_plot_' curves.svg)" 2
	run train --sync ps --quiet --plot curves.png
	assert_status 0
	assert_output ''
	assert_equal "$(head -c 8 curves.png | od -An -tx1 | xargs)" '89 50 4e 47 0d 0a 1a 0a'
}

@test "plot: on a terminal the curves are drawn again after each epoch" {
	TERM=xterm run bounded script -qec 'stty rows 24 cols 80; mnist-train --devices 2 --epochs 3 --batch 32 --plot -' typescript
	assert_status 0
	assert_equal "$(grep -c 'mean loss over epochs' typescript)" 3
	# Twice the cursor goes up by all lines of the plot, and what is below goes.
	assert_equal "$(grep -c $'\e\\[20A\e\\[J' typescript)" 2
	run train --plot -
	assert_status 0
	assert_equal "$(grep -c 'mean loss over epochs' <<<"$output")" 1
	[[ $output != *$'\e'* ]] || fail 'no terminal, and yet its codes'
}

@test "plot: a gnuplot that fails is an error, and the file stays as it was" {
	echo before >busbw.svg
	fake_gnuplot 'printf "<?xml half"' 'echo "line 3: oh dear" >&2' 'exit 3'
	run --separate-stderr bench --plot busbw.svg
	assert_status 1
	assert_equal "$stderr" 'gpuctl: bench: --plot: gnuplot: line 3: oh dear'
	assert_equal "$(<busbw.svg)" before
	run --separate-stderr train --plot curves.png
	assert_status 1
	assert_equal "$stderr" 'mnist-train: --plot: gnuplot: line 3: oh dear'
	refute_file curves.png
	assert_equal "$(echo *)" 'busbw.svg fake'
}

@test "plot: what cannot be drawn is refused before anything runs" {
	while IFS='|' read -r code args sentence; do
		# shellcheck disable=SC2086 # several arguments
		run bounded $args
		assert_status "$code"
		assert_match "$sentence"
	done <<-'END'
		2|gpuctl bench --plot x.pdf|^gpuctl: bench: --plot: 'x.pdf': must end in .svg or .png
		1|gpuctl bench --plot nowhere/x.svg|^gpuctl: bench: --plot: nowhere/x.svg: cannot create a file beside it
		2|gpuctl bench barrier --plot -|^gpuctl: bench: --plot: a barrier has no sizes
		2|gpuctl bench --algo ring,nonsense|^gpuctl: bench: unknown algorithm 'nonsense'
		2|gpuctl bench --algo ring,|^gpuctl: bench: --algo: a name is missing
		2|mnist-train --devices 1 --epochs 1000000 --plot x.pdf|mnist-train: --plot: 'x.pdf' does not end
		1|mnist-train --devices 1 --epochs 1000000 --plot nowhere/x.svg|mnist-train: --plot: nowhere/x.svg
		2|mnist-train --compare allreduce --plot x.svg|^mnist-train: --plot: cannot be combined with --compare
	END
}
