/* exit.h - leaving communicators when the program ends. */
#ifndef NCCL_EXIT_H
#define NCCL_EXIT_H

#include "nccl/nccl_impl.h"

/* Called once a communicator exists. Runs before the client's own exit handler, because it makes calls. */
void nccl_leave_at_exit(void);

#endif
