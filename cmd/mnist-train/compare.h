/*
 * compare.h - run this program once for each method and number of workers.
 */
#ifndef MNIST_COMPARE_H
#define MNIST_COMPARE_H

#include "train/config.h"

/*
 * compare_main - run the comparison of o, write its files and print it.
 *
 *	batchnorm	the net has batch norm
 *	self		the path of this program
 *
 * Returns the exit code; errors are on standard error. Call it before any thread is started.
 */
int compare_main(const struct train_config *o, bool batchnorm, const char *self);

#endif
