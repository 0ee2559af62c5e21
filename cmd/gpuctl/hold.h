/*
 * hold.h - the devices and memory that a verb holds; they are released however the verb ends.
 *
 * Its communicator and memory are leased: a lease ends 2 s after its client has ended, and until then nobody
 * else gets the devices. So SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGPIPE, unless they are ignored, first
 * release them and then end the program as if the signal had not been caught.
 *
 * One instance per program, used by one thread, which is parked permanently once such a signal is being
 * handled.
 */
#ifndef GPUCTL_HOLD_H
#define GPUCTL_HOLD_H

#include "cli.h"

/* As gpusim_comm_init_all over n free devices, leased. */
enum rc hold_comm(struct cli *cli, uint32_t n, const struct gpusim_comm_config *config,
		  struct gpusim_comm **out, struct err *err);

/* As gpusim_malloc, leased; a signal frees the memory. */
enum rc hold_memory(struct cli *cli, struct gpusim_device device, uint64_t nbytes,
		    struct gpusim_addr *addr, struct err *err);

/* Remember memory that a spare has taken over. Without room for the entry it is left to its lease. */
void hold_remember(struct gpusim_device device, struct gpusim_addr addr);

/* Forget the verb's memory, which it has freed. */
void hold_forget_memory(void);

/* Destroy the communicator if it is held, and release its handle (NULL: none). The verb has freed its memory.
 * cli's timeout is short from then on. */
void hold_release(struct cli *cli, struct gpusim_comm *comm);

/* Returns, unless a signal is ending the program. */
void hold_settle(void);

#endif
