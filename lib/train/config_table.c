/*
 * config_table.c - the options: names, values, help. A new one is a row here, a field in config.h and
 * a line in mnist-train(1).
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "train/config_values.h"

/* ---- words */

static const struct config_word channels_words[] = {{"1", 1}, {"grey", 1}, {"gray", 1},
						    {"3", 3}, {"rgb", 3},  {NULL, 0}};
static const struct config_word optimizer_words[] = {
    {"sgd", OPTIMIZER_SGD},   {"momentum", OPTIMIZER_SGD}, {"nesterov", OPTIMIZER_NESTEROV},
    {"adam", OPTIMIZER_ADAM}, {"adamw", OPTIMIZER_ADAMW},  {NULL, 0}};
static const struct config_word schedule_words[] = {
    {"constant", LR_CONSTANT},	 {"step", LR_STEP},	     {"cosine", LR_COSINE},
    {"one-cycle", LR_ONE_CYCLE}, {"onecycle", LR_ONE_CYCLE}, {NULL, 0}};
static const struct config_word sync_words[] = {{"allreduce", SYNC_ALLREDUCE},
						{"sendrecv", SYNC_SENDRECV},
						{"ps", SYNC_PS},
						{"local", SYNC_LOCAL},
						{NULL, 0}};
static const struct config_word feed_words[] = {
    {"index", FEED_INDEX}, {"data", FEED_DATA}, {NULL, 0}};
static const struct config_word backend_words[] = {
    {"gpusim", BACKEND_GPUSIM}, {"mpi", BACKEND_MPI}, {NULL, 0}};

/* ---- when options say something */

static bool
infers(const struct train_config *c)
{
	return c->eval || c->infer;
}

static bool
trains(const struct train_config *c)
{
	return !infers(c);
}

static bool
not_infer(const struct train_config *c)
{
	return !c->infer;
}

/* A model that is asked says itself what it is. */
static bool
has_net(const struct train_config *c)
{
	return !infers(c) || c->net_given;
}

static bool
is_mlp(const struct train_config *c)
{
	return c->net.model == NET_MLP && has_net(c);
}

static bool
is_stepped(const struct train_config *c)
{
	return c->schedule.kind == LR_STEP;
}

static bool
is_local(const struct train_config *c)
{
	return c->sync == SYNC_LOCAL || c->compare;
}

static bool
is_ps(const struct train_config *c)
{
	return c->sync == SYNC_PS || c->compare;
}

static bool
feeds(const struct train_config *c)
{
	return is_ps(c) || c->learn;
}

static bool
has_checkpoint(const struct train_config *c)
{
	return c->checkpoint;
}

static bool
has_compare(const struct train_config *c)
{
	return c->compare;
}

/* ---- the table */

#define AT(field) .at = offsetof(struct train_config, field)
#define U32(field, l, h) \
	.parse = value_parse_u32, .print = value_print_u32, AT(field), .lo = (l), .hi = (h)
#define U64(field, h) .parse = value_parse_u64, .print = value_print_u64, AT(field), .hi = (h)
#define SIZE(field)   .parse = value_parse_size, .print = value_print_u64, AT(field)
#define DOUBLE(field, l, h) \
	.parse = value_parse_double, .print = value_print_double, AT(field), .lo = (l), .hi = (h)
#define STRING(field)  .parse = value_parse_string, .print = value_print_string, AT(field)
#define BOOL(field)    .parse = value_parse_bool, .print = value_print_bool, AT(field)
#define WORD(field, w) .parse = value_parse_word, .print = value_print_word, AT(field), .words = (w)
#define WORD_SET(field, w) \
	.parse = value_parse_word, .print = value_print_word_set, AT(field), .words = (w)
#define ALSO(...)	   ((const char *const[]){__VA_ARGS__, NULL})
#define ONLY(when, on_, t) .applies = (when), .on = (on_), .needs = (t)

