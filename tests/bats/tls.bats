#!/usr/bin/env bats
# A coordinator, devices and clients on tls+tcp, and who is not let in.
load helper

setup() {
	house_setup
	export GPUSIM_P2P_DISABLE=1 # frames, not memory
	unset GPUSIM_TLS_CERT GPUSIM_TLS_KEY GPUSIM_TLS_CA
	PEM=$ROOT/tests/data/tls
}

# files [PREFIX] - the options that name the files; and `us` or `others`, the same by environment
files() { echo "--tls-cert $PEM/$1cert.pem --tls-key $PEM/$1key.pem --tls-ca $PEM/$1ca.pem"; }
us() {
	GPUSIM_TLS_CERT=$PEM/cert.pem GPUSIM_TLS_KEY=$PEM/key.pem GPUSIM_TLS_CA=$PEM/ca.pem "$@"
}
others() {
	GPUSIM_TLS_CERT=$PEM/other-cert.pem GPUSIM_TLS_KEY=$PEM/other-key.pem \
		GPUSIM_TLS_CA=$PEM/other-ca.pem "$@"
}

# cluster - a coordinator (with options) and two devices (one with options, one by environment)
cluster() {
	# shellcheck disable=SC2046
	ready coord gpucoord -v --listen tls+tcp://127.0.0.1:0 $(files)
	COORD_PID=$PID
	GPUSIM_COORD=$(grep -o 'tls+tcp://[0-9.:]*' coord.log | head -n 1)
	export GPUSIM_COORD
	# shellcheck disable=SC2046
	ready dev0 gpudev --listen tls+tcp://127.0.0.1:0 --ordinal 0 -m 32M --mem-scratch "$T/mem0" $(files)
	us ready dev1 gpudev --listen tls+tcp://127.0.0.1:0 --ordinal 1 -m 32M --mem-scratch "$T/mem1"
}

@test "requests and frames go over TLS" {
	cluster
	us run bounded gpuctl devices
	assert_status 0
	assert_equal "$(grep -c 'tls+tcp://127.0.0.1:' <<<"$output")" 2
	seq 1 300000 >a
	seq 300000 -1 1 >b
	paste -sd ' ' a >in
	paste -sd ' ' b >>in
	us bounded gpuctl allreduce <in | tr ' ' '\n' | uniq -c >out
	assert_equal "$(awk '{ print $1, $2 }' out)" '300000 300001'
	us run bounded gpuctl topo
	assert_status 0
	assert_match 'dev1 +NET +X'
}

@test "what a client has from another authority, or not at all, is one line" {
	cluster
	others run bounded gpuctl devices
	assert_status 3
	assert_match '^gpuctl: devices: coordinator: tls\+tcp://[0-9.:]*: no answer from there \(.*\)$'
	run bounded gpuctl devices
	assert_status 2
	assert_output 'gpuctl: devices: coordinator: tls+tcp needs a certificate, its key and an authority: --tls-cert or GPUSIM_TLS_CERT is not set'
	GPUSIM_TLS_CERT=$PEM/cert.pem GPUSIM_TLS_KEY=$PEM/other-key.pem GPUSIM_TLS_CA=$PEM/ca.pem \
		run bounded gpuctl devices
	assert_status 5
	assert_match "^gpuctl: devices: coordinator: [^ ]*/cert.pem: [^ ]*/other-key.pem is not its key, .*"
	((${#lines[@]} == 1))
	# A stranger who speaks no TLS, to all three.
	GPUSIM_COORD=${GPUSIM_COORD#tls+} run bounded gpuctl devices
	assert_status 3
	kill -0 "${BACKGROUND[@]}"
	[[ $(printf '1 2\n3 4\n' | us bounded gpuctl allreduce) == '4 6' ]]
}

@test "a device from another authority does not get in" {
	cluster
	# shellcheck disable=SC2046
	LIMIT=30 run bounded gpudev --listen "ipc://$T/x" $(files other-)
	assert_status 3
	assert_match '^gpudev: no coordinator at tls\+tcp://[0-9.:]* yet'
	assert_match 'gpudev: coordinator tls\+tcp://[0-9.:]*: no answer from there'
	((${#lines[@]} == 2))
	kill -0 "$COORD_PID"
	[[ $(us bounded gpuctl devices | wc -l) == 3 ]]
}

@test "daemons name the wrong file in one line" {
	run bounded gpudev --listen tls+tcp://127.0.0.1:0 --tls-cert "$PEM/cert.pem"
	assert_status 2
	assert_output 'gpudev: tls+tcp needs a certificate, its key and an authority: --tls-key or GPUSIM_TLS_KEY is not set'
	head -c 100 "$PEM/key.pem" >half
	run bounded gpucoord --listen tls+tcp://127.0.0.1:0 --tls-cert "$PEM/cert.pem" --tls-key half \
		--tls-ca "$PEM/ca.pem"
	assert_status 5
	assert_output "gpucoord: $PEM/cert.pem, half: not a PEM certificate and a PEM key without password"
	others run bounded gpucoord --listen tls+tcp://127.0.0.1:0 --tls-ca "$PEM/nothing"
	assert_status 2
	assert_output "gpucoord: $PEM/nothing: No such file or directory"
}
