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
	export XDG_RUNTIME_DIR=$T
	ready coord gpucoord
	ready dev gpudev -m 16M --mem-scratch "$T/mem"
	assert_equal "$(modes gpusim gpusim/gpucoord.sock gpusim/gpudev-*.sock gpusim/*.data)" '700 600 600 600'
	run bounded gpuctl --coordinator "ipc://$T/gpusim/gpucoord.sock" status
	assert_status 0
	kill "${BACKGROUND[@]}"
	wait_until 10 gone "${BACKGROUND[@]}"
	assert_equal "$(ls gpusim)" ''
}

@test "the private directory is refused when it is not private" {
	export XDG_RUNTIME_DIR=$T
	mkdir -m 750 gpusim
	for daemon in gpucoord gpudev; do
		run bounded "$daemon"
		assert_status 2
		assert_output "$daemon: $T/gpusim: open to others (mode 0750), so no place for sockets: chmod 700"
	done
	rmdir gpusim
	mkdir -m 700 elsewhere
	ln -s elsewhere gpusim
	run bounded gpudev
	assert_status 2
	assert_output "gpudev: $T/gpusim: not a directory, so no place for sockets"
	rm gpusim
	echo >gpusim
	run bounded gpucoord
	assert_status 2
	assert_output "gpucoord: $T/gpusim: not a directory, so no place for sockets"
}

@test "somebody else's private directory is refused" {
	[ "$(id -u)" = 0 ] || skip 'only root can give a directory away'
	export XDG_RUNTIME_DIR=$T
	mkdir -m 700 gpusim
	chown 12345 gpusim
	run bounded gpucoord
	assert_status 2
	assert_output "gpucoord: $T/gpusim: belongs to user 12345, so no place for sockets"
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
	assert_match "$1 can be reached from other hosts, unencrypted and unchecked; --insecure allows that, tls\+tcp:// is better$"
	((${#lines[@]} == 1))
}

@test "beyond loopback only with TLS, or when asked for" {
	for host in 0.0.0.0 '[::]' 192.0.2.1 example.org '*' 127.0.0.1.example.org localhost.example.org '[::2]'; do
		pattern=tcp://${host//./\\.}:0
		pattern=${pattern//'*'/\\*} pattern=${pattern//'['/\\[} pattern=${pattern//']'/\\]}
		refused "$pattern" gpucoord --listen "tcp://$host:0"
		refused "$pattern" gpudev --listen "tcp://$host:0"
		refused "$pattern" gpudev --listen "ipc://$T/d" --data "tcp://$host:0"
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

@test "TLS in a configuration file wants its files" {
	printf '[coordinator]\nlisten = tls+tcp://0.0.0.0:0\n' >conf
	run bounded gpucoord -c conf
	assert_status 2
	assert_output 'gpucoord: tls+tcp wants a certificate, its key and an authority: --tls-cert or GPUSIM_TLS_CERT is not set'
}
