/*
 * config_values.h - how options take and tell their values: functions for rows of the table.
 */
#ifndef TRAIN_CONFIG_VALUES_H
#define TRAIN_CONFIG_VALUES_H

#include "train/config_impl.h"

typedef enum rc value_parse_fn(const struct config_option *o, const char *text,
			       struct config_draft *d, struct err *err);
typedef bool value_print_fn(const struct config_option *o, const struct train_config *c,
			    struct buf *out);

/* Of a field at o->at, of its type. A set one is not told when it is 0. */
value_parse_fn value_parse_bool, value_parse_double, value_parse_size, value_parse_string,
    value_parse_u32, value_parse_u64, value_parse_word;
value_print_fn value_print_bool, value_print_double, value_print_string, value_print_u32,
    value_print_u64, value_print_word, value_print_word_set;

/* Of one option alone. */
value_parse_fn value_parse_activation, value_parse_algo, value_parse_augment, value_parse_dims,
    value_parse_format, value_parse_hidden, value_parse_image_size, value_parse_input_neurons,
    value_parse_layers, value_parse_loss, value_parse_model, value_parse_normalize,
    value_parse_on_failure, value_parse_optimizer, value_parse_output_neurons, value_parse_split,
    value_parse_staleness, value_parse_wait, value_parse_workers;
value_print_fn value_print_activation, value_print_augment, value_print_devices, value_print_dims,
    value_print_format, value_print_image_size, value_print_layers, value_print_loss,
    value_print_model, value_print_normalize, value_print_nothing, value_print_on_failure,
    value_print_split, value_print_staleness, value_print_wait, value_print_workers;

#endif
