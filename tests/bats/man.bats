# The man pages as Debian's man (groff) and mandoc show them on a terminal of 80 columns.
# shellcheck disable=SC2154
load helper

# Run the commands of man-db's man(1), and mandoc; warnings go to stderr.
by_groff() { groff -mandoc -T utf8 -P-cbou -rLL=78n -ww "$1"; }
by_mandoc() { mandoc -T utf8 -O width=78 "$1" | col -b; }

# no_narrow_column FILE - says so and fails where a cell of a table hangs at the right as one word a line
no_narrow_column() {
	perl -CSD -ne 'if (/^ {36,}\S+$/) { $n++ } else { $n = 0 }
		if ($n == 2) { print "line $.: a column of single words: $_"; exit 1 }' "$1"
}

@test "each page renders without a warning, by groff and by mandoc, in columns that hold their text" {
	needs groff
	needs mandoc
	for page in "$ROOT"/man/*.[1-9]; do
		for by in by_groff by_mandoc; do
			"$by" "$page" >shown 2>warnings
			[[ ! -s warnings ]] || fail "$by ${page##*/}: $(cat warnings)"
			at_least "$(wc -l <shown)" 50
			no_narrow_column shown || fail "$by ${page##*/}"
		done
	done
}

@test "mandoc's lint has no warning" {
	needs mandoc
	run mandoc -T lint -W warning "$ROOT"/man/*.[1-9]
	assert_status 0
	assert_output ''
}
