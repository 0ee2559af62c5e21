/* Options of mnist-train: flags, files, precedence, and errors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "tap.h"
#include "train/config.h"

#define MAX_WORDS 32

static struct train_config c;
static enum option_ask ask;
static struct err err;

/* Parse words, which end with NULL. */
static enum rc
parse(const char *const *words)
{
	char *argv[MAX_WORDS + 1] = {(char *)"mnist-train"};
	int argc = 1;
	enum rc rc;

	for (; words[argc - 1]; argc++)
		argv[argc] = (char *)words[argc - 1];
	config_fini(&c);
	err = (struct err){0};
	rc = config_parse(argc, argv, &c, &ask, &err);
	return rc;
}

#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})

static enum rc
parse_text(const char *text)
{
	config_fini(&c);
	err = (struct err){0};
	return config_parse_text(text, "f.ini", &c, &err);
}

static void
refused(const char *text, const char *want)
{
	enum rc rc = parse_text(text);

	ok(rc == RC_INVAL && strcmp(err.text, want) == 0, "refused: %s", want);
	if (rc == RC_INVAL && strcmp(err.text, want) != 0)
		printf("# %s\n", err.text);
}

#define REFUSED_FLAGS(want, ...)                                                                  \
	do {                                                                                      \
		enum rc rc_ = PARSE(__VA_ARGS__);                                                 \
		if (!ok(rc_ == RC_INVAL && strcmp(err.text, (want)) == 0, "refused: %s", (want))) \
			printf("# %d %s\n", rc_, err.text);                                       \
	} while (0)

static char paths[8][32];
static unsigned npaths;

static void
remove_files(void)
{
	while (npaths)
		unlink(paths[--npaths]);
}

/* A file with a text, removed at the end of the program. */
static const char *
file(const char *text)
{
	char *p = paths[npaths++];
	FILE *f;
	int fd;

	snprintf(p, sizeof paths[0], "/tmp/t_config.XXXXXX");
	fd = mkstemp(p);
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f) {
		perror(p);
		exit(1);
	}
	fputs(text, f);
	fclose(f);
	return p;
}

static bool
near(double a, double b)
{
	return fabs(a - b) < 1e-12;
}

static void
test_defaults(void)
{
	ok(parse((const char *const[]){NULL}) == RC_OK && ask == OPTION_RUN, "no options");
	ok(c.net.model == NET_MLP && c.net.nsizes == 0 && c.net.act == NET_RELU &&
	       c.net.loss == NET_CROSS_ENTROPY,
	   "an mlp of rectifiers, as wide as usual");
	ok(c.epochs == 5 && c.batch == 64 && c.optimizer == OPTIMIZER_SGD && c.lr == 0.1 &&
	       c.momentum == 0.9 && c.weight_decay == 0 && c.seed == 1,
	   "5 epochs of sgd");
	ok(c.devices == 0 && c.nworkers == 0 && c.sync == SYNC_ALLREDUCE && !c.data && !c.save &&
	       strcmp(c.algo, "auto") == 0 && c.on_failure == GPUSIM_ON_FAILURE_ABORT,
	   "all devices, by all-reduce");
	ok(PARSE("--optimizer", "adam") == RC_OK && c.lr == 0.001 && c.weight_decay == 0,
	   "adam's learning rate");
	ok(PARSE("--optimizer=adamw") == RC_OK && c.lr == 0.001 && c.weight_decay == 0.01,
	   "adamw's weight decay");
	ok(PARSE("--weight-decay=0", "--optimizer=adamw") == RC_OK && c.weight_decay == 0,
	   "adamw without weight decay");
	ok(PARSE("--optimizer", "nesterov") == RC_OK && c.optimizer == OPTIMIZER_NESTEROV &&
	       c.lr == 0.1 && c.momentum == 0.9,
	   "nesterov's learning rate");
	ok(PARSE("--optimizer", "momentum") == RC_OK && c.optimizer == OPTIMIZER_SGD,
	   "momentum is sgd");
	setenv("GPUSIM_ON_FAILURE", "shrink", 1);
	ok(parse((const char *const[]){NULL}) == RC_OK && c.on_failure == GPUSIM_ON_FAILURE_SHRINK,
	   "GPUSIM_ON_FAILURE");
	ok(PARSE("--wait", "1.5s") == RC_OK && c.wait_ms == 1500, "a time");
	ok(PARSE("--on-failure", "respawn") == RC_OK && c.on_failure == GPUSIM_ON_FAILURE_RESPAWN,
	   "a flag wins over GPUSIM_ON_FAILURE");
	setenv("GPUSIM_ON_FAILURE", "x", 1);
	ok(PARSE("--epochs", "1") == RC_INVAL && strstr(err.text, "GPUSIM_ON_FAILURE: "),
	   "GPUSIM_ON_FAILURE is checked");
	unsetenv("GPUSIM_ON_FAILURE");
}

