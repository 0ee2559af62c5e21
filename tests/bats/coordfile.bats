# gpucoord's configuration file: which options it takes, the program says itself.
load helper

setup() {
	house_setup
	unset GPUSIM_ON_FAILURE GPUSIM_COORD GPUSIM_TUNER_CONFIG_FILE
	unset "${!GPUSIM_TLS_@}"
}

# refused SENTENCE - conf is refused so, as wrong usage
refused() {
	run bounded gpucoord -c conf
	assert_status 2
	assert_output "gpucoord: conf:$1"
}

# value TYPE VALUES - one that the type takes, as it is printed again
value() {
	case $1 in
	time) echo 77ms ;;
	flag) echo true ;;
	word) echo "${2##*|}" ;;
	fraction) echo 3/4 ;;
	string) echo "a b" ;;
	number | real) [[ $2 == - ]] && echo 7 || echo "${2##*..}" ;;
	size | rate) echo 4096 ;;
	*) fail "no value of the type '$1' is known here" ;;
	esac
}

# bad TYPE - one that it does not take; nothing: it takes each
bad() {
	case $1 in
	time) echo 0s ;;
	flag) echo maybe ;;
	word) echo never ;;
	fraction) echo 4/3 ;;
	number | real | size | rate) echo many ;;
	esac
}

@test "each option of the table is a key, and counts" {
	local n=0
	while IFS=$'\t' read -r name _ _ type values _ _ where _; do
		printf '[coordinator]\n%s = %s\n' "$name" "$(value "$type" "$values")" >conf
		if [[ $where != file ]]; then
			refused "2: $name: not allowed in a file"
			continue
		fi
		gpucoord -c conf --print-config >out
		grep -qxF "$name = $(value "$type" "$values")" out || fail "$name: $(cat out)"
		gpucoord -c out --print-config | cmp - out
		n=$((n + 1))
	done < <(gpucoord --help-options | awk -F '\t' '$1 != "-" && $4 != "-" && $4 != "descriptor"')
	[[ $n -ge 16 ]]
}

@test "a value out of bounds is refused with file and line" {
	local n=0
	while IFS=$'\t' read -r name _ _ type _; do
		[[ -n $(bad "$type") ]] || continue
		printf '[coordinator]\n\n%s = %s\n' "$name" "$(bad "$type")" >conf
		run bounded gpucoord -c conf
		assert_status 2
		[[ $output == "gpucoord: conf:3: $name: '$(bad "$type")'"@(' is '|': must be ')* ]] || fail "$output"
		n=$((n + 1))
	done < <(gpucoord --help-options | awk -F '\t' '$8 == "file"')
	[[ $n -ge 8 ]]
}

@test "flags win over the file, the file over the environment, that over the defaults" {
	shows() { gpucoord "$@" --print-config | grep '^on-failure'; }
	assert_equal "$(shows)" 'on-failure = abort'
	export GPUSIM_ON_FAILURE=shrink
	assert_equal "$(shows)" 'on-failure = shrink'
	printf '[coordinator]\non-failure = spare\n' >conf
	assert_equal "$(shows -c conf)" 'on-failure = spare'
	assert_equal "$(shows --on-failure respawn -c conf)" 'on-failure = respawn'
}

@test "devices have an address, and are different" {
	printf '[device one]\nid = 0x11\naddress = ipc:///run/1\n[device two]\naddress = ipc:///run/2\n' >conf
	gpucoord -c conf --print-config | sed -n '/^$/,$p' >out
	assert_equal "$(cat out)" "
[device one]
address = ipc:///run/1
id = 0x11

[device two]
address = ipc:///run/2"
	echo 'colour = red' >>conf
	refused '6: colour: a device has only an id and an address'
	sed -i '$d' conf
	printf '[device three]\nid = 0x11\naddress = ipc:///run/3\n' >>conf
	refused ' [device one] and [device three] are the same device'
	printf '[device]\nid = 1\n' >conf
	refused ' [device] has no address'
	printf '[device]\nid = 0\naddress = ipc:///run/1\n' >conf
	refused '2: id: 0 is out of range (1 to 18446744073709551615)'
	printf '[device]\naddress = none\n' >conf
	run bounded gpucoord -c conf
	assert_status 2
	[[ $output == "gpucoord: conf:2: address: "* ]]
}

@test "unknown options and sections" {
	printf '[coordinator]\nheart-beats = 1s\n' >conf
	refused "2: no option 'heart-beats'; did you mean 'heartbeat'?"
	printf '[coordinator]\nheartbeat = 1s\nheart-beat = 2s\n' >conf
	refused '3: heart-beat: already given in line 2'
	printf '[coordinate]\nheartbeat = 1s\n' >conf
	refused '2: heartbeat: no section [coordinate]; must be [coordinator] or [device NAME]'
	printf 'heartbeat\n' >conf
	refused '1: neither name = value nor [section]'
	run bounded gpucoord -c nowhere
	assert_status 1
	assert_output 'gpucoord: nowhere: No such file or directory'
}
