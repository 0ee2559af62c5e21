/*
 * config.h - the configuration of a training, from flags and files.
 */
#ifndef TRAIN_CONFIG_H
#define TRAIN_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/option.h"
#include "gpusim.h"
#include "grid/layout.h"
#include "nn/dataset.h"
#include "nn/emit.h"
#include "nn/schedule.h"

#define CONFIG_MAX_WORKERS 64
#define CONFIG_MAX_DIMS	   5

enum sync {
	SYNC_ALLREDUCE, /* every device trains, gradients are all-reduced */
	SYNC_SENDRECV,	/* rank 0 holds the weights; the others train and send it their gradients */
	SYNC_PS,	/* a parameter server with learners */
	SYNC_LOCAL,	/* every device trains by itself; the weights are averaged now and then */
};

/* Less than the gradients' all-reduce (compress.h). */
enum compress { COMPRESS_NONE, COMPRESS_POWERSGD, COMPRESS_TOPK, COMPRESS_ONEBIT };

struct compress_how {
	enum compress kind;
	uint32_t rank;	 /* powersgd */
	double fraction; /* topk */
};

/* What becomes of the ranks' weights after local steps: their mean, or a step of DiLoCo's towards it. */
enum outer { OUTER_MEAN, OUTER_NESTEROV };

#define STALENESS_ASYNC UINT32_MAX

/* The messages that a parameter server puts into its queue. */
enum feed {
	FEED_INDEX, /* sample numbers; learners have the files */
	FEED_DATA,  /* the samples */
};

enum backend {
	BACKEND_GPUSIM, /* devices of a coordinator */
	BACKEND_MPI,	/* ranks of an MPI job */
};

struct option_text;

/* A shape that a file says the data set has. */
struct config_dims {
	uint32_t n; /* 0: none */
	uint64_t dim[CONFIG_MAX_DIMS];
	const char *from; /* for messages: "FILE:LINE: name"; set by config_check */
};

struct train_config {
	/* the task */
	struct net_config net;
	bool net_given; /* an option chose the net; else a loaded model brings its own */
	struct dataset_options dataset;
	const char *data;			   /* path; NULL: looked for */
	struct config_dims input_dims, label_dims; /* config_check_dims */
	uint32_t augment;			   /* of training images (nn/augment.h); 0: none */
	/* the method */
	uint32_t epochs, batch; /* batch: images a worker and step */
	uint64_t global_batch;	/* images of a step on all devices; 0: batch * workers */
	bool verify;	    /* deterministic: compare samples of the sums with the ranks' inputs */
	bool deterministic; /* the same bits on any number of devices, by any way */
	uint32_t leaf;	    /* deterministic: images whose gradient is computed at once, alone */
	double lr;
	double momentum, weight_decay;
	enum optimizer optimizer;
	struct lr_schedule schedule;
	uint64_t seed;
	/* the workers */
	enum sync sync;
	enum backend backend;
	uint32_t devices; /* 0: all, or 4 where a cluster is started */
	/* The training devices: 0: all, or all but the one that serves; several with --compare.
	 * With one, `devices` is the total. */
	uint32_t nworkers, workers[CONFIG_MAX_WORKERS];
	uint32_t local_steps; /* local: steps between averages */
	enum outer outer;     /* local */
	double outer_lr, outer_momentum;
	struct compress_how compress; /* allreduce */
	uint64_t compress_warmup;     /* steps; 0: the method's default */
	uint32_t ps_aggregate;	      /* ps: gradients of an update; 0: the number of workers */
	uint32_t staleness;	      /* ps: the largest age of a gradient; STALENESS_ASYNC: any */
	enum feed feed;		      /* ps */
	/* ps: where the server listens; NULL: a socket in the cluster's folder */
	const char *listen;
	const char *learn;     /* the address of a parameter server to learn for; NULL: none */
	uint64_t bucket_bytes; /* of gradients that are reduced together; 0: all */
	uint64_t global; /* images of a step on all devices, of a checkpoint; 0: no checkpoint */
	const char *algo;
	/* how the net is spread (train/spread.h) */
	struct grid parallel; /* numbers that are 0 were not given */
	bool sequence;	      /* tp: rows are divided between the divided layers */
	uint32_t micro;	      /* microbatches of a step; 0: 2 pp, or 1 */
	const char *pipeline; /* the schedule: a name or a file; NULL: 1f1b */
	uint32_t nstages, stages[NET_MAX_CUTS]; /* units of each; 0: balanced */
	uint32_t zero;				/* 0 to 3 */
	uint32_t shard_size;			/* zero: data-parallel ranks that shard; 0: all */
	bool no_reshard; /* zero 3: gathered parameters stay until the end of the step */
	enum recompute recompute;
	bool account;		     /* compare a step with formulas (train/account.h) */
	enum gpusim_dtype precision; /* GPUSIM_F16, GPUSIM_BF16; 0: f32 */
	double loss_scale;	     /* of 16 bits; LOSS_SCALE_DYNAMIC; 0: not given */
	double clip;		     /* largest norm of the gradient; 0: any */
	/* failures and checkpoints */
	const char *checkpoint;	   /* folder; NULL: none */
	uint64_t checkpoint_every; /* steps; 0: at the end of each epoch */
	bool resume;
	enum gpusim_on_failure on_failure;
	uint32_t wait_ms; /* for devices that are in use; 0: do not wait */
	/* instead of training */
	bool eval, infer, quiet;
	char *const *files; /* infer: operands, of the argv that was parsed; none: standard input */
	size_t nfiles;
	const char *compare; /* list of methods, as given; NULL: none */
	/* files */
	bool strict;
	const char *unknown; /* messages about unknown names in files, one a line; NULL: none */
	const char *json, *plot, *save, *load, *out, *trace;
	struct option_text *texts; /* all the strings above */
};