/* Words of a table, or names from another room, in upper or lower case. */
static void
test_words(void)
{
	static const char *const formats[] = {"auto", "idx", "csv", "cifar10", "npz", "folder"};
	static const char *const scales[] = {"unit", "standard", "RAW"};
	static const char *const moves[] = {"none", "crop", "flip", "crop,flip"};
	bool good = true;

	for (int i = 0; i < 6; i++)
		good = good && PARSE("--format", formats[i]) == RC_OK &&
		       c.dataset.format == (enum dataset_format)i;
	for (int i = 0; i < 3; i++)
		good = good && PARSE("--normalize", scales[i]) == RC_OK &&
		       c.dataset.normalize == (enum dataset_normalize)i;
	for (uint32_t i = 0; i < 4; i++)
		good = good && PARSE("--augment", moves[i]) == RC_OK && c.augment == i;
	ok(good, "formats, scales and moves by their names");
	ok(PARSE("--augment", "flip,crop") == RC_OK && c.augment == 3 &&
	       PARSE("--channels", "Grey") == RC_OK && c.dataset.channels == 1 &&
	       PARSE("--loss", "mse") == RC_OK && c.net.loss == NET_L2,
	   "and by others");
	REFUSED_FLAGS("--format: 'hdf5': must be one of auto, idx, csv, cifar10, npz, folder",
		      "--format", "hdf5");
	REFUSED_FLAGS("--augment: 'crop,': must be one of none, crop, flip, crop,flip", "--augment",
		      "crop,");
	REFUSED_FLAGS("--channels: '2': must be one of 1, 3", "--channels", "2");
}