const struct config_option config_options[] = {
    {.name = "config",
     .arg = "FILE",
     .help = "take options from FILE, as name = value lines; flags win over it"},
    {.name = "strict",
     .help = "names in files that are no options are an error, not a warning",
     BOOL(strict)},
    {.name = "print-config", .help = "print what is in force, as such a file, and end"},
    {.name = "devices",
     .arg = "N",
     .also = ALSO("numDevices", "nDevices"),
     .help = "train on N devices (default: all of $GPUSIM_COORD; without\n"
	     "GPUSIM_COORD a cluster of N, default 4, is started)",
     .parse = value_parse_u32,
     .print = value_print_devices,
     AT(devices),
     .lo = 1,
     .hi = 1024},
    {.name = "workers",
     .arg = "N[,N...]",
     .also = ALSO("numWorkers", "nWorkers", "numberOfWorkers"),
     .help = "how many of them train; several with --compare",
     .parse = value_parse_workers,
     .print = value_print_workers,
     .lo = 1,
     .hi = 1024},
    {.name = "data",
     .arg = "PATH",
     .also = ALSO("dataset", "dataDir", "dataPath"),
     .help = "the data set: a folder or a file; see gpusim-data(5)",
     STRING(data)},
    {.name = "format",
     .arg = "NAME",
     .also = ALSO("dataFormat"),
     .help = "auto, idx, csv, cifar10, npz or folder (default auto)",
     .parse = value_parse_format,
     .print = value_print_format},
    {.name = "label-column",
     .arg = "NAME",
     .help = "of a CSV file: a name, first or last (default: guessed)",
     STRING(dataset.label_column)},
    {.name = "image-size",
     .arg = "N[xM]",
     .help = "what images of a folder become (default 32x32)",
     .parse = value_parse_image_size,
     .print = value_print_image_size,
     .lo = 1,
     .hi = 1024},
    {.name = "channels",
     .arg = "N",
     .help = "1, grey, or 3, colours (default 3)",
     WORD_SET(dataset.channels, channels_words)},
    {.name = "split",
     .arg = "A,B,C",
     .help = "fractions for training, validation and test (default: as\n"
	     "the files say, else 0.8,0,0.2)",
     .parse = value_parse_split,
     .print = value_print_split},
    {.name = "trainFraction",
     .parse = value_parse_double,
     .print = value_print_nothing,
     AT(dataset.train),
     .lo = 0,
     .hi = 1},
    {.name = "validationFraction",
     .also = ALSO("valFraction"),
     .parse = value_parse_double,
     .print = value_print_nothing,
     AT(dataset.validation),
     .lo = 0,
     .hi = 1},
    {.name = "testFraction",
     .parse = value_parse_double,
     .print = value_print_nothing,
     AT(dataset.test),
     .lo = 0,
     .hi = 1},
    {.name = "normalize",
     .arg = "HOW",
     .also = ALSO("normalise", "normalization", "normalisation"),
     .help = "unit, standard or raw (default unit)",
     .parse = value_parse_normalize,
     .print = value_print_normalize},
    {.name = "train-items",
     .arg = "N",
     .also = ALSO("trainDataLen"),
     .help = "train on so many at most (default 0: all)",
     U32(dataset.train_items, 0, UINT32_MAX)},
    {.name = "test-items",
     .arg = "N",
     .also = ALSO("testDataLen"),
     .help = "test with so many at most (default 0: all)",
     U32(dataset.test_items, 0, UINT32_MAX)},
    {.name = "augment",
     .arg = "HOW",
     .also = ALSO("augmentation", "dataAugmentation"),
     .help = "move training images at random, mirror them, or both: crop,\n"
	     "flip or crop,flip (default none)",
     .parse = value_parse_augment,
     .print = value_print_augment,
     ONLY(trains, "eval", "only in training")},
    {.name = "model",
     .arg = "NAME",
     .help = "mlp, softmax, lenet or resnet9 (default mlp)",
     .parse = value_parse_model,
     .print = value_print_model,
     .applies = has_net},
    {.name = "layers",
     .arg = "A,B,...",
     .also = ALSO("layerSizes"),
     .help = "of an mlp: sizes from input to output; 0: what the data\n"
	     "have (default 0,128,0)",
     .parse = value_parse_layers,
     .print = value_print_layers,
     ONLY(is_mlp, "model", "only with --model mlp")},
    {.name = "inputLayerNeurons",
     .parse = value_parse_input_neurons,
     .print = value_print_nothing,
     .lo = 1,
     .hi = NET_MAX_WIDTH,
     ONLY(is_mlp, "model", "only with --model mlp")},
    {.name = "hiddenLayerNeurons",
     .also = ALSO("hiddenNeurons"),
     .parse = value_parse_hidden,
     .print = value_print_nothing,
     .lo = 1,
     .hi = NET_MAX_WIDTH,
     ONLY(is_mlp, "model", "only with --model mlp")},
    {.name = "outputLayerNeurons",
     .also = ALSO("outputNeurons"),
     .parse = value_parse_output_neurons,
     .print = value_print_nothing,
     .lo = 1,
     .hi = NET_MAX_WIDTH,
     ONLY(is_mlp, "model", "only with --model mlp")},
    {.name = "inputdataDims",
     .also = ALSO("inputDims"),
     .parse = value_parse_dims,
     .print = value_print_dims,
     AT(input_dims)},
    {.name = "labelOnehotDims",
     .also = ALSO("outputDims"),
     .parse = value_parse_dims,
     .print = value_print_dims,
     AT(label_dims)},
    {.name = "activation",
     .arg = "NAME",
     .also = ALSO("activationFunction"),
     .help = "of an mlp: relu, sigmoid, tanh or linear (default relu)",
     .parse = value_parse_activation,
     .print = value_print_activation,
     ONLY(is_mlp, "model", "only with --model mlp")},
    {.name = "layer-norm",
     .also = ALSO("layerNormalization", "layerNormalisation"),
     .help = "of an mlp: normalise each hidden layer's outputs, before the\n"
	     "activation",
     BOOL(net.layer_norm),
     ONLY(is_mlp, "model", "only with --model mlp")},
    {.name = "loss",
     .arg = "NAME",
     .also = ALSO("lossFunction"),
     .help = "cross-entropy or l2 (default cross-entropy)",
     .parse = value_parse_loss,
     .print = value_print_loss,
     .applies = has_net},
    {.name = "epochs",
     .arg = "N",
     .also = ALSO("numEpochs", "nEpochs", "numberOfEpochs", "maxEpochs"),
     .help = "(default 5)",
     U32(epochs, 0, 1000000)},
    {.name = "batch",
     .arg = "N",
     .also = ALSO("batchSize", "miniBatchSize"),
     .help = "images a worker and step (default 64)",
     U32(batch, 1, 1u << 20)},
    {.name = "optimizer",
     .arg = "NAME",
     .also = ALSO("optimiser"),
     .help = "sgd, momentum, nesterov, adam or adamw (default sgd)",
     .parse = value_parse_optimizer,
     .print = value_print_word,
     AT(optimizer),
     .words = optimizer_words},
    {.name = "lr",
     .arg = "X",
     .also = ALSO("learningRate"),
     .help = "learning rate (default 0.1; 0.001 for adam and adamw)",
     DOUBLE(lr, 0, 1e6)},
    {.name = "momentum",
     .arg = "X",
     .help = "of sgd, momentum and nesterov (default 0.9)",
     DOUBLE(momentum, 0, 1)},
    {.name = "weight-decay",
     .arg = "X",
     .help = "(default 0; 0.01 for adamw)",
     DOUBLE(weight_decay, 0, 1e6)},
    {.name = "lr-schedule",
     .arg = "NAME",
     .also = ALSO("learningRateSchedule", "lrScheduler", "scheduler"),
     .help = "constant, step, cosine or one-cycle (default constant)",
     WORD(schedule.kind, schedule_words)},
    {.name = "lr-step",
     .arg = "N",
     .also = ALSO("stepSize"),
     .help = "with step: every N epochs (default 1) ...",
     U32(schedule.step_epochs, 1, 1000000),
     ONLY(is_stepped, "lr-schedule", "only with --lr-schedule step")},
    {.name = "lr-gamma",
     .arg = "X",
     .also = ALSO("gamma"),
     .help = "... the learning rate is multiplied by X (default 0.1)",
     DOUBLE(schedule.gamma, 0, 1e6),
     ONLY(is_stepped, "lr-schedule", "only with --lr-schedule step")},
    {.name = "seed",
     .arg = "N",
     .also = ALSO("randomSeed"),
     .help = "of weights, order and split (default 1)",
     U64(seed, 0)},
    {.name = "sync",
     .arg = "HOW",
     .also = ALSO("synchronization", "synchronisation"),
     .help = "allreduce, sendrecv, ps or local (default allreduce)",
     WORD(sync, sync_words)},
    {.name = "local-steps",
     .arg = "N",
     .help = "with local: average the weights every N steps (default 8)",
     U32(local_steps, 1, 1000000),
     ONLY(is_local, "sync", "only with --sync local")},
    {.name = "ps-aggregate",
     .arg = "N",
     .help = "with ps: gradients of an update (default 0: as workers)",
     U32(ps_aggregate, 0, 65536),
     ONLY(is_ps, "sync", "only with --sync ps")},
    {.name = "staleness",
     .arg = "N",
     .also = ALSO("maxStaleness"),
     .help = "with ps: how many updates old a gradient may be, or async\n"
	     "(default 0)",
     .parse = value_parse_staleness,
     .print = value_print_staleness,
     AT(staleness),
     .lo = 0,
     .hi = 1000000,
     ONLY(is_ps, "sync", "only with --sync ps")},
    {.name = "feed",
     .arg = "WHAT",
     .help = "with ps and --learn: what the server hands out, index or data,\n"
	     "with which learners need no files (default index)",
     WORD(feed, feed_words),
     ONLY(feeds, "sync", "only with --sync ps")},
    {.name = "listen",
     .arg = "ADDRESS",
     .help = "with ps: where learners find the server (default: a socket in\n"
	     "the cluster's folder)",
     STRING(listen),
     ONLY(is_ps, "sync", "only with --sync ps")},
    {.name = "learn",
     .arg = "ADDRESS",
     .help = "be one more learner of the parameter server there",
     STRING(learn)},
    {.name = "algo",
     .arg = "NAME",
     .help = "of the gradients' all-reduce (default auto)",
     .parse = value_parse_algo,
     .print = value_print_string,
     AT(algo)},
    {.name = "bucket-bytes",
     .arg = "SIZE",
     .help = "reduce gradients during backward, so much at a time (default 0:\n"
	     "all together, behind it)",
     SIZE(bucket_bytes)},
    {.name = "on-failure",
     .arg = "HOW",
     .help = "when a device is lost: abort, shrink, respawn or spare (default\n"
	     "$GPUSIM_ON_FAILURE, else abort)",
     .parse = value_parse_on_failure,
     .print = value_print_on_failure},
    {.name = "wait",
     .arg = "TIME",
     .help = "wait for devices that are in use, so long (default 0: do not)",
     .parse = value_parse_wait,
     .print = value_print_wait},
    {.name = "checkpoint",
     .arg = "DIR",
     .also = ALSO("checkpointDir"),
     .help = "leave in DIR what training can go on from",
     STRING(checkpoint)},
    {.name = "checkpoint-every",
     .arg = "N",
     .help = "every N steps (default 0: at the end of each epoch)",
     U64(checkpoint_every, 1000000000),
     ONLY(has_checkpoint, "checkpoint", "needs --checkpoint DIR")},
    {.name = "resume",
     .help = "go on from the newest checkpoint of DIR",
     BOOL(resume),
     ONLY(has_checkpoint, "checkpoint", "needs --checkpoint DIR")},
    {.name = "quiet",
     .help = "print nothing but errors, and what --json - prints",
     BOOL(quiet),
     ONLY(not_infer, "infer", "not together with --infer")},
    {.name = "json",
     .arg = "FILE",
     .help = "write one JSON object a line an epoch; --eval: one of the test;\n"
	     "-: to standard output, and the text to standard error",
     STRING(json),
     ONLY(not_infer, "infer", "not together with --infer")},
    {.name = "save", .arg = "FILE", .help = "save the model as .npz", STRING(save)},
    {.name = "load",
     .arg = "FILE",
     .help = "begin with a model that --save has left; --eval, --infer: ask it",
     STRING(load)},
    {.name = "eval", .help = "test that model, and train nothing", BOOL(eval)},
    {.name = "infer",
     .help = "samples of files or standard input in, a class and\n"
	     "probabilities a line out",
     BOOL(infer)},
    {.name = "compare",
     .arg = "A,B,...",
     .help = "train by each of these ways, with each number of --workers",
     STRING(compare)},
    {.name = "out",
     .arg = "PREFIX",
     .help = "of the files that --compare writes",
     STRING(out),
     ONLY(has_compare, "compare", "only with --compare")},
    {.name = "backend",
     .arg = "NAME",
     .help = "gpusim, or mpi within an MPI job (default gpusim)",
     WORD(backend, backend_words)},
};

const unsigned config_noptions = sizeof config_options / sizeof config_options[0];
_Static_assert(sizeof config_options / sizeof config_options[0] <= CONFIG_MAX_OPTIONS,
	       "CONFIG_MAX_OPTIONS is too small");
