/*
 * config_table.c - the options of mnist-train. A new one is a row here, a field in config.h and an entry in
 * mnist-train(1).
 */
#define OPTION_TARGET struct train_config

#include "base/option_rows.h"
#include "nn/augment.h"
#include "train/config_impl.h"
#include "train/spread.h"

/* ---- words */

static const struct option_word augment_words[] = {{"none", 0},
						   {"crop", AUGMENT_CROP},
						   {"flip", AUGMENT_FLIP},
						   {"crop,flip", AUGMENT_CROP | AUGMENT_FLIP},
						   {"flip,crop", AUGMENT_CROP | AUGMENT_FLIP},
						   {NULL, 0}};
static const struct option_word channels_words[] = {{"1", 1}, {"grey", 1}, {"gray", 1},
						    {"3", 3}, {"rgb", 3},  {NULL, 0}};
static const struct option_word loss_words[] = {{"cross-entropy", NET_CROSS_ENTROPY},
						{"crossentropy", NET_CROSS_ENTROPY},
						{"l2", NET_L2},
						{"mse", NET_L2},
						{NULL, 0}};
static const struct option_word optimizer_words[] = {
    {"sgd", OPTIMIZER_SGD},   {"momentum", OPTIMIZER_SGD}, {"nesterov", OPTIMIZER_NESTEROV},
    {"adam", OPTIMIZER_ADAM}, {"adamw", OPTIMIZER_ADAMW},  {NULL, 0}};
static const struct option_word schedule_words[] = {
    {"constant", LR_CONSTANT},	 {"step", LR_STEP},	     {"cosine", LR_COSINE},
    {"one-cycle", LR_ONE_CYCLE}, {"onecycle", LR_ONE_CYCLE}, {NULL, 0}};
static const struct option_word sync_words[] = {{"allreduce", SYNC_ALLREDUCE},
						{"sendrecv", SYNC_SENDRECV},
						{"ps", SYNC_PS},
						{"local", SYNC_LOCAL},
						{NULL, 0}};
static const struct option_word precision_words[] = {
    {"f32", 0}, {"f16", GPUSIM_F16}, {"bf16", GPUSIM_BF16}, {NULL, 0}};
static const struct option_word recompute_words[] = {{"none", RECOMPUTE_NONE},
						     {"selective", RECOMPUTE_SELECTIVE},
						     {"full", RECOMPUTE_FULL},
						     {NULL, 0}};
/* Examples; config_compress takes any number. */
static const struct option_word compress_words[] = {{"none", COMPRESS_NONE},
						    {"powersgd=4", COMPRESS_POWERSGD},
						    {"topk=0.001", COMPRESS_TOPK},
						    {"onebit", COMPRESS_ONEBIT},
						    {NULL, 0}};
static const struct option_word outer_words[] = {
    {"mean", OUTER_MEAN}, {"average", OUTER_MEAN}, {"nesterov", OUTER_NESTEROV}, {NULL, 0}};
static const struct option_word feed_words[] = {
    {"index", FEED_INDEX}, {"data", FEED_DATA}, {NULL, 0}};
static const struct option_word backend_words[] = {
    {"gpusim", BACKEND_GPUSIM}, {"mpi", BACKEND_MPI}, {NULL, 0}};

static const char *
policy_name(unsigned policy)
{
	return gpusim_on_failure_name((int)policy);
}

/* ---- conditions of options */

static const struct train_config *
config(const void *target)
{
	return target;
}

static bool
infers(const struct train_config *c)
{
	return c->eval || c->infer;
}

static bool
trains(const void *c)
{
	return !infers(c);
}

static bool
not_infer(const void *c)
{
	return !config(c)->infer;
}

/* A loaded model brings its net. */
static bool
has_net(const void *c)
{
	return !infers(c) || config(c)->net_given;
}

static bool
is_mlp(const void *c)
{
	return config(c)->net.model == NET_MLP && has_net(c);
}

static bool
is_vit(const void *c)
{
	return config(c)->net.model == NET_VIT && has_net(c);
}

static bool
is_stepped(const void *c)
{
	return config(c)->schedule.kind == LR_STEP;
}

static bool
is_local(const void *c)
{
	return config(c)->sync == SYNC_LOCAL || config(c)->compare;
}