static void
test_flags(void)
{
	ok(PARSE("-h") == RC_OK && ask == OPTION_HELP, "-h");
	ok(PARSE("--version", "--epochs", "x") == RC_OK && ask == OPTION_VERSION, "--version");
	ok(PARSE("--print-config") == RC_OK && ask == OPTION_PRINT, "--print-config");
	ok(PARSE("--batch", "32", "--batch", "16") == RC_OK && c.batch == 16,
	   "the last of two flags counts");
	ok(PARSE("--layers", "4,30,20,3") == RC_OK && c.net.nsizes == 4 && c.net.size[3] == 3,
	   "--layers");
	ok(PARSE("--split", "0.7,0.1,0.2", "--image-size", "24x32", "--channels", "1") == RC_OK &&
	       c.dataset.validation == 0.1 && c.dataset.rows == 24 && c.dataset.cols == 32 &&
	       c.dataset.channels == 1,
	   "of the data set");
	ok(PARSE("--split", "0.8,0.2") == RC_OK && c.dataset.train == 0.8 &&
	       c.dataset.test == 0.2 && c.dataset.validation == 0,
	   "--split without validation");
	ok(PARSE("--seed", "18446744073709551615") == RC_OK && c.seed == UINT64_MAX &&
	       c.dataset.seed == UINT64_MAX,
	   "the split's seed is the seed");
	ok(PARSE("--sync", "ps", "--staleness", "async", "--ps-aggregate", "3") == RC_OK &&
	       c.staleness == STALENESS_ASYNC && c.ps_aggregate == 3,
	   "of a parameter server");
	ok(PARSE("--bucket-bytes", "1M", "--train-items", "100", "--test-items", "9") == RC_OK &&
	       c.bucket_bytes == 1048576 && c.dataset.train_items == 100 &&
	       c.dataset.test_items == 9,
	   "sizes");
	REFUSED_FLAGS("--lr: 'x' is not a number", "--lr", "x");
	REFUSED_FLAGS("--batch: 0 is out of range (1 to 1048576)", "--batch", "0");
	REFUSED_FLAGS("unknown option '--learn-rate'; -h lists them", "--learn-rate", "1");
	REFUSED_FLAGS("unknown option '--trainfraction=1'; -h lists them", "--trainfraction=1");
	REFUSED_FLAGS("unexpected argument 'mnist'", "mnist");
	REFUSED_FLAGS("--print-config=true: the option takes no value", "--print-config=true");
	REFUSED_FLAGS("--activation: 'step': must be one of linear, relu, sigmoid, tanh, gelu",
		      "--activation", "step");
	REFUSED_FLAGS("--sync: 'mpi': must be one of allreduce, sendrecv, ps, local", "--sync",
		      "mpi");
	REFUSED_FLAGS("--workers: '' is not a whole number", "--workers", "4,,3", "--compare",
		      "ps");
	ok(PARSE("--layers", "4") == RC_INVAL && PARSE("--layers", "4,0,3") == RC_INVAL &&
	       PARSE("--split", "0.8,0.3") == RC_INVAL && PARSE("--split", "0.8") == RC_INVAL,
	   "layers and splits that are none");
	REFUSED_FLAGS("--image-size: '32x' is not a size such as 32 or 32x48, at most 1024",
		      "--image-size", "32x");
	REFUSED_FLAGS("--resume: 'maybe' is neither true nor false", "--resume=maybe");
	REFUSED_FLAGS("--save: '' is not a FILE", "--save", "");
}

static void
test_fit(void)
{
	ok(PARSE("--workers", "3", "--sync", "ps") == RC_OK && c.devices == 4,
	   "3 workers of a parameter server are 4 devices");
	ok(PARSE("--workers", "3", "--sync", "local") == RC_OK && c.devices == 3,
	   "3 workers with local are 3");
	ok(PARSE("--workers", "3", "--devices", "4", "--sync", "sendrecv") == RC_OK,
	   "both, agreed");
	ok(PARSE("--compare", "allreduce,ps", "--workers", "1,2,4", "--staleness", "2") == RC_OK &&
	       c.nworkers == 3 && c.workers[2] == 4 && c.devices == 0,
	   "several workers to compare");
	REFUSED_FLAGS("--devices: 3 devices are given, but --workers 3 needs 4", "--devices", "3",
		      "--workers", "3", "--sync", "ps");
	REFUSED_FLAGS("--workers: several numbers need --compare", "--workers", "1,2");
	REFUSED_FLAGS("--devices: use --workers with --compare", "--devices", "2", "--compare",
		      "ps");
	REFUSED_FLAGS("--devices: needs 2: one device holds the weights, one trains", "--devices",
		      "1", "--sync", "ps");
	REFUSED_FLAGS("--staleness: needs --sync ps", "--staleness", "1");
	REFUSED_FLAGS("--feed: needs --sync ps", "--feed", "data");
	ok(PARSE("--learn", "ipc:///x", "--feed", "data") == RC_OK && c.feed == FEED_DATA,
	   "a learner that has no files");
	config_fini(&c);
	REFUSED_FLAGS("--ps-aggregate: needs --sync ps", "--ps-aggregate", "1", "--sync", "local");
	REFUSED_FLAGS("--local-steps: needs --sync local", "--local-steps", "4");
	REFUSED_FLAGS("--lr-step: needs --lr-schedule step", "--lr-step", "4", "--lr-schedule",
		      "cosine");
	REFUSED_FLAGS("--layers: needs --model mlp", "--layers", "4,3", "--model", "lenet");
	REFUSED_FLAGS("--activation: needs --model mlp", "--activation", "tanh", "--model",
		      "softmax");
	REFUSED_FLAGS("--resume: needs --checkpoint DIR", "--resume");
	REFUSED_FLAGS("--checkpoint-every: needs --checkpoint DIR", "--checkpoint-every", "3");
	REFUSED_FLAGS("--momentum: this optimizer needs a momentum above 0", "--momentum", "0",
		      "--optimizer", "momentum");
	REFUSED_FLAGS("--momentum: this optimizer needs a momentum above 0", "--momentum", "0",
		      "--optimizer", "nesterov");
	REFUSED_FLAGS("--eval: needs --load FILE", "--eval");
	REFUSED_FLAGS("--infer: cannot be used with --eval", "--infer", "--eval", "--load", "x");
	REFUSED_FLAGS("--eval: cannot be used with --compare", "--eval", "--load", "x", "--compare",
		      "ps");
	REFUSED_FLAGS("--out: needs --compare", "--out", "x");
	REFUSED_FLAGS("--backend: needs training with --sync allreduce", "--backend", "mpi",
		      "--sync", "ps");
}

