# verbs.bash - gpuctl's verbs with --json, from gpuctl's own table; loaded after helper.
# shellcheck shell=bash

# json_lines - what to run of every verb that takes --json, a line each, in a cluster of six devices whose communicator 1
# has three and that takes faults. A new verb runs without arguments; one that needs some has its line here.
json_lines() {
	local verb line
	gpuctl completion | cut -f 1 | while read -r verb; do
		gpuctl completion -- "$verb" - | cut -f 1 | grep -qx -e --json || continue
		case $verb in
		comm-init) echo 'comm-init -n 1' ;;
		comm-status | stragglers) echo "$verb 1" ;;
		comm-shrink) echo 'comm-shrink 1 2' ;;
		comm-grow) echo 'comm-grow 1 -n 1' ;;
		comm-split) echo 'comm-split 1 0,1,1' ;;
		launch) echo 'launch --list' ;;
		malloc) echo 'malloc --device 0 16' ;;
		checksum) echo 'checksum --comm 1 --addr 0x10000,0x10000,0x10000 --count 1' ;;
		begin-send) echo 'begin-send --comm 1 --rank 0 --peer 1 --addr 0x10000 --bytes 8' ;;
		stream-status) echo 'stream-status --device 0 --stream 0' ;;
		inject | algo) echo "$verb list" ;;
		run) ;; # findings of --memcheck, which only a program of CUDA's has: gpusim-cuda(7) has their keys
		replay) echo 'replay tape' ;;
		plan) for line in 'allreduce -n 2' 'allreduce -n 2 --simulate' --list; do echo "plan $line"; done ;;
		simulate) for line in 'allreduce -c h100-ib400 -n 16 -b 1K -e 1K' 'allreduce -n 2 --latency 1ms' \
			'step -c a100-hdr --layers 4 --hidden 1024 --heads 16 --batch 8 --parallel dp=8'; do echo "simulate $line"; done ;;
		synth) echo 'synth allreduce -n 2 --tries 1 -o found' ;;
		pipeline) echo 'pipeline check 1f1b -p 2 -m 2' ;;
		bench) echo 'bench -n 1 -b 8 -e 8 --iters 1' ;;
		tune) echo 'tune allreduce -n 1 -e 256 --iters 1' ;;
		chaos) echo 'chaos -n 2 --ops 2' ;;
		*) echo "$verb" ;;
		esac
	done
}

# json_of_verbs - run each of them with --json, in files json.N; what was run is in the file `lines`
json_of_verbs() {
	bounded gpuctl run -n 2 --record tape -- gpuctl barrier >/dev/null
	json_lines >lines
	# shellcheck disable=SC2016
	bounded gpuctl run -n 6 --allow-inject -- bash -c 'gpuctl comm-init -n 3 >/dev/null; n=0
		for device in 0 1 2; do gpuctl malloc --device $device 64 >/dev/null; done
		while read -r line; do
			n=$((n + 1))
			gpuctl $line --json >json.$n 2>err </dev/null ||
				{ echo "gpuctl $line --json: exit status $?: $(cat err)"; exit 1; }
		done <lines'
}
