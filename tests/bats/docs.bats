# The documentation is correct: the examples of README.md and the man pages run as written and print
# what they show; tables and lists in the man pages are those of the sources.
#
# An example is a ```console block of README.md, or a literal display of a man page whose first line begins
# with "$ ". Lines that begin with "$ " are commands, "> " continues one, and the other lines are the output of
# the command above; a command without such lines may print anything. Each command must succeed. Examples that
# use a data set need MNIST as `make data` fetches it; without it the others are run.
# shellcheck disable=SC2016,SC2154
load helper
load docs
load verbs

setup() {
	house_setup
	export GPUSIM_DATA=$ROOT/data/mnist
}

# needs_mnist BLOCK - it trains or asks without --data
needs_mnist() { grep '^[$>] .*mnist-train' "$1" | grep -qve '--data ' -e '--print-config'; }

# run_examples FILE LEAST
run_examples() {
	local b left=0
	blocks "$1"
	[[ $(echo block.* | wc -w) -ge $2 ]] || fail "$1 has fewer than $2 examples"
	grep -q '^[$>].* | ' block.* || fail "$1 has no pipeline among its examples"
	for b in block.*; do
		if [[ ! -e $GPUSIM_DATA/t10k-images-idx3-ubyte ]] && needs_mnist "$b"; then
			left=$((left + 1))
		else
			run_block "$b"
		fi
	done
	assert_nothing_left
	((left == 0)) || skip "without MNIST in data/mnist, which make data fetches, $left of its examples"
}

# installed - what `make install` puts somewhere is what the test uses
installed() {
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES \
		make -s -C "$ROOT" BUILD="$BUILD" PREFIX="$T/some/where" MPI=0 install >/dev/null
	export PKG_CONFIG_PATH=$T/some/where/lib/pkgconfig PATH=$T/some/where/bin:$PATH
}

@test "README.md: every example runs and prints what it shows" { run_examples "$ROOT/README.md" 1; }
@test "gpuctl(1): the same" { run_examples "$ROOT/man/gpuctl.1" 3; }
@test "gpuctl-bench(1): the same" { run_examples "$ROOT/man/gpuctl-bench.1" 3; }
@test "gpuctl-chaos(1): the same" { run_examples "$ROOT/man/gpuctl-chaos.1" 3; }
@test "gpuctl-replay(1): the same" { run_examples "$ROOT/man/gpuctl-replay.1" 3; }
@test "gpuctl-simulate(1): the same" { run_examples "$ROOT/man/gpuctl-simulate.1" 3; }
@test "gpuctl-synth(1): the same" { run_examples "$ROOT/man/gpuctl-synth.1" 3; }
@test "gpuctl-tune(1): the same" { run_examples "$ROOT/man/gpuctl-tune.1" 3; }
@test "mnist-train(1): the same" { run_examples "$ROOT/man/mnist-train.1" 3; }
@test "gpusim(7): the same" { run_examples "$ROOT/man/gpusim.7" 3; }
@test "gpusim-types(7): the same" { run_examples "$ROOT/man/gpusim-types.7" 3; }
@test "gpusim-algorithms(7): the same" { run_examples "$ROOT/man/gpusim-algorithms.7" 3; }
@test "gpusim-algo(5): the same" { run_examples "$ROOT/man/gpusim-algo.5" 3; }
@test "gpusim-pipeline(5): the same" { run_examples "$ROOT/man/gpusim-pipeline.5" 3; }
@test "gpusim-launch(7): the same" { run_examples "$ROOT/man/gpusim-launch.7" 2; }
@test "gpusim-recorder(7): the same" { run_examples "$ROOT/man/gpusim-recorder.7" 2; }
@test "gpusim-log(7): the same" { run_examples "$ROOT/man/gpusim-log.7" 3; }
@test "gpusim-nccl(7): the same" {
	needs g++
	run_examples "$ROOT/man/gpusim-nccl.7" 3
}
@test "gpusim-cuda(7): the same" {
	needs g++
	needs python3
	run_examples "$ROOT/man/gpusim-cuda.7" 3
}
@test "gpusim-kernels(7): the same, with an installed tree" {
	installed
	run_examples "$ROOT/man/gpusim-kernels.7" 3
}
@test "gpusim-cluster(5): the same" { run_examples "$ROOT/man/gpusim-cluster.5" 3; }
@test "gpusim-parallel(7): the same" { run_examples "$ROOT/man/gpusim-parallel.7" 3; }
@test "gpusim-step(7): the same" { run_examples "$ROOT/man/gpusim-step.7" 3; }
@test "gpusim-data(5): the same, with an installed tree" {
	installed
	run_examples "$ROOT/man/gpusim-data.5" 3
}
@test "gpucoord(8): the same" { run_examples "$ROOT/man/gpucoord.8" 3; }
@test "gpudev(8): the same" { run_examples "$ROOT/man/gpudev.8" 3; }

