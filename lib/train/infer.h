/*
 * infer.h - asking a trained net, on one device.
 */
#ifndef TRAIN_INFER_H
#define TRAIN_INFER_H

#include "gpusim.h"
#include "train/model.h"

struct predictor;

/* Device memory that it takes. */
uint64_t predictor_bytes(const struct model *m);

/* Take a free device, waiting for it at most so long, and give it the weights. The model outlives it,
 * and so does g. */
enum rc predictor_new(struct gpusim *g, const struct model *m, uint32_t wait_ms,
		      struct predictor **out, struct err *err);

/* Give the device back. NULL is legal. */
void predictor_free(struct predictor *p);

/* The most samples of one call of predictor_run. */
uint64_t predictor_rows(const struct predictor *p);

/*
 * predictor_run - what the net makes of samples.
 *
 *	type	of their values, GPUSIM_U8 or GPUSIM_F32, before scale and shift
 *	items	[n, input]; 1 <= n <= predictor_rows
 *	out	[n, nclasses] what its last layer says
 */
enum rc predictor_run(struct predictor *p, enum gpusim_dtype type, const void *items, uint64_t n,
		      float *out, struct err *err);

/* The class that the last layer's n values speak for: the first of the largest. */
uint32_t infer_class(const float *values, uint32_t n);

/* How likely each class is: softmax of the values; of a net trained for L2 the values themselves, cut
 * at 0 and scaled to sum to 1, or all the same where none is above 0. */
void infer_probabilities(const struct net *net, const float *values, double *out);

/* The input that a model takes, for sentences: "784 values: images of 1x28x28, 0 to 255 scaled to 0..1". */
const char *model_wants(const struct model *m, char out[128]);

/* The result of a test. */
struct evaluation {
	uint64_t nitems, right;
	double loss; /* mean over the items */
	uint32_t nclasses;
	uint32_t nlabels; /* labels are bytes */
	uint64_t
	    *taken; /* [nlabels, nclasses]: items of a class, row, that were taken for another */
};

/* Test the test part of a data set whose items are the model's; *out is released with
 * evaluation_fini. RC_BADDATA: they are not, or labels are none of its classes. */
enum rc evaluate(struct predictor *p, const struct model *m, const struct dataset *data,
		 struct evaluation *out, struct err *err);
void evaluation_fini(struct evaluation *e);

/* RC_BADDATA, naming path, where a data set's items are not what a model takes. */
enum rc model_check_items(const struct model *m, const char *path, const struct dataset *data,
			  struct err *err);

/* The test part of a data set as the model's: labels become those of its classes, by their names. RC_BADDATA:
 * items are not what it takes, or labels none of its classes. path: what the data set is called. */
enum rc model_take_data(const struct model *m, const char *path, struct dataset *data,
			struct err *err);

#endif
