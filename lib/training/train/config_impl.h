/*
 * config_impl.h - the table of options, and a configuration that is being put together.
 */
#ifndef TRAIN_CONFIG_IMPL_H
#define TRAIN_CONFIG_IMPL_H

#include "base/option.h"
#include "train/config.h"

/* Numbers of neurons as other systems' files give them. */
struct config_neurons {
	uint32_t input, output, nhidden, hidden[NET_MAX_SIZES]; /* 0: not given */
};

/* The target of the table. */
struct config_draft {
	struct train_config c; /* first: when printing, only this is the target */
	struct config_neurons neurons;
	bool needs_momentum; /* the optimizer's name says so */
	struct option_set set;
};

extern const struct option_row config_rows[];
extern const unsigned config_nrows;

/* Types of single options (config_values.c, config_dims.c). */
extern const struct option_kind config_algo, config_compress, config_devices, config_dims,
    config_hidden, config_image_size, config_layers, config_loss_scale_kind, config_optimizer,
    config_parallel, config_split, config_stages, config_staleness, config_wait, config_workers;

/* Called after each file: combine its parts of layers and fractions. */
enum rc config_file_read(struct option_set *s, const char *name, int rank, struct err *err);

/* Called after all options: set the values that follow from them, and check that they fit together. */
enum rc config_check(struct config_draft *d, struct err *err);

#endif
