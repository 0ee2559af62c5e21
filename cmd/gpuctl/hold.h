/*
 * hold.h - the devices and memory that a verb holds, given back however the verb ends.
 *
 * Its communicator and memory are leased: a lease ends 2 s after its client has gone, and until then nobody
 * else gets the devices. So SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGPIPE, unless they are ignored, first
 * give them back and then end the program as if they had not been caught.
 *
 * One instance a program, used by one thread, which is parked for good once such a signal is being handled.
 */
#ifndef GPUCTL_HOLD_H
#define GPUCTL_HOLD_H

#include "cli.h"

/* gpusim_comm_init_all over n free devices, leased. */
enum rc hold_comm(struct cli *cli, uint32_t n, const struct gpusim_comm_config *config,
		  struct gpusim_comm **out, struct err *err);

/* gpusim_malloc, leased, and remembered for a signal. */
enum rc hold_memory(struct cli *cli, struct gpusim_device device, uint64_t nbytes,
		    struct gpusim_addr *addr, struct err *err);

/* Remember memory that exists: a spare has it now. Without room for the entry it is left to its lease. */
void hold_remember(struct gpusim_device device, struct gpusim_addr addr);

/* The verb has freed its memory, on whichever devices it was. */
void hold_forget_memory(void);

/* Destroy the communicator if it is held, and release its handle (NULL: none). The verb has freed its memory.
 * cli's timeout is short from then on. */
void hold_release(struct cli *cli, struct gpusim_comm *comm);

/* Returns, unless a signal is ending the program. */
void hold_settle(void);

#endif
