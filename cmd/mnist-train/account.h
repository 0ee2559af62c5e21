/*
 * account.h - --account: what a step's memory and communication should be, beside what they were.
 */
#ifndef MNIST_ACCOUNT_H
#define MNIST_ACCOUNT_H

#include <stdio.h>

#include "train/account.h"

/*
 * account_run - run one more step of a training that is over, and print the table.
 *
 *	json	gets one object; or NULL
 *
 * Errors: RC_FAILED: numbers that differ, or records that were lost; those of the devices.
 */
enum rc account_run(struct gpusim *g, struct trainer *t, FILE *json, struct err *err);

#endif
