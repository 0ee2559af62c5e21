/*
 * model.h - a trained net in a file: its weights, and everything that is needed to use them.
 *
 * A .npz with the arrays of net.h, and
 *
 *	gpusim.net	u8: text, a line each: model, layers, activation, loss, input, items, classes
 *	gpusim.classes	u8: the names of the classes, a line each, if they have names
 *	input.scale	f32[channels]: the net's input is value * scale + shift
 *	input.shift	f32[channels]
 */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include "base/buf.h"
#include "nn/npz.h"
#include "nn/samples.h"
#include "train/task.h"

#define MODEL_MAX_ARRAYS (NET_MAX_ARRAYS + 4)

/* task has no samples: it has the net and the scale of its input. */
struct model {
	struct task task;
	float *params;		   /* task_values */
	enum samples_values items; /* of the data that it was trained on */
};

/* The arrays of a model, which point into *task, params and *text. Returns their number; 0: out of memory.
 * The caller releases text with buf_fini in any case. */
unsigned model_arrays(const struct task *task, const float *params, struct buf *text,
		      struct npz_array out[MODEL_MAX_ARRAYS]);

/* Write a file, all of it or nothing; errors as of npz_write. */
enum rc model_save(const char *path, const struct task *task, const float *params, struct err *err);

/*
 * model_load - read a file that model_save wrote.
 *
 *	config the net, if an option chose one (net_given); else the file decides. Outlives the model
 *	known	[out] false: the file does not describe its net's input, and *out is untouched
 *	out	[out] the caller releases it with model_fini; untouched on error
 *
 * Errors: RC_BADDATA a damaged file, or one of another net, with the first array that differs;
 * RC_FAILED.
 * Checked by: tests/unit/train/t_infer.c
 */
enum rc model_load(const char *path, const struct train_config *config, bool *known,
		   struct model *out, struct err *err);

/* The net of a data set and a configuration, with the weights of a file that has only weights.
 * Takes ownership of the task, also on failure. */
enum rc model_of_task(const char *path, struct task *task, struct model *out, struct err *err);

/* A task's net in lines, as gpusim.net has them. False: out of memory. */
void model_describe(const struct task *t, struct buf *text);

/* Make a task without samples from such lines, at most MODEL_MAX_TEXT bytes: the net and its input, scale 1
 * and shift 0. Released with task_fini; untouched on error. RC_BADDATA begins with `name`. */
#define MODEL_MAX_TEXT 4096
enum rc model_task(const char *text, size_t nbytes, const char *name,
		   const struct train_config *config, struct task *out, struct err *err);

void model_fini(struct model *m);

/* The name of a class, or its number in *number. */
const char *model_class(const struct model *m, uint32_t label, char number[16]);

#endif
