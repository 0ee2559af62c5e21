/*
 * hold.h - what a verb has of the machine, given back however the verb ends.
 *
 * A communicator of the moment and memory are leased: left alone they go 2 s after their client has, and
 * the devices are nobody else's until then. So SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGPIPE, unless they are
 * ignored, give them back first, and then end the program as if they had not been caught.
 *
 * One a program. From one thread alone, which is parked for good as soon as such a signal is being seen to.
 */
#ifndef GPUCTL_HOLD_H
#define GPUCTL_HOLD_H

#include "cli.h"

/* gpusim_comm_init_all over n free devices, leased. */
enum rc hold_comm(struct cli *cli, uint32_t n, const struct gpusim_comm_config *config,
		  struct gpusim_comm **out, struct err *err);

/* gpusim_malloc, leased, and remembered for a signal. */
enum rc hold_memory(struct cli *cli, uint64_t device, uint64_t nbytes, uint64_t *addr,
		    struct err *err);

/* The same of memory that is there: another device has it now. Without room it is left to its lease. */
void hold_remember(uint64_t device, uint64_t addr);

/* The verb has freed its memory, wherever that was by now. */
void hold_forget_memory(void);

/* Destroy the communicator if it is held, and release its handle (NULL: none). The verb has freed its memory.
 * cli's timeout is short from then on. */
void hold_release(struct cli *cli, struct gpusim_comm *comm);

/* Returns, unless a signal is ending the program. */
void hold_settle(void);

#endif