static void
test_text(void)
{
	ok(parse_text("") == RC_OK && c.epochs == 5, "an empty file");
	ok(parse_text("[data]\ndata = d/e f # where\n; no = 1\n# nor this\n\n[ any section ]\r\n"
		      "  lr=0.5\r\n\tepochs : 7 ; so many\nresume = true\ncheckpoint = ck\n") ==
		   RC_OK &&
	       strcmp(c.data, "d/e f") == 0 && c.lr == 0.5 && c.epochs == 7 && c.resume &&
	       strcmp(c.checkpoint, "ck") == 0,
	   "sections, comments, blanks, CR LF");
	ok(parse_text("learningRate=0.01\nbatchSize=4\nnumEpochs=100\nweightDecay=0.001\n"
		      "inputLayerNeurons=30\nhiddenLayerNeurons=20\noutputLayerNeurons=3\n"
		      "activationFunction=Sigmoid\nlossFunction=MSE\nmomentum=0\nseed=9\n"
		      "numWorkers=3\ntrainFraction=0.7\nvalidationFraction=0.1\n") == RC_OK,
	   "keys of other systems");
	ok(c.lr == 0.01 && c.batch == 4 && c.epochs == 100 && c.weight_decay == 0.001 &&
	       c.net.act == NET_SIGMOID && c.net.loss == NET_L2 && c.momentum == 0 && c.seed == 9 &&
	       c.workers[0] == 3 && c.devices == 3,
	   "... with their values");
	ok(c.net.nsizes == 4 && c.net.size[0] == 0 && c.net.size[1] == 30 && c.net.size[2] == 20 &&
	       c.net.size[3] == 3,
	   "... and neurons as layers");
	ok(c.dataset.train == 0.7 && c.dataset.validation == 0.1 && near(c.dataset.test, 0.2),
	   "... and the rest of the fractions");
	ok(parse_text("testFraction=0.25") == RC_OK && c.dataset.train == 0.75 &&
	       c.dataset.test == 0.25,
	   "a test fraction alone");
	ok(parse_text("hidden_layer_neurons = 20,10") == RC_OK && c.net.nsizes == 4 &&
	       c.net.size[3] == 0 && c.net.size[2] == 10,
	   "hidden layers alone");
	refused("lr = 0.1\nlr = 0.2\n", "f.ini:2: lr: already given in line 1");
	refused("lr = 0.1\n\nlearning-rate = 0.2\n",
		"f.ini:3: learning-rate: already given in line 1");
	refused("= 1\n", "f.ini:1: neither name = value nor [section]");
	refused("epochs = many\n", "f.ini:1: epochs: 'many' is not a whole number");
	refused("epochs = \n", "f.ini:1: epochs: '' is not a whole number");
	refused("# x\nepochs\n", "f.ini:2: neither name = value nor [section]");
	refused("epochs\nlr = x\n", "f.ini:1: neither name = value nor [section]");
	refused("[epochs\n", "f.ini:1: neither name = value nor [section]");
	refused("epochs = 1\n\x1b[2J = 3\n", "f.ini:2: not text");
	refused("eval = yes\n", "f.ini:1: eval: 'yes' is neither true nor false");
	refused("config = x\n", "f.ini:1: config: not allowed in a file");
	refused("print-config = true\n", "f.ini:1: print-config: not allowed in a file");
	refused("\nstaleness = 1\n", "f.ini:2: staleness: needs --sync ps");
	refused("hiddenLayerNeurons=3\nlayers=4,3\n",
		"f.ini:1: layers and their neurons are both given");
	refused("outputLayerNeurons=3\n", "f.ini:1: outputLayerNeurons needs the layers before it");
	refused("trainFraction=0.5\nsplit=0.5,0.5\n",
		"f.ini:1: split and its fractions are both given");
	refused("trainFraction=0.5\nvalidationFraction=0.6\n",
		"f.ini:1: the fractions sum to more than 1");
}

