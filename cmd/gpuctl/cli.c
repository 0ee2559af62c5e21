#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/parse.h"
#include "base/rundir.h"
#include "hold.h"

#define INDEX_END  (1u << 20) /* numbers below are indices of devices */
#define ID_DIGITS  16
#define AT_ONCE_MS 100
#define NDEVICES   "GPUSIM_NDEVICES"

/* Let no socket get the number of a standard stream that the caller closed: reading or writing that stream
 * must keep failing. */
static void
guard_standard(void)
{
	static const int mode[] = {O_WRONLY, O_RDONLY, O_RDWR};

	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", mode[fd]) != fd)
			return;
}

/* Tell the coordinator our name, such as "gpuctl allreduce". */
static enum rc
introduce(struct gpusim *g, const struct cli *cli, struct err *err)
{
	char name[GPUSIM_PROGRAM];

	if (!cli->cmd)
		return RC_OK;
	snprintf(name, sizeof name, "gpuctl %.32s", cli->cmd->name);
	return api(gpusim_set_program(g, name), err);
}

enum rc
cli_open(struct cli *cli, struct err *err)
{
	enum rc rc;

	if (cli->g)
		return RC_OK;
	guard_standard();
	rc = api(cli->timeout_ms ? gpusim_open_within(cli->coordinator, cli->timeout_ms, &cli->g)
				 : gpusim_open(cli->coordinator, &cli->g),
		 err);
	return rc == RC_OK ? introduce(cli->g, cli, err) : rc;
}

bool
cli_open_at_once(struct cli *cli)
{
	static char room[RUNDIR_ADDRESS_MAX];
	struct err err = {0};

	if (!cli->coordinator)
		cli->coordinator = rundir_coordinator(room, &err);
	cli->timeout_ms = AT_ONCE_MS;
	return cli->coordinator && cli_open(cli, &err) == RC_OK;
}

static int
close_stdout(void)
{
	int bad = fflush(stdout) != 0 || ferror(stdout);
	int saved = errno;

	if (close(STDOUT_FILENO) < 0 && errno != EBADF && !bad)
		return errno;
	return bad ? saved ? saved : EIO : 0;
}

void
cli_end(struct cli *cli, struct err *err)
{
	const char *verb = cli->cmd ? cli->cmd->name : NULL;
	int status = err->rc == RC_OK ? cli->status : rc_exit(err->rc);
	struct err full = {0};
	int bad;

	bad = close_stdout();
	hold_settle();
	if (err->rc == RC_OK && bad) {
		err_set(&full, RC_FAILED, "standard output: %s", strerror(bad));
		err = &full;
		status = EXIT_FAILED;
	}
	for (char *p = err->text; *p; p++) /* one line, without control characters */
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = *p == '\n' ? ' ' : '?';
	if (err->rc != RC_OK)
		log_line(LOG_ERROR, "%s%s%s", verb ? verb : "", verb ? ": " : "", err->text);
	gpusim_close(cli->g);
	_exit(status);
}

void
cli_end_if_deserted(struct cli *cli)
{
	struct pollfd p = {STDOUT_FILENO, 0, 0};
	struct err err = {0};

	if (fflush(stdout) != 0 && errno != EPIPE) {
		err_set(&err, RC_FAILED, "standard output: %s", strerror(errno));
		cli_end(cli, &err);
	}
	if (!ferror(stdout) && (poll(&p, 1, 0) <= 0 || !(p.revents & POLLERR)))
		return;
	signal(SIGPIPE, SIG_DFL);
	raise(SIGPIPE);
}

int
cli_is_device(const char *word, size_t len)
{
	size_t hex = 0, dec = 0;
	int prefix = len > 2 && word[0] == '0' && (word[1] == 'x' || word[1] == 'X');

	for (size_t i = prefix ? 2 : 0; i < len; i++) {
		hex += isxdigit((unsigned char)word[i]) != 0;
		dec += isdigit((unsigned char)word[i]) != 0;
	}
	if (prefix)
		return hex == len - 2;
	return len > 0 && (dec == len || (len == ID_DIGITS && hex == len));
}

static enum rc
device_at(struct cli *cli, uint64_t index, struct gpusim_device *out, struct err *err)
{
	struct gpusim_device_info *list;
	size_t n;
	enum rc rc = api(gpusim_devices(cli->g, &list, &n), err);

	if (rc != RC_OK)
		return rc;
	if (index < n)
		*out = list[index].device;
	else
		rc =
		    err_set(err, RC_NOTFOUND, "no device %" PRIu64 ": %zu device%s, counted from 0",
			    index, n, n == 1 ? " is known" : "s are known");
	free(list);
	return rc;
}

enum rc
cli_comm(struct cli *cli, uint64_t id, struct gpusim_comm **out, struct err *err)
{
	enum rc rc = cli_open(cli, err);

	return rc == RC_OK ? api(gpusim_comm_open(cli->g, (struct gpusim_comm_id){id}, out), err)
			   : rc;
}

enum rc
cli_named_comm(struct cli *cli, const struct args *a, struct gpusim_comm **out, struct err *err)
{
	uint64_t id;
	enum rc rc = parse_u64(a->rest[0], 1, UINT64_MAX, &id, err);

	return rc == RC_OK ? cli_comm(cli, id, out, err) : err_prefix(err, "communicator");
}