@test "README.md: the C program, pasted, built and run by the line below it, in the tree and installed" {
	awk '/^```/ { on = $0 == "```c"; next } on' "$ROOT/README.md" >sum.c
	line=$(grep '^cc -o sum' "$ROOT/README.md")
	san=$(nm "$BUILD/libgpusim.a" | grep -q __asan && echo -fsanitize=address,undefined || true)
	# shellcheck disable=SC2086
	cc() { compile $san -Wall -Wextra -Werror "$@"; }
	ln -s "$BUILD" build
	run eval "$line"
	assert_status 0
	assert_output "${line##*# }"
	run bounded env -u GPUSIM_COORD XDG_RUNTIME_DIR="$T" ./sum
	assert_status 1
	assert_match '^sum: no coordinator at '
	rm build sum
	installed
	export PKG_CONFIG_LIBDIR=$PKG_CONFIG_PATH # as where a prefix is the system's
	LD_LIBRARY_PATH=$T/some/where/lib run eval "$line"
	assert_status 0
	assert_output "${line##*# }"
}

@test "README.md: every file it points to is there" {
	grep -o '](\([^)#]*\))' "$ROOT/README.md" | tr -d '()]' | while read -r path; do
		case $path in http*) ;; *) assert_file "$ROOT/$path" ;; esac
	done
}

@test "lib/README.md has a row for each room in its wing, and each wing's README.md names its rooms" {
	(cd "$ROOT/lib" && for room in base */*/; do
		wing=${room%%/*} room=${room%/}
		[[ -d $room && $wing != python ]] || continue
		echo "$wing ${room##*/}"
		[[ $wing = base ]] || grep -q "\`${room##*/}\`\|\b${room##*/}:" "$wing/README.md" || echo "$wing/README.md does not name ${room##*/}"
	done | sort) >rooms
	awk '/^## / { wing = substr($2, 1, length($2) - 1) } wing != "Th" && /^\| `[a-z]+` / { gsub(/`/, "", $2); print wing, $2 }' "$ROOT/lib/README.md" | sort >page
	diff rooms page
}

@test "the table of exit codes in gpusim(7) is the header's, and every other page refers to it" {
	sed -n 's/.*EXIT_[A-Z]* = \([0-9]*\),.*/\1/p' "$ROOT/lib/base/rc.h" >codes
	for page in "$ROOT"/man/*.[1-9]; do
		awk '/^\.Sh/ { on = $0 == ".Sh EXIT STATUS" } on' "$page" >section
		case $page in
		*/gpusim.7) assert_equal "$(sed -n 's/^\.It //p' section)" "$(cat codes)" ;;
		*) grep -q '^\.Xr gpusim 7' section || fail "$page does not refer to the table in gpusim(7)" ;;
		esac
	done
	busy=$(sed -n 's/.*EXIT_BUSY = \([0-9]*\),.*/\1/p' "$ROOT/lib/base/rc.h")
	assert_equal "$(grep -hoE 'busy, exit status [0-9]+' "$ROOT"/man/*.[1-9] | sort -u)" "busy, exit status $busy"
}

@test "man pages refer to pages, sections and functions that exist" {
	local page name section
	grep -hoE '^\.Fn gpusim_[a-z_0-9]+' "$ROOT"/man/*.[1-9] | sort -u | while read -r _ name; do
		grep -q "\\<$name(" "$ROOT"/include/*.h || fail "no $name() in include"
	done
	grep -hE '^\.Xr (gpu|mnist)' "$ROOT"/man/*.[1-9] | sort -u | while read -r _ page section _; do
		[[ -e $ROOT/man/$page.$section ]] || fail "no page $page($section)"
	done
	# ".Sx TITLE", and perhaps "in", ".Xr PAGE SECTION" on the next lines
	for page in "$ROOT"/man/*.[1-9]; do
		PAGE=${page##*/} perl -0ne 'while (/^\.Sx (.+?)(?: [.,;:)])*\n(?:in\n\.Xr (\S+) (\d))?/mg) {
			print $2 ? "$2.$3" : $ENV{PAGE}, "\t$1\n" }' "$page"
	done | sort -u | while IFS=$'\t' read -r page section; do
		grep -qx "\.S[hs] $section" "$ROOT/man/$page" || fail "no section $section in $page"
	done
}

# first_screen FILE - what a terminal of 24 lines and 80 columns shows first
first_screen() { mandoc -T utf8 -O width=78 "$1" | col -b | head -n 24; }

