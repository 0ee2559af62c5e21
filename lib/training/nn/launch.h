/*
 * launch.h - short constructors of kernel arguments: whole numbers and addresses, values that step
 * with each iteration, reals.
 */
#ifndef NN_LAUNCH_H
#define NN_LAUNCH_H

#include "nn/emit.h"

#define U(arg_name, value)                       \
	{                                        \
		.name = (arg_name), .u = (value) \
	}
#define MOVES(arg_name, value, by)                             \
	{                                                      \
		.name = (arg_name), .u = (value), .step = (by) \
	}
#define F(arg_name, value)                                     \
	{                                                      \
		.name = (arg_name), .is_real = 1, .f = (value) \
	}
#define LAUNCH(sink, rank, kernel, ...)                                                           \
	do {                                                                                      \
		const struct gpusim_arg args_[] = {__VA_ARGS__};                                  \
		(sink)->launch((sink)->arg, rank, kernel, args_, sizeof args_ / sizeof args_[0]); \
	} while (0)

#endif
