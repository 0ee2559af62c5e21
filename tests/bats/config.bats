# Configuration files of mnist-train.
load helper

setup() {
	house_setup
	DATA=$ROOT/tests/data
	unset GPUSIM_ON_FAILURE GPUSIM_DATA
}

# refused SENTENCE ARG... - exit 2, and this one line
refused() {
	run bounded mnist-train "${@:2}"
	assert_status 2
	assert_output "mnist-train: $1"
}

@test "config: the printed configuration gives the same configuration" {
	mnist-train --sync ps --workers 3 --staleness async --data "$DATA" --split 0.7,0.1,0.2 \
		--optimizer nesterov --lr 0.3 --epochs 7 --print-config >first.ini
	grep -qx 'staleness = async' first.ini
	mnist-train --config first.ini --print-config >again.ini
	cmp first.ini again.ini
	mnist-train --config first.ini --lr 0.4 --print-config >other.ini
	assert_equal "$(diff first.ini other.ini | grep '^[<>]')" $'< lr = 0.3\n> lr = 0.4'
}

@test "config: every example configuration is valid" {
	for config in "$ROOT"/examples/config/*.ini; do
		mnist-train --config "$config" --print-config >out
		grep -q '^epochs = ' out
	done
	for n in 1 2 3 4 5; do
		mnist-train --config "$ROOT/examples/config/ps.ini" --workers $n --print-config >out
		grep -qx "workers = $n" out
	done
	mnist-train --config "$ROOT/examples/config/iris.ini" --print-config >out
	grep -qx 'layers = 0,30,20,3' out
	grep -qx 'split = 0.7,0,0.3' out
}

@test "config: training from a file learns what it learns from flags" {
	cat >my.ini <<-END
		[training]
		dataset = $DATA
		learningRate = 0.05
		batchSize = 16   ; of a device
		numEpochs = 3
		hiddenLayerNeurons = 32
	END
	bounded mnist-train --data "$DATA" --lr 0.05 --batch 16 --epochs 2 --layers 784,32,10 \
		--devices 2 --save flags.npz >/dev/null
	bounded mnist-train --epochs 2 --config my.ini --devices 2 --save file.npz >out
	assert_equal "$(grep -c ^epoch out)" 2
	cmp flags.npz file.npz
	# A file that can be read but once.
	bounded mnist-train --config <(cat my.ini) --epochs 2 --devices 2 --save pipe.npz >/dev/null
	cmp flags.npz pipe.npz
}

@test "config: errors are reported with file and line" {
	printf 'lr = 0.1\n\nepoch = 3\n' >my.ini
	refused "my.ini:3: no option 'epoch'; did you mean 'epochs'?" --config my.ini --strict
	printf '[a]\nlr = 0.1\n[b]\nlearningRate = 0.1\n' >my.ini
	refused 'my.ini:4: learningRate: already given in line 2' --config my.ini --lr 3
	printf 'epochs = 3.5\n' >my.ini
	refused "my.ini:1: epochs: '3.5' is not a whole number" --config my.ini
	printf 'epochs 3\n' >my.ini
	refused 'my.ini:1: neither name = value nor [section]' --config my.ini
	printf 'sync = local\nstaleness = 3\n' >my.ini
	refused 'my.ini:2: staleness: needs --sync ps' --config my.ini
	printf 'data = %05000d\n' 1 >my.ini
	refused 'my.ini:1: longer than 4096 bytes' --config my.ini
	printf 'data = a\a\n' >my.ini
	refused 'my.ini:1: not text' --config my.ini
	refused "$BUILD/bin/mnist-train: not a configuration file" --config "$BUILD/bin/mnist-train"
	refused '/dev/zero: not a configuration file' --config /dev/zero
	yes 'lr = 1' | head -c 5000000 >my.ini
	refused 'my.ini: not a configuration file: more than 4096 KiB' --config my.ini
	run bounded mnist-train --config nowhere.ini
	assert_status 1
	assert_output 'mnist-train: nowhere.ini: No such file or directory'
}

@test "config: options that do not go together" {
	refused '--devices: 3 devices are given, but --workers 3 needs 4' --devices 3 --workers 3 --sync sendrecv
	refused '--workers: several numbers need --compare' --workers 1,2
	refused '--local-steps: needs --sync local' --local-steps 3
	refused '--eval: needs --load FILE' --eval
	refused '--momentum: this optimizer needs a momentum above 0' --optimizer momentum --momentum 0
	run bounded mnist-train --data $'a\eb' --print-config
	assert_status 2
	assert_output "mnist-train: data: a line of a file cannot hold '"$'a\eb'"'"
	run bounded sh -c 'mnist-train --print-config >/dev/full'
	assert_status 1
}

@test "config: an .env file of a Go MPI program, as it is" {
	cat >go.env <<-'END'
		# of goai
		export inputdataDims=784
		INPUTLAYERNEURONS=24
		hiddenLayerNeurons="16"   # one layer
		outputLayerNeurons='10'
		labelOnehotDims=10
		numEpochs=1
		learningRate=0.05
		batchSize=16
		learningRat=7
		APP_SECRET=xyzzy
	END
	bounded mnist-train --config go.env --data "$DATA" --devices 2 --train-items 128 --test-items 8 \
		--save env.npz >out 2>err
	grep -q '^128 training and 8 test images' out
	assert_equal "$(cat err)" "mnist-train: ignored: go.env:10: no option 'learningRat'; did you mean 'learningRate'?
mnist-train: ignored: go.env:11: no option 'APP_SECRET'; mnist-train -h lists them"
	bounded mnist-train --layers 0,24,16,10 --epochs 1 --lr 0.05 --batch 16 --data "$DATA" --devices 2 \
		--train-items 128 --test-items 8 --save flags.npz >/dev/null
	cmp env.npz flags.npz
	refused "go.env:10: no option 'learningRat'; did you mean 'learningRate'?" --config go.env --strict

	sed -i '/learningRat=/d; /APP_/d; s/=784/=28x30/' go.env
	run bounded mnist-train --config go.env --strict --data "$DATA"
	assert_status 5
	assert_output "mnist-train: go.env:2: inputdataDims: 28x30, but a sample of $DATA has 784 values, 1x28x28 (512 of 768 samples train)"
	sed -i 's/=28x30/=(512,784)/; s/labelOnehotDims=10/labelOnehotDims=3/' go.env
	run bounded mnist-train --config go.env --strict --data "$DATA"
	assert_status 5
	assert_output "mnist-train: go.env:6: labelOnehotDims: 3, but $DATA has 10 classes (512 of 768 samples train)"
}