/* A name that is not an option: ignored with a message, or rejected. */
static void
unknown(const char *line, const char *want)
{
	char text[128];

	ok(parse_text(line) == RC_OK && c.unknown && strcmp(c.unknown, want) == 0, "noted: %s",
	   want);
	snprintf(text, sizeof text, "strict = true\n%s", line);
	ok(parse_text(text) == RC_INVAL && strlen(err.text) == strlen(want) - 1 &&
	       strncmp(err.text, "f.ini:2:", 8) == 0 &&
	       strncmp(err.text + 8, want + 8, strlen(want) - 9) == 0,
	   "... or refused");
}

static void
test_unknown(void)
{
	unknown("lrr = 1\n", "f.ini:1: no option 'lrr'; did you mean 'lr'?\n");
	unknown("epoch = 1\n", "f.ini:1: no option 'epoch'; did you mean 'epochs'?\n");
	unknown("LEARNING_RAET = 1\n",
		"f.ini:1: no option 'LEARNING_RAET'; did you mean 'learningRate'?\n");
	unknown("hiddenLayerNeuron = 1\n",
		"f.ini:1: no option 'hiddenLayerNeuron'; did you mean 'hiddenLayerNeurons'?\n");
	unknown("weigth-decay = 1\n",
		"f.ini:1: no option 'weigth-decay'; did you mean 'weight-decay'?\n");
	unknown("DB_PASSWORD = secret\n",
		"f.ini:1: no option 'DB_PASSWORD'; mnist-train -h lists them\n");
	unknown("a\xff b = 1\n", "f.ini:1: no option 'a??b'; mnist-train -h lists them\n");
	ok(parse_text("[a]\nepoch = 3\nlr = 0.3\nbatchSise = 1\n") == RC_OK && c.lr == 0.3 &&
	       c.epochs == 5 && c.batch == 64 &&
	       strcmp(c.unknown,
		      "f.ini:2: no option 'epoch'; did you mean 'epochs'?\n"
		      "f.ini:4: no option 'batchSise'; did you mean 'batchSize'?\n") == 0,
	   "each is told, and the rest counts");
	ok(PARSE("--config", file("epoch = 3\n"), "--strict=false") == RC_OK && c.unknown,
	   "not strict");
	ok(PARSE("--strict", "--config", file("epoch = 3\n")) == RC_INVAL &&
	       strstr(err.text, ":1: no option 'epoch'; did you mean 'epochs'?"),
	   "--strict, wherever it stands");
	ok(PARSE("--config", file("epochs = 3\n"), "--strict") == RC_OK && !c.unknown,
	   "nothing is unknown");
}

