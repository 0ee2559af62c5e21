/*
 * options.h - the command line of mnist-train.
 */
#ifndef MNIST_OPTIONS_H
#define MNIST_OPTIONS_H

#include "train/config.h"

/* Parse the command line; ends the program for -h and -V. */
enum rc options_parse(int argc, char **argv, struct train_config *o, struct err *err);

#endif
