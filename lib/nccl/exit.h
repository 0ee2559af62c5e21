/* exit.h - leaving communicators when the program ends. */
#ifndef NCCL_EXIT_H
#define NCCL_EXIT_H

#include "nccl/nccl_impl.h"

/* Once a communicator is there; before the client's own end, as calls are made. */
void nccl_leave_at_exit(void);

#endif
