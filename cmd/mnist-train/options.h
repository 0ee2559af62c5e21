/*
 * options.h - what mnist-train was asked to do.
 */
#ifndef MNIST_OPTIONS_H
#define MNIST_OPTIONS_H

#include "train/config.h"

/* Parse; ends the program for -h and -V. */
enum rc options_parse(int argc, char **argv, struct train_config *o, struct err *err);

#endif