#define LOSS_SCALE_DYNAMIC -1.0
#define LOSS_SCALE_FIRST   65536.0 /* dynamic */

/* Is the loss scaled, by a number that steps may change? The number at the beginning. */
static inline bool
config_scales(const struct train_config *c)
{
	return c->precision == GPUSIM_F16 || c->loss_scale != 0;
}

static inline double
config_loss_scale(const struct train_config *c)
{
	return c->loss_scale > 0 ? c->loss_scale : LOSS_SCALE_FIRST;
}

/* Devices besides the workers: the one that holds the weights and does not train. */
static inline uint32_t
config_servers(const struct train_config *c)
{
	return c->sync == SYNC_SENDRECV || c->sync == SYNC_PS;
}

/*
 * config_parse - options, and the files that --config names.
 *
 *	argv	lives as long as the configuration, whose strings point into it
 *	out	[out] released with config_fini; untouched on error. {0} after -h, -V or --help-options
 *
 * A later file overrides an earlier one, a flag overrides all files; see option_parse. With strict, an
 * unknown name in a file is an error; otherwise out->unknown has a message about it. Errors: RC_INVAL
 * "--option: reason" or "FILE:LINE: option: reason"; RC_FAILED a file that cannot be read.
 * Checked by: tests/unit/train/t_config.c
 */
enum rc config_parse(int argc, char **argv, struct train_config *out, enum option_ask *ask,
		     struct err *err);

/* As config_parse, from one file's text; `name` is its name. */
enum rc config_parse_text(const char *text, const char *name, struct train_config *out,
			  struct err *err);

/*
 * config_print - append the options in force as a file that gives the same configuration.
 *
 * Errors: RC_INVAL a path that no line of a file can hold.
 */
enum rc config_print(const struct train_config *c, struct buf *out, struct err *err);

/* The options in force as flags, "--lr=0.1", except the options named in `except` (NULL: none; else
 * it ends with NULL). The list ends with NULL; release it by option_args_free. */
enum rc config_args(const struct train_config *c, const char *const *except, char ***out,
		    struct err *err);

/*
 * config_check_dims - check that a data set has the shape that files give.
 *
 *	path  the data set's name in messages
 *	item, nclasses of the model; 0 classes are not checked
 *	ds  its parts; NULL: do not check the number of samples
 *
 * The product of inputdataDims is the number of values of a sample, labelOnehotDims the number of
 * classes. Either may begin with the number of samples: all, or the training samples; if options
 * choose some samples, it is the least number. RC_BADDATA.
 */
enum rc config_check_dims(const struct train_config *c, const char *path, struct net_shape item,
			  uint32_t nclasses, const struct dataset *ds, struct err *err);

/* Print the requested text, and end the program; RC_FAILED, RC_INVAL. */
enum rc config_answer(const struct train_config *c, enum option_ask ask, struct err *err);

/* Release the strings and make it {0}. */
void config_fini(struct train_config *c);

#endif
