/*
 * cli.h - shared by the verbs: connect, find a device, report a failure, end the program.
 */
#ifndef GPUCTL_CLI_H
#define GPUCTL_CLI_H

#include <stddef.h>
#include <stdint.h>

#include "base/api.h"
#include "command.h"
#include "gpusim.h"

/* Connect to the coordinator, once; cli->g is then valid until the program ends. */
enum rc cli_open(struct cli *cli, struct err *err);

/* Connect for completion, where nobody waits: false if no coordinator answers within 100 ms. cli_open would
 * wait a moment for the default coordinator. */
bool cli_open_at_once(struct cli *cli);

/* Flush and close stdout, print err's sentence (if there is one), disconnect, end the program. A full disk
 * is a failure. stdout is closed first, so that its reader need not wait for the rest. */
void cli_end(struct cli *cli, struct err *err) __attribute__((noreturn));

/*
 * cli_device - find the device that a word means: an index in `gpuctl devices` (below 2^20) or an
 * id (0x..., or 16 hex digits).
 *
 * With a->comm, the word is a rank of that communicator.
 */
enum rc cli_device(struct cli *cli, const struct args *a, const char *word,
		   struct gpusim_device *out, struct err *err);

/* Connect, and open the communicator of an id. Release it with gpusim_comm_free. */
enum rc cli_comm(struct cli *cli, uint64_t id, struct gpusim_comm **out, struct err *err);

/* Connect, and open the communicator that the first operand names. */
enum rc cli_named_comm(struct cli *cli, const struct args *a, struct gpusim_comm **out,
		       struct err *err);

/* For verbs that print continuously: flush standard output; end with an error if that fails, or by SIGPIPE
 * if the pipe's reader has ended. */
void cli_end_if_deserted(struct cli *cli);

/* Return nonzero if a word has the form of a device's index or id. */
int cli_is_device(const char *word, size_t len);

/* Return --device, else the rank's device under `gpuctl run --each` ($GPUSIM_DEVICE), else NULL. */
const char *cli_own_device(const struct args *a);

/* Find the device of --comm and --rank, else of cli_own_device. */
enum rc cli_target(struct cli *cli, const struct args *a, struct gpusim_device *out,
		   struct err *err);

/* Count the devices without spares: all, or those that live and are in no communicator, at the moment. */
enum rc cli_count_devices(struct cli *cli, bool all, uint32_t *n, struct err *err);

/*
 * The number of ranks for a verb, independent of which devices are alive: -n, else the number of devices
 * that the cluster was started with ($GPUSIM_NDEVICES). RC_INVAL: neither is given.
 */
enum rc cli_need_nranks(const struct args *a, uint32_t *n, struct err *err);

/* As cli_need_nranks; else the number of all devices that the coordinator knows, including lost and busy
 * ones. */
enum rc cli_nranks_or_all(struct cli *cli, const struct args *a, uint32_t *n, struct err *err);

/* The configuration of a communicator that a verb makes: --on-failure, --op-timeout, --wait, --grid. */
struct gpusim_comm_config cli_config(const struct args *a, enum gpusim_life life);

/* If the last call to the coordinator had to recover, print its note. Call this after a success, before the
 * next call. */
void cli_note(void);

/*
 * cli_lease_comm - create a communicator over n free devices that lives no longer than this program.
 *
 *	a	the policy on failure, and the longest waits
 *	what	begins the error message: "5 vectors"
 *
 * Release with hold_release.
 */
enum rc cli_lease_comm(struct cli *cli, const struct args *a, uint32_t n, const char *what,
		       struct gpusim_comm **out, struct err *err);

#endif