/* Files in the style of dotenv. */
static void
test_env(void)
{
	ok(parse_text("\xef\xbb\xbf# Go MPI\nexport inputdataDims=784\n"
		      "export\tinputLayerNeurons=64\nHIDDENLAYERNEURONS=\"32\" # of the middle\n"
		      "outputLayerNeurons='10'\nlabelOnehotDims=10\nnumEpochs=7\r\n"
		      "learningRate: 0.01\nbatchSize=4\n") == RC_OK &&
	       !c.unknown,
	   "the Go MPI project's");
	ok(c.net.nsizes == 4 && c.net.size[0] == 0 && c.net.size[1] == 64 && c.net.size[2] == 32 &&
	       c.net.size[3] == 10 && c.epochs == 7 && c.lr == 0.01 && c.batch == 4,
	   "... with their values");
	ok(c.input_dims.n == 1 && c.input_dims.dim[0] == 784 && c.label_dims.dim[0] == 10 &&
	       strcmp(c.label_dims.from, "f.ini:6: labelOnehotDims") == 0,
	   "... and what the data have");
	ok(parse_text("data='a #b'\nsave=\"c\\\"d;\\\\\\n\\t\\r\\$\"\nload= \"\"x\n") == RC_INVAL &&
	       strcmp(err.text, "f.ini:3: text after a closing quote") == 0,
	   "behind a quote only a comment may stand");
	ok(parse_text("data='a #b'\nsave=\"c\\\"d;\\\\\\n\\t\\r\\$\";x\n") == RC_INVAL,
	   "which a blank separates");
	ok(parse_text("data = 'a #b\\n\"' ; x\nsave=\"c\\\"d' ;\\\\\\n\\t\\r\\$\"\t#x\n") ==
		   RC_OK &&
	       strcmp(c.data, "a #b\\n\"") == 0 && strcmp(c.save, "c\"d' ;\\\n\t\r$") == 0,
	   "quotes and what they hold");
	ok(parse_text("data=it's\nsave=a\"b\"\n") == RC_OK && strcmp(c.data, "it's") == 0 &&
	       strcmp(c.save, "a\"b\"") == 0,
	   "quotes within a value are themselves");
	ok(parse_text("data=a#b\nexport=1\n") == RC_OK && strcmp(c.data, "a#b") == 0 && c.unknown,
	   "a comment begins behind a blank");
	refused("data='a\n'\n", "f.ini:1: a quote is never closed");
	refused("data=\"a\\\n", "f.ini:1: a quote is never closed");
	refused("data=\"a\\\"\n", "f.ini:1: a quote is never closed");
	refused("export epochs\n", "f.ini:1: neither name = value nor [section]");
	refused("export = 1\n", "f.ini:1: neither name = value nor [section]");
	refused("[a] b\n", "f.ini:1: neither name = value nor [section]");
	refused("lr = \"\"\n", "f.ini:1: lr: '' is not a number");
}

static struct net_shape
shape(uint32_t channels, uint32_t rows, uint32_t cols)
{
	return (struct net_shape){channels, rows, cols};
}

/* Whether dims agree with 28x28 grey images in 10 classes, of which 100 train and 20 test. */
static enum rc
check_dims(const char *text)
{
	struct dataset ds = {.train.nitems = 100, .test.nitems = 20};

	return parse_text(text) == RC_OK
		   ? config_check_dims(&c, "DATA", shape(1, 28, 28), 10, &ds, &err)
		   : err.rc;
}

