# fetch-lib.bash - shared by fetch-mnist and fetch-fashion; sourced, not run.
#
# The caller sets `prog` and `sha256` (file name -> SHA-256 of the raw IDX file), then calls
# fetch_begin DIR, offers files with fetch_offer until fetch_missing is empty, and ends with
# fetch_end. New files stay in a hidden folder of DIR until all are verified; then they are renamed.
# The hidden folder is always removed.
# shellcheck shell=bash disable=SC2154 # prog and sha256 are the caller's

names=(train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte)
reasons=() # why each source did not do

die() {
	echo "$prog: $*" >&2
	exit 1
}

# fetch_usage ARGS...: the one argument is DIR; -h prints the script's own header.
fetch_usage() {
	if [ "${1-}" = -h ] || [ "${1-}" = --help ]; then
		sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
		exit 0
	fi
	if [ $# -ne 1 ] || [ -z "$1" ]; then
		echo "usage: $prog DIR" >&2
		exit 2
	fi
}

# file_good FILE NAME: FILE is the raw file called NAME.
file_good() {
	[ -f "$1" ] && [ "$(sha256sum <"$1" | cut -d ' ' -f 1)" = "${sha256[$2]}" ]
}

# In the order of the traps: the new files, then DIR if it is new and empty.
fetch_cleanup() {
	[ -z "${temp-}" ] || rm -rf -- "$temp"
	[ -z "${made_dir-}" ] || rmdir -- "$made_dir" 2>/dev/null || true
}

# fetch_begin DIR: exits 0 if all four files exist and are good.
fetch_begin() {
	local name bad=()

	dir=$1
	for name in "${names[@]}"; do
		file_good "$dir/$name" "$name" || bad+=("$name")
	done
	if [ ${#bad[@]} -eq 0 ]; then
		echo "$prog: $dir: all four files are there and verified"
		exit 0
	fi
	trap fetch_cleanup EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	if [ ! -d "$dir" ]; then
		mkdir -p -- "$dir" 2>/dev/null || die "$dir: cannot make this folder"
		made_dir=$dir
	fi
	temp=$(mktemp -d -- "$dir/.$prog.XXXXXX" 2>/dev/null) || die "$dir: cannot write here"
	temp=$(realpath -- "$temp") # sources are fetched from inside it
	for name in "${names[@]}"; do
		[[ " ${bad[*]-} " == *" $name "* ]] || : >"$temp/$name.present"
	done
}

# Print the names of the missing files, one per line.
fetch_missing() {
	local name

	for name in "${names[@]}"; do
		[ -e "$temp/$name.present" ] || [ -e "$temp/$name" ] || echo "$name"
	done
}

# fetch_offer FILE NAME SOURCE: take FILE, raw or gzipped, as NAME if it is the right one.
fetch_offer() {
	local new=$temp/$2.new why=

	if [ "$(head -c 2 -- "$1" | od -An -tx1 | tr -d ' \n')" = 1f8b ]; then
		gzip -dc <"$1" >"$new" 2>/dev/null || why="truncated or corrupted gzip"
	else
		cp -- "$1" "$new" 2>/dev/null || why="cannot be copied"
	fi
	if [ -z "$why" ] && ! file_good "$new" "$2"; then
		why="wrong SHA-256 of $(stat -c %s -- "$new") bytes: truncated or another file"
	fi
	if [ -n "$why" ]; then
		rm -f -- "$new"
		reasons+=("$3: $2: $why")
		return 1
	fi
	mv -- "$new" "$temp/$2"
	echo "$prog: $2: verified, from $3"
}

# Rename the verified files into DIR, or fail with every source's reason on one line.
fetch_end() {
	local name text

	if [ -n "$(fetch_missing)" ]; then
		printf -v text '%s; ' "${reasons[@]}"
		die "$dir: no source has $(fetch_missing | head -n 1): ${text%; }"
	fi
	for name in "${names[@]}"; do
		[ -e "$temp/$name.present" ] || mv -f -- "$temp/$name" "$dir/$name" ||
			die "$dir/$name: cannot be written"
	done
	made_dir=
	echo "$prog: $dir: all four files are there and verified"
}
