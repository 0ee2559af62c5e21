#include "options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/option.h"
#include "base/parse.h"
#include "coll/plan.h"

static const char usage_text[] =
    "usage: mnist-train [options]\n"
    "  --devices N           train on N devices (default: all of $GPUSIM_COORD; without\n"
    "                        GPUSIM_COORD a cluster of N, default 4, is started)\n"
    "  --data DIR            folder of the four MNIST files, raw or gzipped\n"
    "  --layers A,B,...      sizes from input to output (default 784,128,10)\n"
    "  --epochs N            (default 5)\n"
    "  --batch N             images a device and step (default 64)\n"
    "  --optimizer NAME      sgd or adam (default sgd)\n"
    "  --lr X                learning rate (default 0.1 for sgd, 0.001 for adam)\n"
    "  --momentum X          of sgd (default 0.9)\n"
    "  --weight-decay X      (default 0)\n"
    "  --seed N              of weights and order (default 1)\n"
    "  --algo NAME           of the gradients' all-reduce (default auto)\n"
    "  --bucket-bytes SIZE   reduce gradients during backward, so much at a time (default 0:\n"
    "                        all together, behind it)\n"
    "  --on-failure HOW      when a device is lost: abort, shrink, respawn or spare (default\n"
    "                        $GPUSIM_ON_FAILURE, else abort)\n"
    "  --checkpoint DIR      leave in DIR what training can go on from\n"
    "  --checkpoint-every N  every N steps (default 0: at the end of each epoch)\n"
    "  --resume              go on from the newest checkpoint of DIR\n"
    "  --json FILE           write one JSON object a line an epoch\n"
    "  --save FILE           save the model as .npz\n"
    "  -V                    print the version\n"
    "  -h                    print this\n";

enum {
	OPT_DEVICES = 256,
	OPT_DATA,
	OPT_LAYERS,
	OPT_EPOCHS,
	OPT_BATCH,
	OPT_OPTIMIZER,
	OPT_LR,
	OPT_MOMENTUM,
	OPT_WEIGHT_DECAY,
	OPT_SEED,
	OPT_ALGO,
	OPT_BUCKET_BYTES,
	OPT_ON_FAILURE,
	OPT_CHECKPOINT,
	OPT_CHECKPOINT_EVERY,
	OPT_RESUME,
	OPT_JSON,
	OPT_SAVE,
};

static const struct option longopts[] = {{"devices", 1, NULL, OPT_DEVICES},
					 {"data", 1, NULL, OPT_DATA},
					 {"layers", 1, NULL, OPT_LAYERS},
					 {"epochs", 1, NULL, OPT_EPOCHS},
					 {"batch", 1, NULL, OPT_BATCH},
					 {"optimizer", 1, NULL, OPT_OPTIMIZER},
					 {"lr", 1, NULL, OPT_LR},
					 {"momentum", 1, NULL, OPT_MOMENTUM},
					 {"weight-decay", 1, NULL, OPT_WEIGHT_DECAY},
					 {"seed", 1, NULL, OPT_SEED},
					 {"algo", 1, NULL, OPT_ALGO},
					 {"bucket-bytes", 1, NULL, OPT_BUCKET_BYTES},
					 {"on-failure", 1, NULL, OPT_ON_FAILURE},
					 {"checkpoint", 1, NULL, OPT_CHECKPOINT},
					 {"checkpoint-every", 1, NULL, OPT_CHECKPOINT_EVERY},
					 {"resume", 0, NULL, OPT_RESUME},
					 {"json", 1, NULL, OPT_JSON},
					 {"save", 1, NULL, OPT_SAVE},
					 {"help", 0, NULL, 'h'},
					 {"version", 0, NULL, 'V'},
					 {NULL, 0, NULL, 0}};

static enum rc
parse_optimizer(const char *arg, enum optimizer *out, struct err *err)
{
	if (strcmp(arg, "sgd") == 0)
		*out = OPTIMIZER_SGD;
	else if (strcmp(arg, "adam") == 0)
		*out = OPTIMIZER_ADAM;
	else
		return err_set(err, RC_INVAL, "'%.64s' is neither sgd nor adam", arg);
	return RC_OK;
}