static void
test_dims(void)
{
	static const char *const good[] = {"784",	"28x28",	 "28,28",	  "28, 28",
					   "(784,)",	"[100,784]",	 "(120, 28, 28)", "1x28x28",
					   "( 28 28 )", "(100,28,28,1)", "100x784"};
	static const char *const bad[] = {
	    "785",     "(99, 784)",	   "4",
	    "784,784", "(4294967295,784)", "4294967295,4294967295,4294967295,4294967295"};
	static const char *const none[] = {"",	    "0",      "-784", "(784",	       "784)",
					   "[784)", "784 px", "x784", "1,1,1,1,1,784", "4294967296",
					   "()",    "7.84"};
	char text[80];
	bool all = true;

	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		snprintf(text, sizeof text, "inputdataDims=%s\n", good[i]);
		if (!ok(check_dims(text) == RC_OK, "%s", good[i]))
			printf("# %s\n", err.text);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		snprintf(text, sizeof text, "inputdataDims=%s\n", bad[i]);
		ok(check_dims(text) == RC_BADDATA, "not %s", bad[i]);
	}
	for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
		snprintf(text, sizeof text, "inputdataDims='%s'\n", none[i]);
		all = all && check_dims(text) == RC_INVAL;
	}
	ok(all, "what is not a shape");
	ok(check_dims("inputdataDims=30x30\n") == RC_BADDATA &&
	       strcmp(err.text, "f.ini:1: inputdataDims: 30x30, but a sample of DATA has 784 "
				"values, 1x28x28 (100 of 120 samples train)") == 0,
	   "the sentence");
	ok(check_dims("\nLABELONEHOTDIMS=3\n") == RC_BADDATA &&
	       strcmp(err.text, "f.ini:2: labelOnehotDims: 3, but DATA has 10 classes "
				"(100 of 120 samples train)") == 0,
	   "... and of labels");
	ok(check_dims("labelOnehotDims=(100,10)\n") == RC_OK &&
	       check_dims("labelOnehotDims=(60000,10)\n") == RC_BADDATA &&
	       check_dims("labelOnehotDims=(60000,10)\ntrain-items=100\n") == RC_OK,
	   "as many samples as there are, or of which some are chosen");
	refused("inputdataDims=many\n",
		"f.ini:1: inputdataDims: 'many' is not a shape such as 784, 28x28 or (60000, 784)");
}

static void
test_lines(void)
{
	char text[OPTION_MAX_LINE + 2];
	size_t n = (size_t)snprintf(text, sizeof text, "data = ");

	memset(text + n, 'x', OPTION_MAX_LINE - n);
	text[OPTION_MAX_LINE] = '\0';
	ok(parse_text(text) == RC_OK && strlen(c.data) == OPTION_MAX_LINE - 7, "a line of %d bytes",
	   OPTION_MAX_LINE);
	strcpy(text + OPTION_MAX_LINE, "x");
	refused(text, "f.ini:1: longer than 4096 bytes");
	memset(text, ' ', sizeof text);
	strcpy(text + 3000, "lr = 3 # and so on");
	ok(parse_text(text) == RC_OK && c.lr == 3, "blanks and comments do not count");
}

/* Flags override files, later files override earlier ones. */
static void
test_order(void)
{
	const char *a = file("lr = 1\nbatch = 2\nsync = ps\nstaleness = 3\ndevices = 4\n");
	const char *b = file("batch = 3\nworkers = 2\nepochs = 9\n");
	const char *bad = file("batch = 2\nepochs = x\n");
	char want[128];

	ok(PARSE("--lr", "5", "--config", a, "--config", b, "--epochs", "8") == RC_OK &&
	       c.lr == 5 && c.batch == 3 && c.epochs == 8 && c.staleness == 3,
	   "flags win over files, the second file over the first");
	ok(c.nworkers == 1 && c.workers[0] == 2 && c.devices == 3,
	   "workers of a later file win over devices");
	ok(PARSE("--config", b, "--config", a) == RC_OK && c.batch == 2 && c.nworkers == 0 &&
	       c.devices == 4,
	   "the other way round");
	ok(PARSE("--config", a, "--sync", "allreduce") == RC_OK && c.sync == SYNC_ALLREDUCE,
	   "what a flag leaves without sense is left out");
	ok(PARSE("--config", file("resume = true\ncheckpoint = x\n"), "--resume=false") == RC_OK &&
	       !c.resume,
	   "a flag says false");
	ok(PARSE("--config", file("hiddenLayerNeurons=3\n"), "--layers", "0,4,0") == RC_OK &&
	       c.net.size[1] == 4,
	   "--layers wins over neurons");
	snprintf(want, sizeof want, "%s:2: epochs: 'x' is not a whole number", bad);
	REFUSED_FLAGS(want, "--config", bad);
	ok(PARSE("--config", "/nowhere/x") == RC_FAILED && strstr(err.text, "/nowhere/x: "),
	   "a file that is not there");
	ok(PARSE("--config", "/bin/true") == RC_INVAL &&
	       strcmp(err.text, "/bin/true: not a configuration file") == 0,
	   "a program");
	ok(PARSE("--config", "/dev/zero") == RC_INVAL, "a file without an end");
	ok(PARSE("--config", "/tmp") == RC_FAILED, "a folder");
}