static bool
is_diloco(const void *c)
{
	return config(c)->sync == SYNC_LOCAL && config(c)->outer == OUTER_NESTEROV;
}

/* What only the trainer of gpusim's devices can do, with gradients that are all-reduced. */
static bool
compressible(const void *target)
{
	const struct train_config *c = target;

	return c->sync == SYNC_ALLREDUCE && c->backend == BACKEND_GPUSIM && !c->learn &&
	       !c->compare && !c->deterministic && !spread_wanted(c);
}

static bool
warms_up(const void *c)
{
	return config(c)->compress.kind >= COMPRESS_TOPK;
}

static bool
is_ps(const void *c)
{
	return config(c)->sync == SYNC_PS || config(c)->compare;
}

static bool
feeds(const void *c)
{
	return is_ps(c) || config(c)->learn;
}

static bool
is_deterministic(const void *c)
{
	return config(c)->deterministic;
}

static bool
verifies(const void *c)
{
	return (config(c)->deterministic && config(c)->sync != SYNC_PS &&
		!spread_wanted(config(c)) && config(c)->backend == BACKEND_GPUSIM) ||
	       config(c)->compress.kind || is_diloco(c);
}

static bool
by_worker(const void *c)
{
	return config(c)->global_batch == 0;
}

static bool
has_checkpoint(const void *c)
{
	return config(c)->checkpoint;
}

static bool
traces(const void *c)
{
	return trains(c) && config(c)->backend == BACKEND_GPUSIM && !config(c)->learn;
}

/* A net is spread only by the trainer of one communicator. */
static bool
spreads(const void *c)
{
	return trains(c) && config(c)->backend == BACKEND_GPUSIM && !config(c)->learn &&
	       config(c)->sync == SYNC_ALLREDUCE;
}

static bool
not_spread(const void *c)
{
	return !spread_wanted(config(c));
}

static bool
has_tp(const void *c)
{
	return config(c)->parallel.tp > 1;
}

static bool
has_halves(const void *c)
{
	return config(c)->precision;
}

static bool
is_zero3(const void *c)
{
	return config(c)->zero == 3;
}

static bool
is_zero(const void *c)
{
	return config(c)->zero;
}

static bool
has_compare(const void *c)
{
	return config(c)->compare;
}

#define ONLY_MLP  ONLY(is_mlp, "model", "needs --model mlp")
#define ONLY_VIT  ONLY(is_vit, "model", "needs --model vit")
#define ONLY_STEP ONLY(is_stepped, "lr-schedule", "needs --lr-schedule step")
#define ONLY_PS	  ONLY(is_ps, "sync", "needs --sync ps")
#define ONLY_SPREAD \
	ONLY(spreads, "sync", "needs training with --sync allreduce on gpusim's devices")
#define ONLY_CHECKPOINT ONLY(has_checkpoint, "checkpoint", "needs --checkpoint DIR")
#define NOT_INFER	ONLY(not_infer, "infer", "cannot be used with --infer")

/* Parts of --layers, in the draft. */
#define AS_NEURONS(part)                                                                 \
	AS_KIND(option_u32), .at = offsetof(struct config_draft, neurons.part), .lo = 1, \
			     .hi = NET_MAX_WIDTH, NOT_PRINTED

/* ---- the table */