@test "each man page has an example on its first screen" {
	needs mandoc col
	for page in "$ROOT"/man/*.[1-9]; do
		first_screen "$page" | grep -q '^\s*\$ ' || fail "$page has none"
	done
}

@test "README.md and gpusim(7) are short enough to be read" {
	at_least 200 "$(wc -l <"$ROOT/README.md")"
	at_least 700 "$(wc -l <"$ROOT/man/gpusim.7")"
}

# described PAGE WORD... - the page has each option (-x, --xyz) as a Fl
described() {
	local word
	for word in "${@:2}"; do
		grep -qE "(^\.|[. ])Fl ${word#-}( |\$)" "$ROOT/man/$1" ||
			fail "$1 does not describe $word"
	done
}

# options PROGRAM... - the options of the command line, as the program prints its table: -x and --xyz
options() {
	"$@" --help-options | awk -F '\t' '$8 != "file only" && $1 != "-" { print "--" $1 } $2 != "-" { print "-" $2 }'
}

@test "man pages describe every option and every verb" {
	for program in gpudev.8 gpucoord.8 mnist-train.1; do
		# shellcheck disable=SC2046
		described "$program" $(options "${program%.*}")
	done
	awk '/^\.Sh/ { on = $0 != ".Sh JSON" } on' "$ROOT/man/gpuctl.1" >verbs
	for verb in $(gpuctl completion | cut -f 1); do
		page=gpuctl-$verb.1
		[[ -e $ROOT/man/$page ]] || page=gpuctl.1
		grep -qE "^(\.It (Xo )?Cm |\.Cm )([a-z-]+ , )*$verb( |$)" verbs ||
			fail "gpuctl.1 does not describe $verb"
		# shellcheck disable=SC2046
		described "$page" $(gpuctl completion -- "$verb" - | cut -f 1 | grep -vx -e -h)
	done
}

# described_values PAGE COLUMN - the text of each option in the page has the word that the column of --help-options has
described_values() {
	"${1%.*}" --help-options | awk -F '\t' -v c="$2" '$1 != "-" && $c != "-" { print $1 "\t" $c }' |
		while IFS=$'\t' read -r name value; do
			awk -v n="Fl -$name" '/^\.It .*Fl / { on = index($0 " ", n " ") } on' "$ROOT/man/$1" |
				grep -qwF -e "$value" || fail "$1: the text of --$name lacks $value"
		done
}

@test "man pages give the default and the variable of each option" {
	for page in gpudev.8 gpucoord.8 mnist-train.1; do
		described_values "$page" 6
		described_values "$page" 7
	done
}

@test "gpuctl(1) and the pages of verbs name every key of JSON that verbs print" {
	json_of_verbs
	rm "json.$(grep -nx top lines | cut -d : -f 1)" # gpucoord(8) has its keys, /status.json
	cat json.* | grep -oE '"[a-z0-9_]+":' | tr -d '":' | sort -u >keys
	at_least "$(wc -l <keys)" 140
	awk '/^\.Sh/ { on = $0 == ".Sh JSON" } on' "$ROOT"/man/gpuctl{,-*}.1 >section
	while read -r key; do
		grep -qE "Li .*\<$key\>|^\.Cm .*\<$key\>" section || fail "no page of gpuctl names $key"
	done <keys
}

@test "gpusim(7), gpusim-nccl(7), gpusim-cuda(7) and gpusim-python(7) name every variable of the environment that the sources name" {
	grep -rhoE '"GPUSIM_[A-Z0-9_]+[="]' "$ROOT/lib" "$ROOT/cmd" | tr -d '"=' | sort -u >names
	grep -qx GPUSIM_P2P_LEVEL names
	while read -r name; do
		grep -qE "^\.It Ev .*$name" "$ROOT"/man/gpusim{,-nccl,-cuda,-python}.7 || fail "no page names $name"
	done <names
}

# A kernel as "name argument argument ..." a line.
@test "gpusim-kernels(7) lists the kernels and their arguments as gpuctl launch --list does" {
	gpuctl launch --list | awk '/^[^ ]/ { k = $1; sub(/:.*/, "", k) }
		/^ / { sub(/=.*/, ""); gsub(/[][ ]/, ""); a[k] = a[k] " " $0 }
		END { for (k in a) print k a[k] }' | sort >program
	awk '/^\.Sh/ { on = $0 == ".Sh KERNELS" }
		!on { next }
		/^\.It Ic/ { k = $3 }
		/^\.It Cm/ { a[k] = a[k] " " $3 }
		END { for (k in a) print k a[k] }' "$ROOT/man/gpusim-kernels.7" | sort >page
	[[ $(wc -l <program) -ge 16 ]]
	diff program page
}

@test "gpusim-types(7) lists types and reductions as gpuctl completes them" {
	for option in type op; do
		grep -qx "\.Cm $(gpuctl completion -- reduce --$option '' | cut -f 1 | xargs) [.,]" "$ROOT/man/gpusim-types.7" ||
			fail "gpusim-types.7 does not have the list of --$option"
	done
}

@test "gpusim-algorithms(7) lists the algorithms as gpuctl plan --list does" {
	gpuctl plan --list | awk '{ print $1, $2 }' >program
	awk '/^\.Sh/ { on = $0 == ".Sh ALGORITHMS" }
		/^\.Pp/ { on = 0 }
		on && /^\.It Ic/ { collective = $3 }
		on && /^\.It Cm/ { print collective, $3 }' "$ROOT/man/gpusim-algorithms.7" >page
	diff program page
}