static enum rc
device_of_rank(struct cli *cli, uint64_t comm, uint64_t rank, struct gpusim_device *out,
	       struct err *err)
{
	struct gpusim_comm *c;
	enum rc rc = cli_comm(cli, comm, &c, err);

	if (rc != RC_OK)
		return rc;
	if (rank < gpusim_comm_count(c))
		*out = gpusim_comm_device(c, (uint32_t)rank);
	else
		rc = err_set(err, RC_NOTFOUND,
			     "communicator %" PRIu64 " has no rank %" PRIu64 ": it has %u ranks",
			     comm, rank, gpusim_comm_count(c));
	gpusim_comm_free(c);
	return rc;
}

enum rc
cli_device(struct cli *cli, const struct args *a, const char *word, struct gpusim_device *out,
	   struct err *err)
{
	size_t len = strlen(word);
	uint64_t v;
	enum rc rc;

	if (!cli_is_device(word, len))
		return err_set(
		    err, RC_INVAL,
		    "'%.64s' is not a device: must be an index in `gpuctl devices`, or an id of 16 "
		    "hexadecimal digits",
		    word);
	if (a->comm) {
		rc = parse_u64(word, 0, UINT32_MAX, &v, err);
		return rc == RC_OK ? device_of_rank(cli, a->comm, v, out, err) : rc;
	}
	rc = cli_open(cli, err);
	if (rc != RC_OK)
		return rc;
	if (len == ID_DIGITS || word[1] == 'x' || word[1] == 'X') {
		char *end;

		errno = 0;
		v = strtoull(word, &end, 16);
		if (errno == ERANGE)
			return err_set(err, RC_INVAL, "'%.64s' is not a device: more than 64 bits",
				       word);
		out->id = v;
		return RC_OK;
	}
	rc = parse_u64(word, 0, INDEX_END - 1, &v, err);
	return rc == RC_OK ? device_at(cli, v, out, err) : rc;
}

const char *
cli_own_device(const struct args *a)
{
	const char *device = a->device ? a->device : getenv("GPUSIM_DEVICE");

	return device && *device ? device : a->device;
}

enum rc
cli_target(struct cli *cli, const struct args *a, struct gpusim_device *out, struct err *err)
{
	struct args alone = {0};
	const char *device = args_given(a, rank) ? a->device : cli_own_device(a);

	if (device && args_given(a, rank))
		return err_set(err, RC_INVAL, "--device: cannot be combined with --rank");
	if (device)
		return cli_device(cli, &alone, device, out, err);
	if (!a->comm || !args_given(a, rank))
		return err_set(
		    err, RC_INVAL,
		    "a device is missing: use --device DEVICE, or --comm ID --rank RANK");
	return device_of_rank(cli, a->comm, a->rank, out, err);
}

enum rc
cli_count_devices(struct cli *cli, bool all, uint32_t *n, struct err *err)
{
	struct gpusim_device_info *list;
	size_t ndevices;
	enum rc rc = cli_open(cli, err);

	if (rc == RC_OK)
		rc = api(gpusim_devices(cli->g, &list, &ndevices), err);
	if (rc != RC_OK)
		return rc;
	*n = 0;
	for (size_t i = 0; i < ndevices; i++)
		*n += !list[i].spare && (all || (list[i].comm.id == 0 && !list[i].lost));
	free(list);
	return RC_OK;
}

static enum rc
nranks_of(const struct args *a, uint32_t *n, struct err *err)
{
	const char *env = getenv(NDEVICES);
	uint32_t made_for = 0;

	if (a->nranks)
		made_for = a->nranks;
	else if (env && *env && parse_u32(env, 1, UINT32_MAX, &made_for, err) != RC_OK)
		return err_prefix(err, NDEVICES);
	*n = made_for;
	return RC_OK;
}

enum rc
cli_need_nranks(const struct args *a, uint32_t *n, struct err *err)
{
	enum rc rc = nranks_of(a, n, err);

	if (rc == RC_OK && *n == 0)
		rc = err_set(err, RC_INVAL,
			     "the number of ranks is missing: use -n N; " NDEVICES
			     ", which 'gpuctl run' sets, is not set");
	return rc;
}

enum rc
cli_nranks_or_all(struct cli *cli, const struct args *a, uint32_t *n, struct err *err)
{
	enum rc rc = nranks_of(a, n, err);

	if (rc != RC_OK || *n)
		return rc;
	rc = cli_count_devices(cli, true, n, err);
	return rc != RC_OK || *n ? rc : err_set(err, RC_FAILED, "no device exists");
}

struct gpusim_comm_config
cli_config(const struct args *a, enum gpusim_life life)
{
	return (struct gpusim_comm_config){
	    GPUSIM_COMM_CONFIG_INIT,	       .life = life,	      .on_failure = a->on_failure,
	    .op_timeout_ms = a->op_timeout_ms, .wait_ms = a->wait_ms, .grid = a->grid};
}

void
cli_note(void)
{
	const char *note = gpusim_note();

	if (*note)
		log_line(LOG_ERROR, "note: %s", note);
}

enum rc
cli_lease_comm(struct cli *cli, const struct args *a, uint32_t n, const char *what,
	       struct gpusim_comm **out, struct err *err)
{
	const struct gpusim_comm_config config = cli_config(a, GPUSIM_LEASE);
	enum rc rc = cli_open(cli, err);

	if (rc != RC_OK)
		return rc;
	rc = hold_comm(cli, n, &config, out, err);
	return rc == RC_OK ? rc : err_prefix(err, "%s", what);
}