const struct option_row config_rows[] = {
    {"config", "FILE", "read options from FILE, lines of name = value; flags override it",
     ASKS(OPTION_FILE)},
    {"strict", NULL, "reject unknown names in files, instead of a warning", AS_BOOL(strict)},
    {"print-config", NULL, "print the options in force as such a file, and exit",
     ASKS(OPTION_PRINT)},
    {"devices", "N",
     "train on N devices (default: all of $GPUSIM_COORD; without GPUSIM_COORD, start a cluster "
     "of N, 4 by default)",
     AS_KIND(config_devices), AT(devices), .lo = 1, .hi = 1024, ALSO("numDevices", "nDevices")},
    {"workers", "N[,N...]", "number of training devices; several with --compare",
     AS_KIND(config_workers), .lo = 1, .hi = 1024,
     ALSO("numWorkers", "nWorkers", "numberOfWorkers")},
    {"data", "PATH", "the data set: a folder or a file; see gpusim-data(5)", AS_STRING(data),
     ALSO("dataset", "dataDir", "dataPath")},
    {"format", "NAME", "format of the data set",
     AS_NAME(dataset.format, dataset_format_name, DATASET_FOLDER + 1), DEFAULT("auto"),
     ALSO("dataFormat")},
    {"label-column", "NAME", "label column of a CSV file: a name, first or last",
     AS_STRING(dataset.label_column), DEFAULT_NOTE("guessed")},
    {"image-size", "N[xM]", "scale images of a folder to this size", AS_KIND(config_image_size),
     .lo = 1, .hi = 1024, DEFAULT_NOTE("32x32")},
    {"channels", "N", "colours of images of a folder", AS_WORD(dataset.channels, channels_words),
     DEFAULT_NOTE("3")},
    {"split", "A,B,C", "fractions for training, validation and test", AS_KIND(config_split),
     DEFAULT_NOTE("the split of the files, else 0.8,0,0.2")},
    {"trainFraction", NULL, NULL, AS_DOUBLE(dataset.train, 0, 1), NOT_PRINTED},
    {"validationFraction", NULL, NULL, AS_DOUBLE(dataset.validation, 0, 1), NOT_PRINTED,
     ALSO("valFraction")},
    {"testFraction", NULL, NULL, AS_DOUBLE(dataset.test, 0, 1), NOT_PRINTED},
    {"normalize", "HOW", "scale values by",
     AS_NAME(dataset.normalize, dataset_normalize_name, DATASET_RAW + 1), DEFAULT("unit"),
     ALSO("normalise", "normalization", "normalisation")},
    {"train-items", "N", "train on at most N samples", AS_U32(dataset.train_items, 0, UINT32_MAX),
     DEFAULT("0"), DEFAULT_NOTE("all"), ALSO("trainDataLen")},
    {"test-items", "N", "test with at most N samples", AS_U32(dataset.test_items, 0, UINT32_MAX),
     DEFAULT("0"), DEFAULT_NOTE("all"), ALSO("testDataLen")},
    {"augment", "HOW", "shift training images at random, mirror them, or both",
     AS_WORD(augment, augment_words), DEFAULT("none"), ALSO("augmentation", "dataAugmentation"),
     ONLY(trains, "eval", "only for training")},
    {"model", "NAME", "model", AS_NAME(net.model, net_model_name, NET_NMODELS), DEFAULT("mlp"),
     .applies = has_net},
    {"layers", "A,B,...", "sizes of an mlp's layers from input to output; 0: from the data",
     AS_KIND(config_layers), DEFAULT_NOTE("0,128,0"), ALSO("layerSizes"), ONLY_MLP},
    {"inputLayerNeurons", NULL, NULL, AS_NEURONS(input), ONLY_MLP},
    {"hiddenLayerNeurons", NULL, NULL, AS_KIND(config_hidden), .lo = 1, .hi = NET_MAX_WIDTH,
     ALSO("hiddenNeurons"), ONLY_MLP},
    {"outputLayerNeurons", NULL, NULL, AS_NEURONS(output), ALSO("outputNeurons"), ONLY_MLP},
    {"inputdataDims", NULL, NULL, AS_KIND(config_dims), AT(input_dims), ALSO("inputDims")},
    {"labelOnehotDims", NULL, NULL, AS_KIND(config_dims), AT(label_dims), ALSO("outputDims")},
    {"activation", "NAME", "activation of an mlp", AS_NAME(net.act, net_act_name, NET_NACTS),
     DEFAULT("relu"), ALSO("activationFunction"), ONLY_MLP},
    {"layer-norm", NULL, "normalise the outputs of an mlp's hidden layers before the activation",
     AS_BOOL(net.layer_norm), ALSO("layerNormalization", "layerNormalisation"), ONLY_MLP},
    {"blocks", "N", "blocks of a vit", AS_U32(net.vit.blocks, 1, NET_MAX_BLOCKS), DEFAULT("4"),
     ONLY_VIT},
    {"hidden", "N", "features of a vit's tokens; --heads divides it",
     AS_U32(net.vit.hidden, 1, NET_MAX_HIDDEN), DEFAULT("64"), ONLY_VIT},
    {"heads", "N", "attention heads of a vit's blocks", AS_U32(net.vit.heads, 1, NET_MAX_HIDDEN),
     DEFAULT("4"), ONLY_VIT},
    {"patch", "N", "rows and columns of a vit's patches; divides the images",
     AS_U32(net.vit.patch, 1, 1024), DEFAULT("7"), ONLY_VIT},
    {"loss", "NAME", "loss", AS_WORD(net.loss, loss_words), DEFAULT("cross-entropy"),
     ALSO("lossFunction"), .applies = has_net},
    {"epochs", "N", "train N times on all images", AS_U32(epochs, 0, 1000000), DEFAULT("5"),
     ALSO("numEpochs", "nEpochs", "numberOfEpochs", "maxEpochs")},
    {"batch", "N", "images per worker and step", AS_U32(batch, 1, 1u << 20), DEFAULT("64"),
     ALSO("batchSize", "miniBatchSize"),
     ONLY(by_worker, "global-batch", "cannot be used with --global-batch")},
    {"global-batch", "N", "images per step on all devices together, instead of --batch",
     AS_U64(global_batch, 0, UINT32_MAX), DEFAULT("0"), DEFAULT_NOTE("--batch times the workers"),
     ALSO("globalBatchSize")},
    {"optimizer", "NAME", "optimizer (momentum is sgd with --momentum)", AS_KIND(config_optimizer),
     AT(optimizer), .words = optimizer_words, DEFAULT("sgd"), ALSO("optimiser")},
    {"lr", "X", "learning rate", AS_DOUBLE(lr, 0, 1e6),
     DEFAULT_NOTE("0.1; 0.001 for adam and adamw"), ALSO("learningRate")},
    {"momentum", "X", "momentum of sgd, momentum and nesterov", AS_DOUBLE(momentum, 0, 1),
     DEFAULT("0.9")},
    {"weight-decay", "X", "weight decay", AS_DOUBLE(weight_decay, 0, 1e6),
     DEFAULT_NOTE("0; 0.01 for adamw")},
    {"lr-schedule", "NAME", "schedule of the learning rate", AS_WORD(schedule.kind, schedule_words),
     DEFAULT("constant"), ALSO("learningRateSchedule", "lrScheduler", "scheduler")},
    {"lr-step", "N", "with step: every N epochs ...", AS_U32(schedule.step_epochs, 1, 1000000),
     DEFAULT("1"), ALSO("stepSize"), ONLY_STEP},
    {"lr-gamma", "X", "... multiply the learning rate by X", AS_DOUBLE(schedule.gamma, 0, 1e6),
     DEFAULT("0.1"), ALSO("gamma"), ONLY_STEP},
    {"seed", "N", "seed of weights, order and split", AS_U64(seed, 0, 0), DEFAULT("1"),
     ALSO("randomSeed")},
    {"sync", "HOW", "how workers synchronise", AS_WORD(sync, sync_words), DEFAULT("allreduce"),
     ALSO("synchronization", "synchronisation")},
    {"local-steps", "N", "with local: average the weights every N steps",
     AS_U32(local_steps, 1, 1000000), DEFAULT("8"), ONLY(is_local, "sync", "needs --sync local")},
    {"outer", "HOW", "with local: what the ranks continue from (nesterov is DiLoCo)",
     AS_WORD(outer, outer_words), DEFAULT("mean"), ONLY(is_local, "sync", "needs --sync local")},
    {"outer-lr", "X", "with nesterov: learning rate of the outer step", AS_DOUBLE(outer_lr, 0, 1e6),
     DEFAULT("0.7"), ONLY(is_diloco, "outer", "needs --outer nesterov")},
    {"outer-momentum", "X", "with nesterov: momentum of the outer step",
     AS_DOUBLE(outer_momentum, 0, 1), DEFAULT("0.9"),
     ONLY(is_diloco, "outer", "needs --outer nesterov")},
    {"compress", "METHOD", "send less of the gradients, with this rank or fraction",
     AS_KIND(config_compress), AT(compress), .words = compress_words, DEFAULT("none"),
     ONLY(compressible, "sync",
	  "needs training with --sync allreduce on gpusim's devices; cannot be used with "
	  "--deterministic, --compare, or a net that is spread")},
    {"compress-warmup", "N", "with topk: steps in which the fraction falls; with onebit: of Adam",
     AS_U64(compress_warmup, 0, 1000000000), DEFAULT("0"),
     DEFAULT_NOTE("4 epochs for topk, 1 for onebit"),
     ONLY(warms_up, "compress", "needs --compress topk or onebit")},
    {"ps-aggregate", "N", "with ps: gradients of an update", AS_U32(ps_aggregate, 0, 65536),
     DEFAULT("0"), DEFAULT_NOTE("as many as workers"), ONLY_PS},
    {"staleness", "N", "with ps: the most updates that a gradient may be behind, or async",
     AS_KIND(config_staleness), AT(staleness), .hi = 1000000, DEFAULT("0"), ALSO("maxStaleness"),
     ONLY_PS},
    {"feed", "WHAT",
     "with ps and --learn: what the server hands out (with data, learners need no files)",
     AS_WORD(feed, feed_words), DEFAULT("index"), ONLY(feeds, "sync", "needs --sync ps")},
    {"listen", "ADDRESS", "with ps: where learners find the server", AS_STRING(listen),
     DEFAULT_NOTE("a socket in the cluster's folder"), ONLY_PS},
    {"learn", "ADDRESS", "join the parameter server at ADDRESS as a learner", AS_STRING(learn)},
    {"deterministic", NULL,
     "the same weights, bit by bit, on any number of devices and after every recovery",
     AS_BOOL(deterministic), ENV("GPUSIM_DETERMINISTIC")},
    {"leaf", "N", "with deterministic: images of one gradient computation", AS_U32(leaf, 1, 65536),
     DEFAULT("16"), ONLY(is_deterministic, "deterministic", "needs --deterministic")},
    {"verify", NULL,
     "with deterministic: add up samples of the gradients again, and name a rank with a different "
     "sum; with compress and outer: compare the ranks' weights",
     AS_BOOL(verify),
     ONLY(verifies, "deterministic",
	  "needs --deterministic, --compress or --outer nesterov; cannot be used with --sync ps or "
	  "--backend mpi")},
    {"algo", "NAME", "algorithm of the gradients' all-reduce", AS_KIND(config_algo), AT(algo),
     DEFAULT("auto")},
    {"parallel", "dp=N,tp=N,pp=N",
     "spread the net: data, tensor and pipeline parallel; the product is the number of devices",
     AS_KIND(config_parallel), AT(parallel), DEFAULT_NOTE("dp alone"), ONLY_SPREAD},
    {"sequence-parallel", NULL, "with tp: divide by rows what lies between the divided layers",
     AS_BOOL(sequence), ONLY(has_tp, "parallel", "needs --parallel tp=N with N above 1")},
    {"micro", "M", "cut each step's batch into M microbatches", AS_U32(micro, 0, 4096),
     DEFAULT("0"), DEFAULT_NOTE("2 pp; without pp 1"), ONLY_SPREAD},
    {"schedule", "NAME|FILE",
     "with pp: gpipe, 1f1b, interleaved=V, zb-h1, zb-h2, zb-v, or a file; see gpusim-pipeline(5)",
     AS_STRING(pipeline), DEFAULT_NOTE("1f1b"), ONLY_SPREAD},
    {"stages", "A,B,...", "units (blocks) of each stage", AS_KIND(config_stages),
     DEFAULT_NOTE("of about the same cost"), ONLY_SPREAD},
    {"zero", "N",
     "shard over the data-parallel devices: 1: the optimizer's state, 2: and gradients, 3: and "
     "parameters",
     AS_U32(zero, 0, 3), DEFAULT("0"), ONLY_SPREAD},
    {"shard-size", "S",
     "with zero: shard over groups of S data-parallel devices, which have replicas of each other",
     AS_U32(shard_size, 0, GRID_MAX), DEFAULT("0"), DEFAULT_NOTE("all of them"),
     ONLY(is_zero, "zero", "needs --zero 1, 2 or 3")},
    {"no-reshard", NULL, "with zero 3: gather parameters once a step", AS_BOOL(no_reshard),
     ONLY(is_zero3, "zero", "needs --zero 3")},
    {"recompute", "WHAT", "compute again in backward, instead of keeping: none, selective, full",
     AS_WORD(recompute, recompute_words), DEFAULT("none"), ONLY_SPREAD},
    {"account", NULL,
     "after the training, print memory and communication of one more step beside formulas",
     AS_BOOL(account), ONLY_SPREAD},
    {"precision", "TYPE",
     "type of parameters, gradients and activations: f32, f16, bf16; the optimizer has f32",
     AS_WORD(precision, precision_words), DEFAULT("f32"), ONLY_SPREAD},
    {"loss-scale", "dynamic|X", "multiply the loss, so that small gradients do not become 0",
     AS_KIND(config_loss_scale_kind), AT(loss_scale), DEFAULT_NOTE("dynamic for f16, else 1"),
     ONLY(has_halves, "precision", "needs --precision f16 or bf16")},
    {"clip", "X", "scale a gradient whose norm is above X down to X", AS_DOUBLE(clip, 0, 1e6),
     DEFAULT("0"), DEFAULT_NOTE("no bound"), ONLY_SPREAD},
    {"bucket-bytes", "SIZE", "reduce gradients during backward, SIZE bytes at a time",
     AS_SIZE(bucket_bytes), DEFAULT("0"), DEFAULT_NOTE("all together, after backward"),
     ONLY(not_spread, "parallel",
	  "cannot be used with --parallel tp or pp, --zero, --micro or --recompute")},
    {"on-failure", "HOW", "when a device is lost",
     AS_NAME(on_failure, policy_name, GPUSIM_ON_FAILURE_SPARE + 1), ENV("GPUSIM_ON_FAILURE"),
     DEFAULT("abort")},
    {"wait", "TIME", "wait at most TIME for devices that are in use", AS_KIND(config_wait),
     AT(wait_ms), DEFAULT("0"), DEFAULT_NOTE("do not wait")},
    {"checkpoint", "DIR", "save checkpoints in DIR", AS_STRING(checkpoint), ALSO("checkpointDir")},
    {"checkpoint-every", "N", "save a checkpoint every N steps",
     AS_U64(checkpoint_every, 0, 1000000000), DEFAULT("0"),
     DEFAULT_NOTE("at the end of each epoch"), ONLY_CHECKPOINT},
    {"resume", NULL, "continue from the newest checkpoint in DIR", AS_BOOL(resume),
     ONLY_CHECKPOINT},
    {"quiet", NULL, "print only errors and the output of --json -", AS_BOOL(quiet), NOT_INFER},
    {"json", "FILE",
     "write one JSON object a line for each epoch, with --eval one for the test; -: to standard "
     "output, and the text to standard error",
     AS_STRING(json), NOT_INFER},
    {"plot", "FILE",
     "draw loss and accuracy into FILE.svg or FILE.png; -: as text, live on a terminal",
     AS_STRING(plot), ONLY(trains, "eval", "only for training")},
    {"trace", "FILE", "write a timeline of the devices' work, for Perfetto", AS_STRING(trace),
     ONLY(traces, "backend", "needs a training on gpusim's devices")},
    {"save", "FILE", "save the model as .npz", AS_STRING(save)},
    {"load", "FILE", "start with a model that --save wrote; --eval, --infer: use it",
     AS_STRING(load)},
    {"eval", NULL, "test that model, without training", AS_BOOL(eval)},
    {"infer", NULL,
     "read samples from files or standard input, print a class and probabilities for each",
     AS_BOOL(infer)},
    {"compare", "A,B,...", "train by each of these methods, with each number of --workers",
     AS_STRING(compare)},
    {"out", "PREFIX", "prefix of the files that --compare writes", AS_STRING(out),
     ONLY(has_compare, "compare", "needs --compare")},
    {"backend", "NAME", "devices of a coordinator, or ranks of an MPI job",
     AS_WORD(backend, backend_words), DEFAULT("gpusim")},
    ROW_VERSION,
    ROW_HELP,
};

const unsigned config_nrows = NROWS(config_rows);
_Static_assert(NROWS(config_rows) <= OPTION_MAX_ROWS, "OPTION_MAX_ROWS is too small");
