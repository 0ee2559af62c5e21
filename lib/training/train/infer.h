/*
 * infer.h - inference with a trained net, on one device.
 */
#ifndef TRAIN_INFER_H
#define TRAIN_INFER_H

#include "gpusim.h"
#include "train/model.h"

struct predictor;

/* The device memory that a predictor takes. */
uint64_t predictor_bytes(const struct model *m);

/* Take a free device, waiting for it at most wait_ms, and give it the weights. The model and g
 * outlive the predictor. */
enum rc predictor_new(struct gpusim *g, const struct model *m, uint32_t wait_ms,
		      struct predictor **out, struct err *err);

/* Give the device back. NULL is legal. */
void predictor_free(struct predictor *p);

/* The most samples of one call of predictor_run. */
uint64_t predictor_rows(const struct predictor *p);

/*
 * predictor_run - run the net on samples.
 *
 *	type	of their values, GPUSIM_U8 or GPUSIM_F32, before scale and shift
 *	items	[n, input]; 1 <= n <= predictor_rows
 *	out	[n, nclasses] the output of its last layer
 */
enum rc predictor_run(struct predictor *p, enum gpusim_dtype type, const void *items, uint64_t n,
		      float *out, struct err *err);

/* The class that the last layer's n values predict: the first of the largest. */
uint32_t infer_class(const float *values, uint32_t n);

/* The probability of each class: softmax of the values; for a net trained with L2 loss the values
 * themselves, negative ones set to 0 and scaled to sum to 1, or all equal if none is above 0. */
void infer_probabilities(const struct net *net, const float *values, double *out);

/* The input that a model takes, for messages: "784 values: images of 1x28x28, 0 to 255 scaled to 0..1". */
const char *model_wants(const struct model *m, char out[128]);

/* The result of a test. */
struct evaluation {
	uint64_t nitems, right;
	double loss; /* mean over the items */
	uint32_t nclasses;
	uint32_t nlabels; /* labels are bytes */
	/* [nlabels, nclasses]: items by their class (row) and the predicted class */
	uint64_t *taken;
};

/* Test the test part of a data set whose items fit the model; *out is released with
 * evaluation_fini. RC_BADDATA: the items do not fit, or a label is not a class of the model. */
enum rc evaluate(struct predictor *p, const struct model *m, const struct dataset *data,
		 struct evaluation *out, struct err *err);
void evaluation_fini(struct evaluation *e);

/* RC_BADDATA, naming path, if a data set's items do not fit the model. */
enum rc model_check_items(const struct model *m, const char *path, const struct dataset *data,
			  struct err *err);

/* Prepare the test part of a data set for the model: labels become the model's, by the classes'
 * names. RC_BADDATA: the items do not fit, or a label is not a class of the model. path: the data
 * set's name in messages. */
enum rc model_take_data(const struct model *m, const char *path, struct dataset *data,
			struct err *err);

#endif