/* The printed configuration gives the same again, and so do the flags. */
static void
round_trip(const char *what)
{
	struct buf first = {0}, again = {0};
	char **args = NULL, *argv[2 * MAX_WORDS + 1] = {(char *)"mnist-train"};
	int argc = 1;
	bool good = config_print(&c, &first, &err) == RC_OK && buf_add(&first, "", 1) &&
		    config_args(&c, NULL, &args, &err) == RC_OK;

	ok(good && parse_text(first.data) == RC_OK && config_print(&c, &again, &err) == RC_OK &&
	       buf_add(&again, "", 1) && strcmp(first.data, again.data) == 0,
	   "%s: printed, read, printed: the same", what);
	for (; good && args[argc - 1] && argc < 2 * MAX_WORDS; argc++)
		argv[argc] = args[argc - 1];
	config_fini(&c);
	again.len = 0;
	ok(good && config_parse(argc, argv, &c, &ask, &err) == RC_OK &&
	       config_print(&c, &again, &err) == RC_OK && buf_add(&again, "", 1) &&
	       strcmp(first.data, again.data) == 0,
	   "%s: the same by flags", what);
	option_args_free(args);
	buf_fini(&first);
	buf_fini(&again);
}

static void
test_round_trip(void)
{
	parse((const char *const[]){NULL});
	round_trip("defaults");
	PARSE("--sync", "ps", "--workers", "3", "--staleness", "async", "--data", "a b;c",
	      "--split", "0.7,0.1,0.2", "--lr", "0.30000000000000004", "--optimizer", "adamw",
	      "--lr-schedule", "step", "--lr-gamma", "0.333", "--checkpoint", "ck", "--resume",
	      "--image-size", "24", "--channels", "rgb", "--layers", "0,5,0");
	ok(c.lr == 0.30000000000000004, "all digits count");
	round_trip("many");
	PARSE("--data", " it's \\ a\" #path", "--save", "a ;b", "--load", "'", "--test-items", "7");
	round_trip("what takes quotes");
	PARSE("--compare", "allreduce,ps", "--workers", "1,2", "--out", "x", "--staleness", "2",
	      "--model", "resnet9", "--loss", "l2", "--lr-schedule", "one-cycle");
	round_trip("a comparison");
	PARSE("--eval", "--load", "m.npz", "--model", "lenet", "--devices", "4");
	round_trip("a test");
	ok(c.eval && c.devices == 4, "... of a model");
}

static void
test_print(void)
{
	static const char *const bad[] = {"a\nb", "\x7f", "a\tb"};
	const char *const except[] = {"lr", "epochs", NULL};
	struct buf out = {0};
	char **args = NULL, longer[OPTION_MAX_LINE + 1];
	bool good = true;

	memset(longer, 'x', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		good = good && PARSE("--data", bad[i]) == RC_OK &&
		       config_print(&c, &out, &err) == RC_INVAL;
	ok(good, "paths that no line can hold are not printed");
	ok(PARSE("--data", longer) == RC_OK && config_print(&c, &out, &err) == RC_INVAL,
	   "nor are those that are too long");
	ok(config_args(&c, except, &args, &err) == RC_OK, "flags can hold them");
	for (char **a = args; a && *a; a++)
		good = good && strncmp(*a, "--lr=", 5) != 0 && strncmp(*a, "--epochs=", 9) != 0;
	ok(good, "without those that are left out");
	option_args_free(args);
	buf_fini(&out);
}

int
main(void)
{
	atexit(remove_files);
	unsetenv("GPUSIM_ON_FAILURE");
	test_defaults();
	test_words();
	test_flags();
	test_fit();
	test_text();
	test_unknown();
	test_env();
	test_dims();
	test_lines();
	test_order();
	test_round_trip();
	test_print();
	config_fini(&c);
	return tap_done();
}
