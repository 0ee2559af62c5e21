/*
 * compare.h - this program, once for each method and number of workers.
 */
#ifndef MNIST_COMPARE_H
#define MNIST_COMPARE_H

#include "train/config.h"

/*
 * compare_main - run the comparison that o asks for, write its files and print it.
 *
 *	batchnorm	the net has batch norm
 *	self		the path of this program
 *
 * Returns the exit code; what went wrong is on standard error. Must be called before there are
 * threads.
 */
int compare_main(const struct train_config *o, bool batchnorm, const char *self);

#endif