static enum rc
parse_on_failure(const char *arg, enum gpusim_on_failure *out, struct err *err)
{
	enum gpusim_rc rc = gpusim_on_failure_parse(arg, out);

	return rc == GPUSIM_OK ? RC_OK : err_set(err, (enum rc)rc, "%s", gpusim_error());
}

/* What holds unless an option says otherwise. */
static enum rc
apply_environment(struct train_config *o, struct err *err)
{
	const char *env = getenv("GPUSIM_ON_FAILURE");

	if (env && *env && parse_on_failure(env, &o->on_failure, err) != RC_OK)
		return err_prefix(err, "GPUSIM_ON_FAILURE");
	return RC_OK;
}

static enum rc
apply(struct train_config *o, int opt, const char *arg, struct err *err)
{
	const struct plan_algo *algo;

	switch (opt) {
	case OPT_DEVICES:
		return option_u32(arg, 1, 1024, &o->devices, err);
	case OPT_DATA:
		o->data = arg;
		return RC_OK;
	case OPT_LAYERS:
		return net_sizes_parse(arg, &o->net, err);
	case OPT_EPOCHS:
		return option_u32(arg, 0, 1000000, &o->epochs, err);
	case OPT_BATCH:
		return option_u32(arg, 1, 1u << 20, &o->batch, err);
	case OPT_OPTIMIZER:
		return parse_optimizer(arg, &o->optimizer, err);
	case OPT_LR:
		return parse_double(arg, 0, 1e6, &o->lr, err);
	case OPT_MOMENTUM:
		return parse_double(arg, 0, 1, &o->momentum, err);
	case OPT_WEIGHT_DECAY:
		return parse_double(arg, 0, 1e6, &o->weight_decay, err);
	case OPT_SEED:
		return parse_u64(arg, 0, UINT64_MAX, &o->seed, err);
	case OPT_ALGO:
		o->algo = arg;
		return plan_algo_find(GPUSIM_ALLREDUCE, arg, &algo, err);
	case OPT_BUCKET_BYTES:
		return parse_size(arg, &o->bucket_bytes, err);
	case OPT_ON_FAILURE:
		return parse_on_failure(arg, &o->on_failure, err);
	case OPT_CHECKPOINT:
		o->checkpoint = arg;
		return *arg ? RC_OK : err_set(err, RC_INVAL, "'' is not a folder");
	case OPT_CHECKPOINT_EVERY:
		return parse_u64(arg, 0, 1000000000, &o->checkpoint_every, err);
	case OPT_RESUME:
		o->resume = true;
		return RC_OK;
	case OPT_JSON:
		o->json = arg;
		return RC_OK;
	case OPT_SAVE:
		o->save = arg;
		return RC_OK;
	case 'V':
		printf("mnist-train %s\n", GPUSIM_VERSION);
		exit(EXIT_OK);
	default:
		fputs(usage_text, stdout);
		exit(EXIT_OK);
	}
}

enum rc
options_parse(int argc, char **argv, struct train_config *o, struct err *err)
{
	enum rc rc;
	int opt;

	*o = (struct train_config){
	    .epochs = 5, .batch = 64, .lr = NAN, .momentum = 0.9, .seed = 1, .algo = "auto"};
	o->net.act = NET_RELU;
	o->local_steps = 8;
	rc = apply_environment(o, err);
	while (rc == RC_OK && (opt = option_next(argc, argv, "hV", longopts, err)) != -1) {
		if (opt == '?')
			return err->rc;
		rc = apply(o, opt, optarg, err);
		if (rc != RC_OK)
			return option_err(longopts, opt, err);
	}
	if (rc == RC_OK && optind < argc)
		rc = err_set(err, RC_INVAL, "unexpected argument '%s'", argv[optind]);
	if (rc == RC_OK && !o->checkpoint && (o->resume || o->checkpoint_every))
		rc = err_set(err, RC_INVAL, "%s: needs --checkpoint DIR",
			     o->resume ? "--resume" : "--checkpoint-every");
	if (isnan(o->lr))
		o->lr = o->optimizer == OPTIMIZER_ADAM ? 0.001 : 0.1;
	return rc;
}
