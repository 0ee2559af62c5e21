#!/usr/bin/env bats
# Where daemons listen, who may reach them there, and what they refuse.
load helper

setup() {
	house_setup
	PEM=$ROOT/tests/data/tls
	unset GPUSIM_TLS_CERT GPUSIM_TLS_KEY GPUSIM_TLS_CA
}

# modes FILE... - the permissions of each, in one line
modes() { stat -c %a "$@" | xargs; }

@test "by default in a private directory, that only its owner enters" {
	umask 000
	ready coord gpucoord
	ready dev gpudev -m 16M --mem-scratch "$T/mem"
	assert_equal "$(modes gpusim gpusim/gpucoord.sock gpusim/gpudev-*.sock gpusim/*.data)" '700 600 600 600'
	run bounded gpuctl --coordinator "ipc://$T/gpusim/gpucoord.sock" status
	assert_status 0
	kill "${BACKGROUND[@]}"
	wait_until 10 gone "${BACKGROUND[@]}"
	assert_equal "$(ls gpusim)" ''
}

@test "by default, coordinator, devices and clients find each other there" {
	background gpudev -m 1M --mem-scratch "$T/mem" 2>dev.log
	wait_until 10 grep -q . dev.log
	assert_equal "$(<dev.log)" \
		"gpudev: no coordinator at ipc://$T/gpusim/gpucoord.sock yet: serving alone until one appears"
	ready coord gpucoord
	wait_until 10 grep -q 'the coordinator is available now' dev.log
	run bounded sh -c 'echo 7 | gpuctl allreduce'
	assert_output 7
	ready second gpudev -m 1M --mem-scratch "$T/mem2"
	run bounded sh -c 'seq 2 | gpuctl allreduce'
	assert_output 3
	chmod 755 gpusim
	run bounded gpuctl devices
	assert_status 2
	assert_match "^gpuctl: devices: $T/gpusim: open to others"
}

@test "all started in one line meet as well" {
	background gpucoord
	background gpudev -m 1M --mem-scratch "$T/mem"
	run bounded gpuctl devices
	assert_status 0
}

@test "a device with --coordinator reports that no coordinator is there, and gives up" {
	run bounded gpudev -m 1M --mem-scratch "$T/mem" --coordinator "ipc://$T/none"
	assert_status 3
	assert_equal "${lines[0]}" "gpudev: no coordinator at ipc://$T/none yet: trying for some more seconds"
	assert_match $'\n'"gpudev: coordinator ipc://$T/none: [^"$'\n'']*$'
}

@test "the private directory is refused when it is not private" {
	mkdir -m 750 gpusim
	for daemon in gpucoord gpudev; do
		run bounded "$daemon"
		assert_status 2
		assert_output "$daemon: $T/gpusim: open to others (mode 0750): cannot put sockets there: chmod 700"
	done
	rmdir gpusim
	mkdir -m 700 elsewhere
	ln -s elsewhere gpusim
	run bounded gpudev
	assert_status 2
	assert_output "gpudev: $T/gpusim: not a directory: cannot put sockets there"
	rm gpusim
	echo >gpusim
	run bounded gpucoord
	assert_status 2
	assert_output "gpucoord: $T/gpusim: not a directory: cannot put sockets there"
}

@test "somebody else's private directory is refused" {
	[ "$(id -u)" = 0 ] || skip 'only root can give a directory away'
	mkdir -m 700 gpusim
	chown 12345 gpusim
	run bounded gpucoord
	assert_status 2
	assert_output "gpucoord: $T/gpusim: belongs to user 12345: cannot put sockets there"
}

@test "sockets elsewhere are their owner's too" {
	umask 000
	ready coord gpucoord --listen "ipc://$T/c"
	ready dev gpudev -m 16M --mem-scratch "$T/mem" --listen "ipc://$T/d" --data "ipc://$T/e"
	assert_equal "$(modes c c.lock d d.lock e)" '600 600 600 600 600'
}

# refused ADDR CMD... - in one line that says what to do
refused() {
	run bounded "${@:2}"
	assert_status 2
	assert_match "$1 is reachable from other hosts, unencrypted and unauthenticated; use tls\+tcp://, or allow it with --insecure$"
	((${#lines[@]} == 1))
}

@test "beyond loopback only with TLS, or when asked for" {
	for host in 0.0.0.0 '[::]' 192.0.2.1 example.org '*' 127.0.0.1.example.org localhost.example.org '[::2]'; do
		pattern=tcp://${host//./\\.}:0
		pattern=${pattern//'*'/\\*} pattern=${pattern//'['/\\[} pattern=${pattern//']'/\\]}
		refused "$pattern" gpucoord --listen "tcp://$host:0"
		refused "$pattern" gpudev --coordinator none --listen "tcp://$host:0"
		refused "$pattern" gpudev --coordinator none --listen "ipc://$T/d" --data "tcp://$host:0"
		printf '[coordinator]\nlisten = tcp://%s:0\n' "$host" >conf
		refused "$pattern" gpucoord -c conf
		GPUSIM_COORD=tcp://$host:0 refused "$pattern" gpucoord
	done
}

@test "asked for, it is done" {
	ready coord gpucoord --listen tcp://0.0.0.0:0 --insecure
	ready dev gpudev -m 16M --mem-scratch "$T/mem" --listen tcp://0.0.0.0:0 --insecure
	GPUSIM_TLS_CERT=$PEM/cert.pem GPUSIM_TLS_KEY=$PEM/key.pem GPUSIM_TLS_CA=$PEM/ca.pem \
		ready tls gpucoord --listen tls+tcp://0.0.0.0:0
}

@test "TLS in a configuration file needs its files" {
	printf '[coordinator]\nlisten = tls+tcp://0.0.0.0:0\n' >conf
	run bounded gpucoord -c conf
	assert_status 2
	assert_output 'gpucoord: tls+tcp needs a certificate, its key and an authority: --tls-cert or GPUSIM_TLS_CERT is not set'
}

@test "times, sizes and rates that stand for nothing are refused" {
	for option in heartbeat op-timeout comm-timeout job-timeout; do
		run bounded gpucoord --$option 0
		assert_status 2
		assert_output "gpucoord: --$option: '0': must be 1ms to 24 days"
		printf '[coordinator]\n%s = 0s\n' $option >conf
		run bounded gpucoord -c conf
		assert_status 2
		assert_output "gpucoord: conf:2: $option: '0s': must be 1ms to 24 days"
	done
	run bounded gpudev --mem 0
	assert_status 2
	assert_output "gpudev: --mem: '0': must be at least 1 byte"
	run bounded gpudev --bandwidth 0
	assert_status 2
	assert_output "gpudev: --bandwidth: '0': the rate must not be 0"
}
